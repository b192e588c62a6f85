"""PushT as LeRobot has it: its keys and defaults, its pixels on a look only, and a checkpoint of LeRobot's."""

from __future__ import annotations

import json
import math
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
from harness import SUPPORT, digests, run_cli
from proctor.benchmarks.gym.env_facts import EnvRecipe, env_facts
from proctor.benchmarks.gym.presets import PushT, PushTSettings
from proctor.benchmarks.protocol import layout_of
from proctor.types import NO_LOOK, Episode

IMAGE, STATE, ENVIRONMENT_STATE = "observation.image", "observation.state", "observation.environment_state"
needs_lerobot = pytest.mark.skipif(not LEROBOT, reason="make test-pusht names LeRobot's interpreter")


def pusht(**settings: Any) -> PushT:
    return PushT(PushTSettings(type="pusht", **settings))


@pytest.mark.parametrize("kind", ["pixels_agent_pos", "pixels", "environment_state_agent_pos", "state"])
def test_the_spec_is_what_the_environment_tells(kind: str) -> None:
    sizes = {"observation_height": 48, "observation_width": 64}
    benchmark = pusht(obs_type=kind, **sizes)
    facts = env_facts(EnvRecipe("gym_pusht/PushT-v0", ("gym_pusht",), {"obs_type": kind, **sizes}))
    spec = benchmark.spec
    assert spec.features == facts.features
    assert (spec.action_size, spec.action_low, spec.action_high) == (facts.form.size, *facts.form.bounds)
    assert (benchmark.fps, benchmark.tasks()[0].max_steps) == (facts.fps, facts.max_steps)


@needs_lerobot
def test_defaults_are_lerobots() -> None:
    theirs, ours = lerobots_config("pusht"), PushTSettings()
    for name in ("task", "obs_type", "episode_length", "visualization_height", "visualization_width"):
        assert getattr(ours, name) == theirs[name]
    (task,) = pusht().tasks()
    assert (f"{PushT.package}/{task.name}", PushT.package) == (theirs["gym_id"], theirs["package"])
    assert PushT.fps == theirs["fps"]
    assert {*pusht().spec.features, "action"} == theirs["keys"].keys()
    assert (task.group, task.task_id) == ("pusht", 0)


def test_pictures_and_numbers_are_those_of_the_environment_that_always_draws() -> None:
    benchmark = pusht()
    (task,), keys = benchmark.tasks(), frozenset(benchmark.spec.features)
    simulator = benchmark.make_simulator(task)
    moves = actions(benchmark)
    drawing_now_and_then(simulator, task, keys, 3, moves, 5)  # another episode first
    ours, rewards = drawing_now_and_then(simulator, task, keys, 14, moves, 7)
    simulator.close()
    theirs, their_rewards = always_drawing("gym_pusht/PushT-v0", {"obs_type": "pixels_agent_pos"}, 14, moves)
    assert rewards == their_rewards
    assert len(set(rewards)) == 8  # the block is pushed
    assert list(ours) == [0, 7, 14, 21, 28, 35]
    for step, seen in ours.items():
        assert np.array_equal(seen[IMAGE], theirs[step]["pixels"])
        assert np.array_equal(seen[STATE], theirs[step]["agent_pos"])
    assert len({seen[IMAGE].tobytes() for seen in ours.values()}) == 6


def test_nothing_is_drawn_without_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = pusht()
    (task,), keys = benchmark.tasks(), frozenset(benchmark.spec.features)
    simulator = benchmark.make_simulator(task)
    inner: Any = simulator._env.unwrapped  # type: ignore[attr-defined]
    drawings, draw = [], inner._draw

    def counted() -> Any:
        drawings.append(1)
        return draw()

    monkeypatch.setattr(inner, "_draw", counted)
    drawing_now_and_then(simulator, task, keys, 1, actions(benchmark), 10)
    assert len(drawings) == 1 + STEPS // 10
    drawing_now_and_then(simulator, task, frozenset({STATE}), 1, actions(benchmark), 1)
    assert len(drawings) == 1 + STEPS // 10
    assert simulator.render().shape == (384, 384, 3)
    simulator.close()


def test_an_episodes_first_frame_shows_nothing_of_the_one_before() -> None:
    benchmark = pusht()
    (task,) = benchmark.tasks()
    simulator = benchmark.make_simulator(task)
    simulator.reset(Episode(task, 0, 5), NO_LOOK)
    first = simulator.render()
    simulator.step(np.array([100, 400], np.float32), NO_LOOK)  # videos mark an action by a cross
    assert not np.array_equal(simulator.render(), first)
    simulator.reset(Episode(task, 0, 5), NO_LOOK)
    assert np.array_equal(simulator.render(), first)
    simulator.close()


