"""Drawn is what lies in a window that the policy looks at, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lerobot_runs import STEPS, evaluate

Checkpoint = Callable[[str], Path]

ACT = len(range(0, STEPS, 10))
# Two observations a window: the step of the ask and the one before; the first window is one drawing repeated.
DIFFUSION = len({step for ask in range(0, STEPS, 8) for step in (max(0, ask - 1), ask)})


@pytest.mark.parametrize(("kind", "drawings"), [("act", ACT), ("diffusion", DIFFUSION)])
def test_drawings_are_what_the_windows_need(
    kind: str, drawings: int, tmp_path: Path, checkpoint: Checkpoint
) -> None:
    evaluation = evaluate(tmp_path / "run", checkpoint(kind), eval={"n_episodes": 1})
    assert {record.steps for record in evaluation.records} == {STEPS}
    assert {record.looks for record in evaluation.records} == {drawings}


def test_an_overridden_chunk_changes_how_often_is_drawn(tmp_path: Path, checkpoint: Checkpoint) -> None:
    evaluation = evaluate(
        tmp_path / "run", checkpoint("act"), policy={"n_action_steps": 18}, eval={"n_episodes": 1}
    )
    assert {record.looks for record in evaluation.records} == {STEPS // 18}


def test_a_temporal_ensemble_is_drawn_at_every_step(tmp_path: Path, checkpoint: Checkpoint) -> None:
    evaluation = evaluate(
        tmp_path / "run", checkpoint("ensemble"), eval={"n_episodes": 1}, env={"episode_length": 6}
    )
    assert {record.looks for record in evaluation.records} == {6}
