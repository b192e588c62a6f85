"""Ten times as many episodes cost no process much more memory: during a run, after it, and when it is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from growth import measure

MB = 1_000_000


@pytest.mark.slow
def test_memory_does_not_grow_with_the_episodes(tmp_path: Path) -> None:
    few = measure(tmp_path / "few", 1_000)
    many = measure(tmp_path / "many", 10_000)
    assert (few.episodes, many.episodes) == (1_000, 10_000)
    # 9,000 episodes more: a record of each would be 30 MB or more, and its place in dictionaries as much again.
    assert many.during - few.during < 15 * MB
    assert many.child < 1.2 * few.child
    # Up to 50,000 episodes are listed in eval_info.json, from records that are held for it.
    assert many.after - few.after < 90 * MB
    assert many.report - few.report < 60 * MB
    assert many.compare - few.compare < 30 * MB
    assert many.page < 4 * MB
