"""Trackio's own database holds what was reported, as one run."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tracked import evaluate_and_extend


def test_trackio_stores_a_run_and_its_continuation_as_one(tmp_path: Path) -> None:
    place = {"TRACKIO_DIR": str(tmp_path / "trackio"), "HF_HUB_OFFLINE": "1"}
    info = evaluate_and_extend(tmp_path / "run", "trackio", place, wandb={"project": "mine"})
    with sqlite3.connect(tmp_path / "trackio" / "mine.db") as database:
        rows = database.execute("SELECT run_name, step, metrics FROM metrics ORDER BY id").fetchall()
        configs = [json.loads(text) for (text,) in database.execute("SELECT config FROM configs")]
    database.close()
    assert len({name for name, _, _ in rows}) == 1
    assert rows[-1][1] == 12
    steps = [step for _, step, _ in rows]
    assert steps == sorted(steps)
    last = json.loads(rows[-1][2])
    assert last["eval/pc_success"] == pytest.approx(info["overall"]["pc_success"])
    assert last["status"] == "complete"
    assert len(last["episodes"]["_value"]) == 12
    assert configs[0]["env"]["task"] == "a,b,c"
    assert len(list((tmp_path / "trackio" / "media").rglob("*.mp4"))) >= 3
