"""Every episode keeps the actions that its simulator was given, however it is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from harness import SUPPORT, digests, run_tiny
from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.benchmarks.protocol import layout_of
from proctor.engine.merging import merge_runs
from proctor.engine.meter import Meter
from proctor.engine.rollout import LocalActor, PolicyView, run_episode
from proctor.errors import SimulatorError
from proctor.policies.baselines import RandomPolicy
from proctor.store.episodes import EpisodeTable
from proctor.store.trajectories import unpack_trajectory
from proctor.types import NO_LOOK, BenchmarkSpec, Episode, EpisodeKey, Look, Observation, Outcome, Task


def stored(run: Path) -> dict[EpisodeKey, bytes]:
    """Return the packed trajectories of a run's finished episodes."""
    with EpisodeTable(run / "run.sqlite", read_only=True) as table:
        return {key: table.packed_trajectory(key) for key in digests(run)}


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("quiet") / "run"
    run_tiny(run)
    return run


def test_actions_rewards_and_the_beginning_are_kept(quiet: Path) -> None:
    with EpisodeTable(quiet / "run.sqlite", read_only=True) as table:
        for record in list(table.records()):
            trajectory = table.trajectory(record.key)
            assert trajectory is not None
            (actions,) = trajectory.actions
            assert actions.shape == (record.steps, 2)
            assert float(np.sum(trajectory.rewards)) == pytest.approx(record.sum_reward)
            assert trajectory.succeeded == (record.steps if record.success else None)
            assert record.layout.keys() == {"x", "y"}
        assert table.meta("policy_spec")["observation_keys"] is not None


@pytest.mark.parametrize(
    "how",
    [
        {"eval": {"batch_size": 1}},
        {"eval": {"use_async_envs": False}},
        {"policy": {"placement": "central"}},
        {"env": {"mischief": "step.kill!:b:2:3 step.raise!:a:1:2"}},
    ],
)
def test_the_same_are_kept_however_it_is_run(quiet: Path, tmp_path: Path, how: dict[str, Any]) -> None:
    run_tiny(tmp_path / "run", **how)
    assert stored(tmp_path / "run") == stored(quiet)


def test_shards_and_resumed_runs_keep_them(quiet: Path, tmp_path: Path) -> None:
    for number in range(2):
        run_tiny(tmp_path / "run", n_episodes=2, eval={"shard_id": number, "num_shards": 2})
    merge_runs([tmp_path / "run"])
    run_tiny(tmp_path / "run")
    assert stored(tmp_path / "run") == stored(quiet)


def test_an_error_that_is_tried_again_gets_them_too(quiet: Path, tmp_path: Path) -> None:
    broken = run_tiny(tmp_path / "run", env={"mischief": "step.raise:b:2:3"}, eval={"max_attempts": 1})
    assert broken.results.ended.errors == 1
    run_tiny(tmp_path / "run")
    assert stored(tmp_path / "run") == stored(quiet)


def test_they_can_be_left_out(quiet: Path, tmp_path: Path) -> None:
    run_tiny(tmp_path / "run", eval={"store_actions": False})
    assert set(stored(tmp_path / "run").values()) == {b""}
    assert digests(tmp_path / "run") == digests(quiet)


class Greedy:
    """A simulator that writes into the action it is given, and has a layout of any kind."""

    def __init__(self, layout: Any = None) -> None:
        self._layout = layout

    def reset(self, episode: Episode, look: Look) -> None:
        pass

    def layout(self) -> Any:
        return self._layout

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        action[:] = 0
        return Outcome(0.0, False, False, None)

    def observe(self) -> Observation:
        return {}


def test_what_is_kept_is_the_action_as_it_was_given() -> None:
    spec = BenchmarkSpec("greedy", {}, action_size=2)
    policy = RandomPolicy(spec)
    episode = Episode(Task("t", 0, "t", "", 5, reports_success=False), 0, 1000)
    view = PolicyView.of(policy.spec, spec, keeps=True)
    greedy: Any = Greedy({})
    record = run_episode(greedy, episode, LocalActor(policy, 2), view, Meter())
    (actions,) = unpack_trajectory(record.trajectory).actions
    assert (actions != 0).all()


@pytest.mark.parametrize(
    "layout", [None, 7, {"x": "far"}, {"x": np.nan}, {3: 1.0}, {str(n): 0 for n in range(65)}]
)
def test_a_layout_is_named_numbers(layout: Any) -> None:
    with pytest.raises(SimulatorError, match="layout"):
        layout_of(Greedy(layout))


def test_a_layout_passes_through_processors(tmp_path: Path) -> None:
    env = {"type": f"{SUPPORT / 'processed.py'}:ProcessedTiny"}
    evaluation = run_tiny(
        tmp_path / "run", policy={"path": f"{SUPPORT / 'processed.py'}:Follows"}, env=env, task="a"
    )
    assert {tuple(record.layout) for record in evaluation.records} == {("x", "y")}


def test_meta_world_says_where_goal_and_object_are() -> None:
    pytest.importorskip("metaworld")
    benchmark = MetaWorld(MetaWorldSettings(type="metaworld", task="pick-place-v3", obs_type="state"))
    (task,) = benchmark.tasks()
    simulator: Any = benchmark.make_simulator(task)
    layouts = []
    for index in (0, 1, 0):
        simulator.reset(Episode(task, index, 1000 + index), NO_LOOK)
        layouts.append(layout_of(simulator))
    simulator.close()
    assert layouts[0] == layouts[2] != layouts[1]
    assert list(layouts[0]) == ["goal_x", "goal_y", "goal_z", "object_x", "object_y", "object_z"]
