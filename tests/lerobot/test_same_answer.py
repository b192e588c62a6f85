"""An episode's result is the same bits however it is run, and the bits of LeRobot's own loop."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import digests
from runs import Result, evaluate, lerobots_own

from proctor.benchmarks.protocol import EpisodeKey
from proctor.engine.evaluation import Evaluation

Checkpoint = Callable[[str], Path]

KINDS = ("act", "diffusion", "ensemble", "smolvla")
# A temporal ensemble is drawn at every step.
SMALL = {"ensemble": {"env": {"task": "reach-v3"}, "eval": {"n_episodes": 2}}}


def options(kind: str, **changes: dict[str, object]) -> dict[str, dict[str, object]]:
    merged: dict[str, dict[str, object]] = {section: dict(values) for section, values in SMALL.get(kind, {}).items()}
    for section, values in changes.items():
        merged[section] = {**merged.get(section, {}), **values}
    return merged


@pytest.fixture(scope="module")
def alone(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Evaluation]:
    """Each checkpoint evaluated by one worker: what every other way must equal."""
    made: dict[str, Evaluation] = {}

    def get(kind: str) -> Evaluation:
        if kind not in made:
            place = tmp_path_factory.mktemp(f"alone-{kind}") / "run"
            made[kind] = evaluate(place, checkpoint(kind), **options(kind, eval={"batch_size": 1}))
        return made[kind]

    return get


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_as_lerobots_own_loop_on_each_episode_alone(
    kind: str, checkpoint: Checkpoint, alone: Callable[[str], Evaluation]
) -> None:
    evaluation = alone(kind)
    ours = {r.key: Result(r.steps, bool(r.success), r.sum_reward, r.max_reward) for r in evaluation.records}
    chosen = [episode for episode in evaluation.plan if episode.index < 1]
    theirs: dict[EpisodeKey, Result] = {
        episode.key: lerobots_own(checkpoint(kind), episode) for episode in chosen
    }
    assert theirs == {key: ours[key] for key in theirs}


@pytest.mark.parametrize("workers", [3, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_workers(
    kind: str, workers: int, tmp_path: Path, checkpoint: Checkpoint, alone: Callable[[str], Evaluation]
) -> None:
    changed = options(kind, eval={"batch_size": workers}, policy={"placement": "central"})
    evaluation = evaluate(tmp_path / "run", checkpoint(kind), **changed)
    assert digests(evaluation) == digests(alone(kind))


@pytest.mark.parametrize("kind", ["act", "diffusion"])
def test_a_copy_in_every_worker(
    kind: str, tmp_path: Path, checkpoint: Checkpoint, alone: Callable[[str], Evaluation]
) -> None:
    evaluation = evaluate(tmp_path / "run", checkpoint(kind), policy={"placement": "worker"})
    assert digests(evaluation) == digests(alone(kind))


def test_two_hosts(tmp_path: Path, checkpoint: Checkpoint, alone: Callable[[str], Evaluation]) -> None:
    evaluation = evaluate(tmp_path / "run", checkpoint("act"), policy={"device": "cpu,cpu"}, eval={"batch_size": 4})
    assert digests(evaluation) == digests(alone("act"))
    assert (tmp_path / "run/logs/host-1.log").exists()


def test_everything_in_one_process(
    tmp_path: Path, checkpoint: Checkpoint, alone: Callable[[str], Evaluation]
) -> None:
    # In a process of its own: it sets torch and GL up for all that follows.
    import subprocess
    import sys

    from harness import flags
    from runs import settings_tree

    tree = settings_tree(tmp_path / "run", checkpoint("diffusion"), eval={"use_async_envs": False})
    subprocess.run([sys.executable, "-m", "proctor.cli", "eval", *flags(tree)], check=True, timeout=200)
    assert digests(tmp_path / "run") == digests(alone("diffusion"))


@pytest.mark.skipif("PROCTOR_SIM_PYTHON" not in os.environ, reason="make test-lerobot names a second interpreter")
@pytest.mark.parametrize("kind", ["act", "diffusion", "ensemble"])
def test_through_another_interpreter(
    kind: str, tmp_path: Path, checkpoint: Checkpoint, alone: Callable[[str], Evaluation]
) -> None:
    """Simulators in an environment without torch and lerobot, the policy in this one."""
    import subprocess
    import sys

    from harness import flags
    from runs import settings_tree

    tree = settings_tree(
        tmp_path / "run", checkpoint(kind), **options(kind, policy={"python": sys.executable}, eval={"batch_size": 3})
    )
    python = os.environ["PROCTOR_SIM_PYTHON"]
    subprocess.run([python, "-m", "proctor.cli", "eval", *flags(tree)], check=True, timeout=200)
    assert digests(tmp_path / "run") == digests(alone(kind))
