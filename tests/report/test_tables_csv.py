"""Tables as CSV and JSON: every value comes back, and no text becomes a formula."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from made_up_run import MadeUp, make_run

from proctor.report.tables_csv import EPISODE_COLUMNS, csv_lines, json_pieces
from proctor.results import ScoredRun
from proctor.store.schema import EpisodeRecord


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    run = ScoredRun.open(make_run(tmp_path / "run", MadeUp(n_episodes=2, errors=3)))
    records = [record.to_row() for record in run.records]
    assert {record["status"] for record in records} == {"finished", "error"}
    assert json.loads("".join(json_pieces(records))) == records
    read = list(csv.DictReader(io.StringIO("".join(csv_lines(EPISODE_COLUMNS, records)))))
    assert len(read) == len(records) == 100
    for row, record in zip(read, records, strict=True):
        assert tuple(row) == EPISODE_COLUMNS
        assert row["success"] == {True: "true", False: "false", None: ""}[record["success"]]
        assert (row["task"], int(row["seed"]), row["error"]) == (
            record["task"],
            record["seed"],
            record["error"] or "",
        )
        reward = record["sum_reward"]
        assert (float(row["sum_reward"]) if row["sum_reward"] else None) == reward


def test_columns_are_those_of_the_store() -> None:
    assert set(EPISODE_COLUMNS) <= set(EpisodeRecord.__slots__)


def test_odd_values_stay_in_their_cells() -> None:
    odd = {"text": 'a "b",\nc', "formula": "=1+1", "number": -2.5, "none": None, "infinite": float("inf")}
    odd |= {"zero": "a\0b", "map": {"x": float("nan")}, "empty": {}}
    ((heading, row), *_) = [list(csv.reader(io.StringIO("".join(csv_lines(list(odd), [odd])))))]
    assert dict(zip(heading, row, strict=True)) == {
        "text": 'a "b",\nc',
        "formula": "'=1+1",
        "number": "-2.5",
        "none": "",
        "infinite": "inf",
        "zero": "a?b",
        "map": '{"x": null}',
        "empty": "",
    }
    (told,) = json.loads("".join(json_pieces([odd])))
    assert told == {**odd, "infinite": None, "map": {"x": None}}
    assert json.loads("".join(json_pieces([]))) == []
    assert "".join(csv_lines(("a", "b"), [])) == "a,b\r\n"
