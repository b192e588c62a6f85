"""A probe runs real workers and counts rightly; what goes wrong in one is told."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from harness import SUPPORT, tiny_tree
from proctor.config.load import build_settings
from proctor.engine.interrupts import Interrupts
from proctor.errors import PolicyError, PolicyHostError, RunError
from proctor.tuning import measure as measure_module
from proctor.tuning.measure import Measurements, MeasuringSession


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_module, "_SECONDS", 0.3)
    monkeypatch.setattr(measure_module, "_TRIAL_SECONDS", 0.3)


def measured(tmp_path: Path, **options: Any) -> tuple[Measurements, list[str]]:
    told: list[str] = []
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts())
        settings = build_settings(tiny_tree(tmp_path / "run", **options))
        session = MeasuringSession(settings, tmp_path / "logs", stack, interrupts, told.append)
        found = session.measure()
        trial = session.trial(None, 3)
        assert trial.workers == 3
    return found, told


def test_a_policy_in_its_own_process_is_measured_with_its_own_chunks(tmp_path: Path) -> None:
    policy = {"path": f"{SUPPORT / 'tiny_policies.py'}:Mannered", "placement": "central"}
    found, told = measured(tmp_path, policy=policy)
    assert found.alone.draws == 1
    assert 4 < found.alone.chunk <= 5  # the last of an episode may be cut short by success
    assert not found.policy.in_worker
    assert 4 < found.renders[0].together.chunk <= 5  # the null_policy looks as the policy does
    assert found.renders[0].together.workers == found.machine.cores
    assert found.worker_memory > 1 << 20
    assert any("with the policy" in line for line in told)
    assert not (tmp_path / "run").exists()


def test_a_light_policy_is_measured_inside_the_workers(tmp_path: Path) -> None:
    found, _ = measured(tmp_path, policy={"path": None, "type": "random"})
    assert found.policy.in_worker
    assert (found.alone.chunk, found.alone.draws) == (1, 0)


def test_chunks_of_changing_length_are_counted_as_they_come(tmp_path: Path) -> None:
    found, _ = measured(tmp_path)
    assert 1 <= found.alone.chunk <= 4
    assert found.alone.draws >= 1


def test_a_simulator_that_falls_over_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="the simulator fell over"):
        measured(tmp_path, env={"mischief": "step.raise:*:*:3"})


def test_a_simulator_that_dies_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"could not be measured: .*SIGKILL"):
        measured(tmp_path, env={"mischief": "reset.kill:*:*:0"})


def test_a_policy_that_raises_is_told(tmp_path: Path) -> None:
    policy = {"path": f"{SUPPORT / 'tiny_policies.py'}:Faulty", "kwargs": {"how": "raise"}}
    with pytest.raises(PolicyError, match="I cannot see"):
        measured(tmp_path, policy=policy)


def test_a_policy_whose_process_dies_is_told(tmp_path: Path) -> None:
    policy = {"path": f"{SUPPORT / 'tiny_policies.py'}:Faulty", "kwargs": {"how": "kill"}}
    with pytest.raises(PolicyHostError, match="died"):
        measured(tmp_path, policy=policy)


def test_a_policy_that_hangs_is_told(tmp_path: Path) -> None:
    policy = {"path": f"{SUPPORT / 'tiny_policies.py'}:Faulty", "kwargs": {"how": "hang"}}
    with pytest.raises(PolicyHostError, match="hangs: act took longer"):
        measured(tmp_path, policy=policy, limits={"act": 1})
