"""Any Gymnasium environment through the engine: spaces, success, seeds, drawing, and plain words for mistakes."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import SUPPORT, digests, flags, run_cli
from proctor.benchmarks.facts import BenchmarkFacts, learn
from proctor.benchmarks.gym.benchmark import Gym, GymSettings
from proctor.benchmarks.rendering import find_renderer
from proctor.config.load import build_settings, settings_from_flags
from proctor.config.registry import benchmark_path
from proctor.engine.evaluation import evaluate_settings
from proctor.errors import NoPicturesError, UsageError
from proctor.events import Watcher
from proctor.replay.run_films import film_run
from proctor.report.console import PatientConsole
from proctor.report.summary import print_summary
from proctor.results import Evaluation
from proctor.types import NO_LOOK, Episode

POLICIES = SUPPORT / "gym_policies.py"
FRONT, WRIST, STATE = "observation.images.front", "observation.images.wrist", "observation.state"


def tree(output_dir: Path, task: str, kind: str = "random", workers: int = 1, **changes: Any) -> dict[str, Any]:
    env: Mapping[str, Any] = changes.pop("env", {})
    package = {"package": "gym_rooms"} if task.startswith("rooms/") else {}
    named = {"path": f"{POLICIES}:{kind}"} if kind[0].isupper() else {"type": kind}
    return {
        "policy": {**named, **changes.pop("policy", {})},
        "env": {"type": "gym", "task": task, **package, **env},
        "eval": {"n_episodes": 4, "batch_size": workers, **changes.pop("eval", {})},
        "output_dir": str(output_dir),
        "display": "none",
        **changes,
    }


def run(output_dir: Path, task: str, kind: str = "random", workers: int = 1, **changes: Any) -> Evaluation:
    settings = build_settings(tree(output_dir, task, kind, workers, **changes))
    evaluation = film_run(evaluate_settings(settings), settings, Watcher())
    assert evaluation.error is None, evaluation.error
    assert all(record.status == "finished" for record in evaluation.records), evaluation.records
    return evaluation


def facts(task: str, **settings: Any) -> BenchmarkFacts:
    package = {"package": "gym_rooms"} if "rooms/" in task else {}
    return learn(benchmark_path("gym"), GymSettings(**{"type": "gym", "task": task, **package, **settings}))


def test_a_classic_from_the_command_line(tmp_path: Path) -> None:
    arguments = ["--env.type=gym", "--env.task=CartPole-v1", "--policy.type=random", "--eval.n_episodes=5"]
    done = run_cli("eval", *arguments, f"--output_dir={tmp_path / 'run'}")
    assert done.returncode == 0, done.stderr
    assert "--env.success_key" in done.stdout  # CartPole tells no success, so there must be no rate
    assert "0.0 %" not in done.stdout
    info = json.loads((tmp_path / "run/eval_info.json").read_text())
    assert info["overall"]["pc_success"] is None
    assert info["overall"]["n_episodes"] == 5
    assert info["overall"]["avg_sum_reward"] > 5
    assert info["per_task"][0]["metrics"]["successes"] == [None] * 5
    assert info["intervals"]["overall"]["n_episodes"] == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("task", "policy"), [("Pendulum-v1", "random"), ("rooms/Careless-v0", "Walker")])
def test_digests_are_those_of_one_worker_for_three_and_fresh_and_in_one_process(
    tmp_path: Path, task: str, policy: str
) -> None:
    one = run(tmp_path / "one", task, policy, env={"episode_length": 20})
    three = run(tmp_path / "three", task, policy, workers=3, env={"episode_length": 20})
    fresh = run(tmp_path / "fresh", task, policy, env={"episode_length": 20, "fresh": True})
    assert len(set(digests(one).values())) == 4
    assert digests(one) == digests(three) == digests(fresh)
    if task.startswith("rooms/"):
        return
    again = tree(tmp_path / "inline", task, policy, env={"episode_length": 20}, eval={"use_async_envs": False})
    # As a command: it seeds the global generators of its process.
    subprocess.run([sys.executable, "-m", "proctor", "eval", *flags(again)], check=True, env=_environment())
    assert digests(tmp_path / "inline") == digests(one)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{SUPPORT}"}


def test_an_environment_that_carries_something_over_can_be_made_anew_for_every_episode(tmp_path: Path) -> None:
    simulator_of = {
        fresh: Gym(GymSettings(type="gym", task="rooms/Leaky-v0", package="gym_rooms", fresh=fresh))
        for fresh in (False, True)
    }
    seen: dict[bool, list[Any]] = {}
    for fresh, benchmark in simulator_of.items():
        (task,) = benchmark.tasks()
        simulator = benchmark.make_simulator(task)
        seen[fresh] = []
        for _ in range(3):
            simulator.reset(Episode(task, 0, 5), frozenset({STATE}))
            seen[fresh].append(simulator.observe()[STATE].tolist())
        simulator.close()
    assert len({tuple(place) for place in seen[False]}) == 3
    assert seen[True] == [seen[False][0]] * 3


def test_an_index_is_an_action_and_one_that_there_is_not_ends_the_run(tmp_path: Path) -> None:
    balanced = run(tmp_path / "balanced", "CartPole-v1", "Balancer")
    assert min(record.steps for record in balanced.records) > 20  # a random policy falls at about 20
    wild = evaluate_settings(build_settings(tree(tmp_path / "wild", "CartPole-v1", "Wild")))
    assert wild.error is not None
    assert "returned [7]; whole numbers from 0 to 1 are actions here (task CartPole-v1, episode" in str(wild.error)
    assert not wild.records


@pytest.mark.parametrize("name", ["Switch", "Switches", "Buttons", "Knobs", "Steps", "Goal", "Film"])
def test_a_random_policy_runs_on_every_action_space(tmp_path: Path, name: str) -> None:
    # The environment itself asserts that its space contains each action.
    evaluation = run(tmp_path / "run", f"rooms/{name}-v0", eval={"n_episodes": 1, "use_async_envs": False})
    assert evaluation.records[0].steps == 30
    assert evaluation.records[0].success is False


@pytest.mark.parametrize("task", ["FrozenLake-v1", "Taxi-v4", "MountainCarContinuous-v0"])
def test_classics_that_need_nothing_but_gymnasium(tmp_path: Path, task: str) -> None:
    eval = {"n_episodes": 2, "use_async_envs": False}
    evaluation = run(tmp_path / "run", task, env={"episode_length": 50}, eval=eval)
    assert all(0 < record.steps <= 50 for record in evaluation.records)


def test_what_an_environment_tells() -> None:
    told = facts("rooms/Plain-v0")
    assert {key: (f.shape, f.dtype, f.drawn) for key, f in told.spec.features.items()} == {
        "observation.state": ((2,), "float32", False),
        "observation.environment_state": ((3,), "float64", False),
        FRONT: ((8, 6, 3), "uint8", True),
        WRIST: ((8, 6, 3), "uint8", True),
        "observation.mood": ((1,), "int64", False),
        "observation.arm.joints": ((4,), "int8", False),
    }
    assert (told.spec.action_size, told.spec.action_low, told.spec.action_high) == (2, (-1.0, 0.0), (1.0, 5.0))
    assert (told.fps, told.no_frames, told.uses_gl, told.draws_on_look) == (20, "", False, False)
    assert facts("rooms/Lazy-v0").draws_on_look
    (task,) = told.tasks
    assert (task.group, task.task_id, task.prompt, task.max_steps) == ("rooms/Plain-v0", 0, "cross the room", 30)
    assert told.versions.keys() >= {"gymnasium", "numpy"}


def test_step_limit_and_prompt_can_be_set() -> None:
    (task,) = facts("rooms/Endless-v0", episode_length=7, prompt="go").tasks
    assert (task.max_steps, task.prompt) == (7, "go")


def test_several_tasks_are_groups_of_their_own_if_their_spaces_agree(tmp_path: Path) -> None:
    evaluation = run(tmp_path / "run", "rooms/Plain-v0,rooms/Quiet-v0", "Walker")
    assert {record.task_group for record in evaluation.records} == {"rooms/Plain-v0", "rooms/Quiet-v0"}
    # The one that tells no success does not water down the rate of the other.
    told = [record.success for record in evaluation.records if record.task == "rooms/Plain-v0"]
    assert evaluation.info["intervals"]["overall"]["n_episodes"] == 4
    assert evaluation.info["overall"]["pc_success"] == 25 * sum(map(bool, told))
    assert evaluation.info["per_group"]["rooms/Quiet-v0"]["pc_success"] is None
    console = PatientConsole(width=120, file=io.StringIO())
    print_summary(console, evaluation)
    assert isinstance(console.file, io.StringIO)
    assert "rooms/Quiet-v0: the environment reports no success flag" in console.file.getvalue()


def test_who_reports_success_only_when_it_happens_has_failures_too(tmp_path: Path) -> None:
    env = {"success_key": "final.outcome", "metrics": "deep.height"}
    found = run(tmp_path / "run", "rooms/Boastful-v0", "Blind", env=env, eval={"n_episodes": 12})
    outcomes = [record.success for record in found.records]
    assert set(outcomes) == {True, False}
    rate = found.info["intervals"]["overall"]
    assert (rate["successes"], rate["n_episodes"]) == (outcomes.count(True), 12)
    assert all((record.metrics["deep.height"] > 2) is bool(record.success) for record in found.records)


def test_whether_success_is_reported_is_known_before_the_first_episode() -> None:
    def told(task: str, **settings: Any) -> list[bool]:
        return [task.reports_success for task in facts(task, **settings).tasks]

    assert told("rooms/Plain-v0") == [True]
    assert told("rooms/Plain-v0,rooms/Quiet-v0") == [True, False]
    assert told("rooms/Boastful-v0") == [False], "it reports its success under another name, and only then"
    assert told("rooms/Boastful-v0", success_key="final.outcome") == [True]
    assert told("rooms/Plain-v0", success_key="none") == [False]


def test_a_flag_that_is_named_and_not_seen_is_told_of_with_what_there_is() -> None:
    (note,) = facts("rooms/Plain-v0", success_key="is_sucess").notes
    assert "had no such entry in info, which had drawings, deep, is_success" in note
    assert "Did you mean 'is_success'?" in note
    assert facts("rooms/Plain-v0", success_key="is_success").notes == ()


def test_an_environment_that_cannot_be_tried_is_asked_of_the_user() -> None:
    with pytest.raises(UsageError, match=r"could not be found out .*stuck"):
        facts("rooms/Stuck-v0")
    (task,) = facts("rooms/Stuck-v0", success_key="none").tasks
    assert not task.reports_success


def test_typed_arguments_reach_the_environment(tmp_path: Path) -> None:
    settings = settings_from_flags(
        [
            "--policy.type=random", "--env.type=gym", "--env.task=rooms/Plain-v0", "--env.package=gym_rooms",
            "--env.kwargs.reach=1e-3", "--env.kwargs.careless=true", "--env.kwargs.success=won",
            "--env.kwargs.list=[1, 2.5, x]", "--env.kwargs.deep.er={a: null}", "--env.kwargs.n=3",
        ]
    )  # fmt: skip
    assert isinstance(settings.env, GymSettings)
    deep = {"er": {"a": None}}
    plain = {"reach": 1e-3, "careless": True, "success": "won", "list": [1, 2.5, "x"], "n": 3}
    assert settings.env.kwargs == {**plain, "deep": deep}
    near = run(tmp_path / "near", "rooms/Plain-v0", "Blind", env={"kwargs": {"reach": -50.0}})
    assert [(record.steps, record.success) for record in near.records] == [(1, True)] * 4


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"task": "CartPol-v1"}, r"--env.task=CartPol-v1: .*Did you mean: `CartPole`.*--env\.package"),
        ({"task": "CartPole-v99"}, r"--env.task=CartPole-v99: .*`v1`[^-]*$"),
        ({"task": "gym_nowhere/Thing-v0"}, r"gym_nowhere.*--env\.package=NAME"),
        (
            {"task": "CartPole-v1", "package": "gym_nowhere"},
            r"--env\.package=gym_nowhere: there is no such package",
        ),
        ({"task": ""}, r"--env\.task is missing"),
        ({"task": "CartPole-v1", "kwargs": {"colour": "red"}}, r"CartPole-v1 cannot be opened: .*colour"),
        ({"task": "rooms/Endless-v0"}, r"no step limit. Set one: --env\.episode_length"),
        ({"task": "rooms/Both-v0"}, r"actions of a Tuple space"),
        ({"task": "rooms/Row-v0"}, r"observations of a Sequence space"),
        ({"task": "CartPole-v1,Pendulum-v1"}, r"CartPole-v1 and Pendulum-v1 differ"),
        ({"task": "rooms/Switch-v0", "render_as": "observation.image"}, r"cannot be drawn as an array"),
        ({"task": "rooms/Film-v0", "render_as": "observation.image"}, r"observation of that name"),
    ],
)
def test_mistakes_are_told_before_anything_starts(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        facts(**settings)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("task", ["gym_rooms/Plain-v0", "gym_rooms:rooms/Plain-v0"])
def test_a_namespace_may_be_the_package_and_so_may_what_stands_before_a_colon(task: str) -> None:
    told = learn(benchmark_path("gym"), GymSettings(type="gym", task=task))
    assert [task.name for task in told.tasks] == [task]


def test_frames_can_be_the_policys_camera_and_are_drawn_on_a_look_only(monkeypatch: pytest.MonkeyPatch) -> None:
    # A run asks in a process of its own. Here another test may have imported it, and then nothing is drawn to ask.
    monkeypatch.delitem(sys.modules, "mujoco", raising=False)
    settings = GymSettings(type="gym", task="rooms/Lazy-v0", package="gym_rooms", render_as="observation.image")
    benchmark = Gym(settings)
    assert benchmark.spec.features["observation.image"].drawn
    (task,) = benchmark.tasks()
    simulator = benchmark.make_simulator(task)
    room: Any = simulator._env.unwrapped  # type: ignore[attr-defined]
    look = frozenset({"observation.image"})
    simulator.reset(Episode(task, 0, 1), look)
    assert room.drawings == 0
    image = simulator.observe()["observation.image"]
    assert (image == simulator.render()).all()
    assert room.drawings == 1
    simulator.step(np.array([0.1, 0.2]), NO_LOOK)
    assert room.drawings == 1
    simulator.close()


def test_one_that_can_leave_drawing_out_is_told_what_is_looked_at_and_gives_the_same(tmp_path: Path) -> None:
    # In the worker: no simulator is built, and drawn, while the policy loads.
    counted: dict[str, Any] = {"env": {"metrics": "drawings"}, "eval": {"n_episodes": 1}}
    counted["policy"] = {"placement": "worker"}
    plain = run(tmp_path / "plain", "rooms/Plain-v0", "Walker", **counted)
    lazy = run(tmp_path / "lazy", "rooms/Lazy-v0", "Walker", **counted)
    (always,), (on_a_look,) = plain.records, lazy.records
    assert always.steps == on_a_look.steps
    assert list(digests(plain).values()) == list(digests(lazy).values())
    # Two cameras: at the reset and after every step, or at the reset and after every fourth step but the last.
    assert always.metrics["drawings"] == 2 * always.steps  # told before the last step is drawn
    assert on_a_look.metrics["drawings"] == 2 * math.ceil(on_a_look.steps / 4)
    blind = run(tmp_path / "blind", "rooms/Lazy-v0", "Blind", **counted)
    assert blind.records[0].metrics["drawings"] == 0


def test_videos_play_at_the_environments_pace_or_are_left_out_where_it_cannot_draw(tmp_path: Path) -> None:
    import av

    evaluation = run(
        tmp_path / "run", "rooms/Plain-v0", "Blind", eval={"n_episodes": 1, "max_episodes_rendered": 1}
    )
    (record,) = evaluation.records
    assert record.video_path is not None
    with av.open(str(evaluation.directory / record.video_path)) as video:
        assert video.streams.video[0].average_rate == 20
    mute = run(tmp_path / "mute", "rooms/Switch-v0", eval={"n_episodes": 1, "max_episodes_rendered": 1})
    assert mute.records[0].video_path is None
    assert "cannot be drawn as an array" in facts("rooms/Switch-v0").no_frames
    assert "the lamp is broken" in facts("rooms/Plain-v0", kwargs={"dark": True}).no_frames


_DRAWN = """
import hashlib
import gymnasium
import numpy as np
from proctor.benchmarks.gym.benchmark import Gym, GymSettings
from proctor.types import NO_LOOK, Episode, Task
IMAGE, size, name = "observation.image", {"height": 48, "width": 64}, "HalfCheetah-v5"
move, look, task = np.full(6, 0.3, np.float32), frozenset({IMAGE}), Task(name, 0, name, "", 1000)
def show(picture): print(hashlib.sha256(np.ascontiguousarray(picture).tobytes()).hexdigest())
env = gymnasium.make(name, render_mode="rgb_array", **size)
env.reset(seed=2)
env.render()
for _ in range(8):
    env.step(move)
