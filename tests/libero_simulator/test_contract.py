"""LIBERO keeps the contract that every benchmark has to keep, with pictures, on miniature assets."""

from __future__ import annotations

from pathlib import Path

import proctor


def test_it_keeps_the_contract_of_a_benchmark(assets: Path) -> None:
    small = {"observation_height": 32, "observation_width": 32, "assets_path": str(assets)}
    checked = proctor.check_benchmark(
        "libero", env={"task": "libero_spatial", "task_ids": [0, 4], **small}, steps=6
    )
    assert [str(result) for result in checked if not result.ok] == []