def test_an_episode_says_where_agent_and_block_begin() -> None:
    benchmark = pusht(obs_type="state")
    (task,), found = benchmark.tasks(), []
    simulator = benchmark.make_simulator(task)
    for seed in (3, 4, 3):
        simulator.reset(Episode(task, 0, seed), frozenset({STATE}))
        found.append(layout_of(simulator))
        assert list(found[-1]) == ["agent_x", "agent_y", "block_x", "block_y", "block_angle"]
        assert np.allclose(list(found[-1].values()), simulator.observe()[STATE])
    simulator.close()
    assert found[0] == found[2] != found[1]


def test_success_is_a_covered_goal_and_the_next_episode_is_untouched_by_it() -> None:
    benchmark = pusht()
    (task,), keys = benchmark.tasks(), frozenset(benchmark.spec.features)
    simulator = benchmark.make_simulator(task)
    before = drawing_now_and_then(simulator, task, keys, 2, actions(benchmark), 9)
    simulator.reset(Episode(task, 0, 1), NO_LOOK)
    inner: Any = simulator._env.unwrapped  # type: ignore[attr-defined]
    inner.agent.position = (20, 20)
    inner.block.angle = math.pi / 4
    inner.block.position = (256, 256)
    outcome = simulator.step(np.array([20, 20], np.float32), NO_LOOK)
    assert (outcome.success, outcome.terminated, outcome.truncated) == (True, True, False)
    assert outcome.metrics["coverage"] > 0.95
    after = drawing_now_and_then(simulator, task, keys, 2, actions(benchmark), 9)
    simulator.close()
    assert after[1] == before[1]
    assert all(np.array_equal(after[0][step][IMAGE], before[0][step][IMAGE]) for step in before[0])


def test_an_evaluation_from_the_command_line(tmp_path: Path) -> None:
    command = [
        "eval",
        "--policy.type=random",
        "--env.type=pusht",
        "--eval.n_episodes=4",
        "--env.episode_length=60",
    ]
    done = run_cli(*command, "--eval.max_episodes_rendered=1", f"--output_dir={tmp_path / 'one'}")
    assert done.returncode == 0, done.stderr
    info = json.loads((tmp_path / "one/eval_info.json").read_text())
    assert info["per_group"]["pusht"]["n_episodes"] == 4
    assert all(len(one["layout"]) == 5 for one in info["per_episode"])
    assert info["versions"]["gym-pusht"]
    assert (tmp_path / "one/videos/pusht_0/eval_episode_0.mp4").stat().st_size > 1000
    assert run_cli(*command, "--eval.batch_size=3", f"--output_dir={tmp_path / 'three'}").returncode == 0
    assert digests(tmp_path / "one") == digests(tmp_path / "three")


def replayed(run: Path) -> str:
    """Replay a run, and return what was said of it."""
    done = run_cli("replay", str(run))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_stored_actions_give_the_episodes_again_pictures_included(tmp_path: Path) -> None:
    policy = f"--policy.path={SUPPORT / 'gym_policies.py'}:Walker"
    command = ["eval", policy, "--env.type=pusht", "--env.episode_length=40", "--eval.n_episodes=2"]
    assert run_cli(*command, f"--output_dir={tmp_path / 'run'}").returncode == 0
    said = replayed(tmp_path / "run")
    assert "2 of 2 episodes the same" in said
    assert "pixels not" not in said


@needs_lerobot
@pytest.mark.timeout(1200)  # LeRobot alone takes a minute to import where cores are few
def test_a_lerobot_checkpoint_gives_the_same_digests_with_one_and_four_workers(tmp_path: Path) -> None:
    checkpoint = make_checkpoint("pusht", tmp_path / "checkpoint")
    one = run_checkpoint(tmp_path / "one", "pusht", checkpoint, 1, episode_length=60)
    four = run_checkpoint(tmp_path / "four", "pusht", checkpoint, 4, episode_length=60)
    assert one == four
    said = replayed(tmp_path / "one")  # without LeRobot, in this interpreter
    assert "4 of 4 episodes the same" in said
    assert "pixels not" not in said


def test_the_preset_is_the_gym_benchmark_with_settings(tmp_path: Path) -> None:
    """`--env.type=gym` runs the same environment to the same digests; it only draws more."""
    policy = [
        f"--policy.path={SUPPORT / 'gym_policies.py'}:Walker",
        "--eval.n_episodes=2",
        "--env.episode_length=40",
    ]
    plain = ["--env.task=gym_pusht/PushT-v0", "--env.kwargs.obs_type=pixels_agent_pos"]
    for name, env in (("pusht", []), ("gym", plain)):
        done = run_cli("eval", *policy, f"--env.type={name}", *env, f"--output_dir={tmp_path / name}")
        assert done.returncode == 0, done.stderr
    assert list(digests(tmp_path / "pusht").values()) == list(digests(tmp_path / "gym").values())


def test_it_keeps_the_contract_of_a_benchmark() -> None:
    assert [str(result) for result in proctor.check_benchmark("pusht", steps=12) if not result.ok] == []