show(env.render())
env.close()
simulator = Gym(GymSettings(type="gym", task=name, render_as=IMAGE, kwargs=size)).make_simulator(task)
for seed in (2, 1, 2):
    simulator.reset(Episode(task, 0, seed), NO_LOOK)
    for step in range(8):
        simulator.step(move, look if step == 7 else NO_LOOK)
    show(simulator.observe()[IMAGE])
simulator.close()
"""


@pytest.mark.gl
def test_mujocos_free_camera_stands_where_it_would_in_a_new_environment_that_always_draws() -> None:
    try:
        environment = {**os.environ, **find_renderer().env}
    except NoPicturesError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [sys.executable, "-c", _DRAWN], capture_output=True, text=True, check=True, env=environment
    )
    always, fresh, other, reused = done.stdout.split()
    assert always == fresh == reused
    assert always != other


def test_planning_imports_no_gymnasium_here() -> None:
    code = (
        "import sys\n"
        "from proctor.config.load import settings_from_flags\n"
        "from proctor.engine.preparation import Preparation\n"
        "from pathlib import Path\n"
        "s = settings_from_flags(['--policy.type=random', '--env.type=gym', '--env.task=CartPole-v1'])\n"
        "print(Preparation(s, Path('.')).facts.tasks[0].max_steps, 'gymnasium' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["500", "False"]
