"""ALOHA as LeRobot has it: its keys and defaults, one camera on a look only, and a checkpoint of LeRobot's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proctor
from gym_runs import (
    LEROBOT,
    STEPS,
    actions,
    always_drawing,
    drawing_now_and_then,
    lerobots_config,
    make_checkpoint,
    run_checkpoint,
)
from harness import digests, run_cli
from proctor.benchmarks.gym.env_facts import EnvRecipe, env_facts
from proctor.benchmarks.gym.presets import Aloha, AlohaSettings
from proctor.benchmarks.protocol import layout_of
from proctor.types import NO_LOOK, Episode

TOP, STATE = "observation.images.top", "observation.state"
BOTH = "AlohaInsertion-v0,AlohaTransferCube-v0"
SMALL = {"observation_height": 60, "observation_width": 80}
needs_lerobot = pytest.mark.skipif(not LEROBOT, reason="make test-aloha names LeRobot's interpreter")


def aloha(**settings: Any) -> Aloha:
    return Aloha(AlohaSettings(type="aloha", **settings))


@pytest.mark.parametrize("name", BOTH.split(","))
def test_the_spec_is_what_the_environment_tells(name: str) -> None:
    benchmark = aloha(task=name)
    facts = env_facts(EnvRecipe(f"gym_aloha/{name}", ("gym_aloha",), {"obs_type": "pixels_agent_pos"}))
    assert benchmark.spec.features == facts.features
    spec = benchmark.spec
    assert (spec.action_size, spec.action_low, spec.action_high) == (facts.form.size, *facts.form.bounds)
    assert benchmark.fps == facts.fps
    assert benchmark.tasks()[0].prompt == facts.prompt


@needs_lerobot
def test_defaults_are_lerobots() -> None:
    theirs, ours = lerobots_config("aloha"), AlohaSettings()
    for name in ("task", "obs_type", "episode_length", "observation_height", "observation_width"):
        assert getattr(ours, name) == theirs[name]
    (task,) = aloha().tasks()
    assert (f"{Aloha.package}/{task.name}", Aloha.package) == (theirs["gym_id"], theirs["package"])
    assert Aloha.fps == theirs["fps"]
    assert {key: list(f.shape) for key, f in aloha().spec.features.items()} | {"action": [14]} == theirs["keys"]
    assert (task.group, task.task_id) == ("aloha", 0)


@pytest.mark.parametrize("name", BOTH.split(","))
def test_pictures_and_numbers_are_those_of_the_environment_that_always_draws(name: str) -> None:
    benchmark = aloha(task=name)
    (task,), keys = benchmark.tasks(), frozenset(benchmark.spec.features)
    moves = actions(benchmark, 12)
    simulator = benchmark.make_simulator(task)
    drawing_now_and_then(simulator, task, keys, 3, moves[:4], 2)  # another episode first
    ours, rewards = drawing_now_and_then(simulator, task, keys, 11, moves, 5)
    simulator.close()  # two that draw in one process would be too many
    theirs, their_rewards = always_drawing(f"gym_aloha/{name}", {"obs_type": "pixels_agent_pos"}, 11, moves)
    assert rewards == their_rewards
    assert list(ours) == [0, 5, 10]
    for step, seen in ours.items():
        assert np.array_equal(seen[TOP], theirs[step]["pixels"]["top"])
        assert np.array_equal(seen[STATE], theirs[step]["agent_pos"])
    assert len({seen[TOP].tobytes() for seen in ours.values()}) == 3


def test_other_tasks_in_the_same_process_leave_no_trace() -> None:
    """The objects' places go through a global variable of the package."""
    benchmark = aloha(task=BOTH, **SMALL)
    insertion, transfer = benchmark.tasks()
    keys, moves = frozenset(benchmark.spec.features), actions(benchmark, 6)
    seen = []
    for task, seed in ((insertion, 1), (transfer, 2), (insertion, 1), (insertion, 5), (insertion, 1)):
        simulator = benchmark.make_simulator(task)
        drawing_now_and_then(simulator, transfer, keys, 9, moves[:2], 1)
        found, rewards = drawing_now_and_then(simulator, task, keys, seed, moves, 3)
        seen.append((rewards, [(one[TOP].tobytes(), one[STATE].tobytes()) for one in found.values()]))
        simulator.close()
    assert seen[0] == seen[2] == seen[4]
    assert seen[0] != seen[3]


