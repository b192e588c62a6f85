"""The rewards of an episode are kept small, and their sum with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from harness import run_tiny
from proctor.store.episodes import EpisodeTable
from proctor.store.schema import MOST_POINTS, pack_rewards, stride_of, unpack_rewards


@given(arrays(np.float64, st.integers(1, 3000), elements=st.floats(-100, 100, width=32)))
def test_a_curve_is_small_and_its_area_is_the_sum_of_rewards(
    rewards: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> None:
    packed = pack_rewards(rewards)
    assert len(packed) <= 4 * MOST_POINTS
    curve = unpack_rewards(packed, len(rewards))
    widths = np.minimum(curve.stride, len(rewards) - np.arange(len(curve.means)) * curve.stride)
    assert (curve.means * widths).sum() == pytest.approx(rewards.sum(), abs=0.05)


def test_up_to_256_steps_every_reward_is_kept() -> None:
    rewards = np.linspace(0, 1, MOST_POINTS)
    assert unpack_rewards(pack_rewards(rewards), MOST_POINTS).means == pytest.approx(rewards)
    assert stride_of(MOST_POINTS + 1) == 2


def test_what_is_not_finite_stays_so() -> None:
    curve = unpack_rewards(pack_rewards(np.array([1.0, np.nan, np.inf, 1e300])), 4)
    assert np.isnan(curve.means[1])
    assert np.isinf(curve.means[2:]).all()


def test_a_run_keeps_rewards_workers_and_times_of_its_episodes(tmp_path: Path) -> None:
    evaluation = run_tiny(tmp_path / "run", env={"mischief": "step.raise!:b:2:3"})
    with EpisodeTable(tmp_path / "run" / "run.sqlite", read_only=True) as table:
        curves = table.reward_curves(record.key for record in evaluation.records)
        (session,) = table.sessions()
        (attempt,) = table.attempts()
        (note,) = table.notes()
    assert attempt.key == ("b", 0, 2)
    assert "b episode 2: attempt 1 of 3 failed" in note.message
    for record in evaluation.records:
        curve = curves[record.key]
        assert curve.steps == record.steps == len(curve.means)
        assert float(curve.means.sum()) == pytest.approx(record.sum_reward, rel=1e-5)
        assert record.rewards == b""  # read when asked for
        assert record.worker.isdigit()
        assert session.started_at - 1 <= record.started_at
        assert record.started_at + record.seconds <= session.ended_at + 1


def test_a_reader_leaves_no_files_behind(tmp_path: Path) -> None:
    run_tiny(tmp_path / "run", task="a", n_episodes=1)
    with EpisodeTable(tmp_path / "run" / "run.sqlite", read_only=True) as table:
        assert len(list(table.records())) == 1
    assert not list((tmp_path / "run").glob("run.sqlite-*"))
