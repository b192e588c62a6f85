"""What is taken away from the viewer is what the store holds."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from made_runs import Outcomes, make_run
from proctor.results import ScoredRun
from proctor.store.run_directory import RunDirectory
from viewer_pages import HOSTILE, HTML, read, viewing

OUTCOMES: Outcomes = {"near": [True, False, True], "far": [None, True, False]}


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_run_s_episodes_are_those_of_its_store(tmp_path: Path) -> None:
    stored = list(ScoredRun.open(make_run(tmp_path / "run", OUTCOMES)).records)
    client = viewing(tmp_path)
    answer = client.get("/episodes/run/?format=json")
    assert answer.json() == json.loads(json.dumps([record.to_row() for record in stored]))
    answer = client.get("/episodes/run/?format=csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="run-episodes.csv"'
    assert [(row["task"], row["episode_index"], row["success"], row["error"]) for row in table(answer.text)] == [
        (
            one.task,
            str(one.episode_index),
            "" if one.success is None else str(one.success).lower(),
            one.error or "",
        )
        for one in stored
    ]
    chosen = table(client.get("/episodes/run/?task=near&outcome=failure").text)
    assert [(row["task"], row["episode_index"]) for row in chosen] == [("near", "1")]
    assert client.get("/episodes/run/?format=xlsx").status_code == 404
    assert client.get("/episodes/gone/").status_code == 404


def test_many_episodes_are_sent_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proctor.viewer.exports._AT_ONCE", 2)
    monkeypatch.setattr("proctor.store.stored_run.MOST_LISTED", 1)  # so that each piece is read from the table
    make_run(tmp_path / "run", {"near": [True] * 5, "far": [False] * 5})
    rows = viewing(tmp_path).get("/episodes/run/?format=json").json()
    assert [(row["task"], row["episode_index"]) for row in rows] == [
        (t, n) for n in range(5) for t in ("near", "far")
    ]


def test_the_list_is_the_list_with_its_tag_and_words(tmp_path: Path) -> None:
    for name, tags in (("one", "a,b"), ("two", "b"), ("three", None)):
        run = RunDirectory(make_run(tmp_path / name, OUTCOMES))
        run.write_config({"policy": {"type": "lerobot", "path": f"t/{name}/checkpoints/0500/m"}, "tags": tags})
    client = viewing(tmp_path)
    rows = {row["run"]: row for row in table(client.get("/runs.csv").text)}
    assert set(rows) == {"one", "two", "three"}
    one = rows["one"]
    assert (one["tags"], one["training"], one["training_step"]) == ("a,b", "t/one", "500")
    assert (one["successes"], one["episodes"], one["errors"], one["state"]) == ("3", "5", "1", "complete")
    told = {row["run"]: row for row in client.get("/runs.json").json()}
    rate = ScoredRun.open(tmp_path / "one").results.overall
    assert (told["one"]["success_rate"], told["one"]["low"], told["one"]["high"]) == (0.6, rate.low, rate.high)
    assert {row["run"] for row in client.get("/runs.json?tag=b").json()} == {"one", "two"}
    assert {row["run"] for row in client.get("/runs.json?tag=b&q=TWO").json()} == {"two"}
    assert {row["run"] for row in client.get("/runs.json?q=three+complete").json()} == {"three"}
    page = read(client, "/?tag=b&q=tw")
    assert [row.get("data-run") for row in page.iter(f"{HTML}tr") if row.get("data-run")] == ["two"]
    assert any(a.get("href") == "/runs.csv?tag=b&q=tw" for a in page.iter(f"{HTML}a"))
    assert client.get("/runs.xml").status_code == 404


def test_the_report_as_one_file_has_its_videos_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path / "run", OUTCOMES, videos=True)
    for video in (tmp_path / "run" / "videos").rglob("*.mp4"):
        video.write_bytes(b"a video")
    client = viewing(tmp_path)
    answer = client.get("/report/run/?download")
    assert answer.headers["content-disposition"] == 'attachment; filename="run-report.html"'
    sources = re.findall(r'<video[^>]* src="([^"]+)"', answer.text)
    assert sources
    assert all(source.startswith("data:video/mp4;base64,") for source in sources)
    assert "without its videos" not in client.get("/run/run/").text
    monkeypatch.setattr("proctor.viewer.pages._MOST_IN_A_REPORT", 10)
    assert "data:video" not in client.get("/report/run/?download").text
    assert "without its videos" in client.get("/run/run/").text


def test_hostile_words_are_no_header_and_no_formula(tmp_path: Path) -> None:
    name = HOSTILE.replace("/", "_")
    run = RunDirectory(make_run(tmp_path / name, {"=HYPERLINK(1)": [True, None]}))
    run.write_config(
        {"job_name": name, "policy": {"path": "=2+2"}, "tags": "=3+3,\ud800", "description": {"a": [1]}}
    )
    client = viewing(tmp_path)
    (row,) = table(client.get("/runs.csv").text)
    assert (row["policy"], row["tags"]) == ("'=2+2", "'=3+3,?")
    from proctor.viewer.addresses import address

    answer = client.get(address(name, "episodes"))
    assert re.fullmatch(r'attachment; filename="[\w.-]+\.csv"', answer.headers["content-disposition"])
    assert "x" not in answer.headers
    assert {row["task"] for row in table(answer.text)} == {"'=HYPERLINK(1)"}