def test_one_camera_is_drawn_on_a_look_and_none_without() -> None:
    benchmark = aloha(**SMALL)
    (task,), keys = benchmark.tasks(), frozenset(benchmark.spec.features)
    simulator = benchmark.make_simulator(task)
    physics: Any = simulator._env.unwrapped._env.physics  # type: ignore[attr-defined]
    cameras, draw = [], physics.render

    def counted(**options: Any) -> Any:
        cameras.append(options["camera_id"])
        return draw(**options)

    physics.render = counted
    drawing_now_and_then(simulator, task, keys, 1, actions(benchmark), 10)
    assert cameras == ["top"] * (1 + STEPS // 10)
    frame = simulator.render()  # the last step was looked at
    assert frame.shape == (60, 80, 3)
    assert len(cameras) == 1 + STEPS // 10
    drawing_now_and_then(simulator, task, frozenset({STATE}), 1, actions(benchmark), 1)
    assert len(cameras) == 1 + STEPS // 10
    simulator.close()


def test_success_ends_an_episode() -> None:
    benchmark = aloha(**SMALL)
    (task,) = benchmark.tasks()
    simulator = benchmark.make_simulator(task)
    simulator.reset(Episode(task, 0, 1), NO_LOOK)
    quiet = np.zeros(14, np.float32)
    outcome = simulator.step(quiet, NO_LOOK)
    assert (outcome.success, outcome.terminated) == (False, False)
    dm_task: Any = simulator._env.unwrapped._env.task  # type: ignore[attr-defined]
    dm_task.get_reward = lambda physics: 4
    outcome = simulator.step(quiet, NO_LOOK)
    assert (outcome.reward, outcome.success, outcome.terminated) == (4.0, True, True)
    simulator.close()


def test_an_evaluation_from_the_command_line_without_any_drawing(tmp_path: Path) -> None:
    flags = ["--policy.type=random", "--env.type=aloha", f"--env.task={BOTH}", "--env.episode_length=20"]
    command = ["eval", *flags, "--eval.n_episodes=2"]
    done = run_cli(*command, f"--output_dir={tmp_path / 'one'}")
    assert done.returncode == 0, done.stderr
    info = json.loads((tmp_path / "one/eval_info.json").read_text())
    assert info["per_group"]["aloha"]["n_episodes"] == 4
    assert info["timing"]["draw_s"] == 0
    assert info["versions"]["gym-aloha"]
    # A worker that draws nothing loads no GL.
    assert run_cli(*command, "--eval.batch_size=3", f"--output_dir={tmp_path / 'three'}").returncode == 0
    assert digests(tmp_path / "one") == digests(tmp_path / "three")
    assert "4 of 4 episodes the same" in replayed(tmp_path / "one")


def test_an_episode_says_where_cube_peg_and_socket_lie() -> None:
    from gym_aloha.utils import sample_box_pose, sample_insertion_pose

    benchmark = aloha(task=BOTH)
    for task in benchmark.tasks():
        simulator = benchmark.make_simulator(task)
        for seed in (5, 6, 5):
            simulator.reset(Episode(task, 0, seed), NO_LOOK)
            things = sample_insertion_pose(seed) if "Insertion" in task.name else (sample_box_pose(seed),)
            names = ("peg", "socket") if "Insertion" in task.name else ("box",)
            expected = {
                f"{name}_{axis}": place
                for name, pose in zip(names, things, strict=True)
                for axis, place in zip("xy", pose, strict=False)
            }
            assert layout_of(simulator) == expected
        simulator.close()


def replayed(run: Path) -> str:
    """Replay the stored actions of a run, and return what was said of it."""
    done = run_cli("replay", str(run))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_as_any_gym_environment_it_draws_unasked_and_is_given_a_gl(tmp_path: Path) -> None:
    flags = ["--env.type=gym", "--env.task=gym_aloha/AlohaInsertion-v0", "--env.kwargs.obs_type=pixels_agent_pos"]
    more = ["--policy.type=random", "--env.episode_length=2", "--eval.n_episodes=1"]
    done = run_cli("eval", *flags, *more, f"--output_dir={tmp_path / 'run'}")
    assert done.returncode == 0, done.stderr
    (record,) = json.loads((tmp_path / "run/eval_info.json").read_text())["per_episode"]
    assert (record["status"], record["steps"], record["success"]) == ("finished", 2, False)


@needs_lerobot
@pytest.mark.timeout(1200)  # LeRobot alone takes a minute to import where cores are few
def test_a_lerobot_checkpoint_gives_the_same_digests_with_one_and_four_workers(tmp_path: Path) -> None:
    checkpoint = make_checkpoint("aloha", tmp_path / "checkpoint")
    env = {**SMALL, "episode_length": 24, "task": BOTH}
    one = run_checkpoint(tmp_path / "one", "aloha", checkpoint, 1, **env)
    four = run_checkpoint(tmp_path / "four", "aloha", checkpoint, 4, **env)
    assert one == four
    said = replayed(tmp_path / "one")  # without LeRobot, in this interpreter
    assert "8 of 8 episodes the same" in said
    assert "pixels not" not in said


def test_it_keeps_the_contract_of_a_benchmark() -> None:
    checked = proctor.check_benchmark("aloha", env={"task": BOTH, **SMALL}, steps=8)
    assert [str(result) for result in checked if not result.ok] == []
