"""Simulators that are built while the policy loads: the first episode waits for the slower of the two."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from harness import SUPPORT, THOUGHTFUL, Digests, digests, run_tiny
from proctor.errors import UsageError
from tiny_policies import aside

POLICIES = SUPPORT / "tiny_policies.py"
NOTED = "observe.nothing!:*:*:*"
"""No mischief: the first simulator that shows something leaves a file."""


def test_a_simulator_is_there_and_has_drawn_before_the_policy(tmp_path: Path, reference: Digests) -> None:
    policy = {"path": f"{POLICIES}:Expectant", "kwargs": {"file": aside(tmp_path / "mischief-0")}}
    evaluation = run_tiny(tmp_path / "run", policy=policy, env={"mischief": NOTED})
    assert evaluation.error is None
    assert digests(evaluation) == reference


@pytest.mark.parametrize("where", ["build", "reset", "observe"])
def test_a_simulator_that_fails_meanwhile_is_built_again(tmp_path: Path, reference: Digests, where: str) -> None:
    evaluation = run_tiny(
        tmp_path / "run", policy={"placement": "central"}, env={"mischief": f"{where}.raise!:a:*:*"}
    )
    assert digests(evaluation) == reference
    assert max(record.attempts for record in evaluation.records) <= 2  # it may have had work by then


def test_a_policy_that_cannot_be_loaded_leaves_no_worker_behind(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="could not be loaded"):
        run_tiny(tmp_path / "run", policy={"path": f"{POLICIES}:Slow", "kwargs": {"wrong": 1}})
    assert psutil.Process().children(recursive=True) == []
    assert [file.name for file in (tmp_path / "run").rglob("*") if file.is_file()] == ["host.log"]


def test_a_policy_that_goes_to_the_workers_gets_others(tmp_path: Path, reference: Digests) -> None:
    evaluation = run_tiny(tmp_path / "run", policy={"path": THOUGHTFUL, "placement": "worker"})
    assert digests(evaluation) == reference
