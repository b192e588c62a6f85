"""Success against training step or time: each run is where it belongs, and the table says the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from made_up_run import alter
from starlette.testclient import TestClient

from made_runs import make_run
from proctor.results import ScoredRun
from proctor.store.run_directory import RunDirectory
from viewer_pages import HOSTILE, HTML, read, text, viewing

SVG = "{http://www.w3.org/2000/svg}"
TOP, PLOT = 12, 280


def trained(root: Path, training: str, step: str, wins: int, tags: str = "", began: float = 0.0) -> Path:
    """Write the run of a checkpoint, with `wins` of ten."""
    path = make_run(root / f"{training}-{step}".replace("/", "-"), {"a": [one < wins for one in range(10)]})
    run = RunDirectory(path)
    with run.table() as table:
        table.end_session(table.begin_session(1), 0.0)
    if began:
        alter(path, "sessions", lambda row: {**row, "started_at": began, "ended_at": began + 1})
    policy = {"type": "lerobot", "path": f"outputs/{training}/checkpoints/{step}/pretrained_model"}
    run.write_config({"policy": policy, "env": {"type": "made"}, "tags": tags or None})
    return path


def points(client: TestClient, query: str = "") -> dict[str, tuple[float, float]]:
    """Return where each run is drawn, by its address: per cent of the width, and its rate."""
    found = {}
    for link in read(client, f"/chart/{query}").iter(f"{SVG}a"):
        (place,) = link.iter(f"{SVG}svg")
        rate = (TOP + PLOT - float(place.get("y"))) / PLOT
        found[link.get("href")] = float(place.get("x").rstrip("%")), round(rate, 3)
    return found


def rows(page: Any) -> list[list[str]]:
    (table,) = [one for one in page.iter(f"{HTML}table") if one.get("id") == "points"]
    return [[text(cell) for cell in row] for row in table.iter(f"{HTML}tr")][1:]


def test_points_lie_at_their_step_and_rate_and_lead_to_their_runs(tmp_path: Path) -> None:
    runs = [trained(tmp_path, "act", f"{step:06}", wins) for step, wins in ((1000, 2), (2000, 5), (4000, 9))]
    trained(tmp_path, "act", "last", 9)
    client = viewing(tmp_path)
    found = points(client)
    assert list(found) == [f"/run/{run.name}/" for run in runs]
    places = [x for x, _ in found.values()]
    assert places == pytest.approx([2 + 95 / 4, 2 + 95 / 2, 97])
    assert [rate for _, rate in found.values()] == [0.2, 0.5, 0.9]
    assert all(client.get(link).status_code == 200 for link in found)
    page = read(client, "/chart/")
    assert "1 run is left out: the path of the policy names no training step" in text(page)
    rate = ScoredRun.open(runs[1]).results.overall
    interval = f"{100 * rate.low:.1f}–{100 * rate.high:.1f}"
    assert rows(page)[1][:5] == ["act", "2000", "50.0 %", interval, "5/10"]
    whisker = next(a for a in page.iter(f"{SVG}a") if a.get("href") == f"/run/{runs[1].name}/").find(f"{SVG}line")
    ends = [(TOP + PLOT - float(whisker.get(end))) / PLOT for end in ("y1", "y2")]
    assert ends == pytest.approx([rate.low, rate.high], abs=1e-3)


def test_a_line_joins_the_means_of_a_group(tmp_path: Path) -> None:
    trained(tmp_path / "a", "act", "1000", 2, "x")
    trained(tmp_path / "b", "act", "1000", 4, "y,x")
    trained(tmp_path / "b", "act", "2000", 8, "y")
    trained(tmp_path / "c", "pi0", "2000", 6)
    client = viewing(tmp_path)

    def lines(query: str) -> dict[str, list[float]]:
        page = read(client, f"/chart/?x=step&{query}")
        (legend,) = [one for one in page.iter(f"{HTML}ul") if one.get("class") == "legend"]
        names = [text(item) for item in legend]
        drawn = [p.get("d") for p in page.iter(f"{SVG}path") if (p.get("class") or "").startswith("curve")]
        heights = [[1 - int(y) / 1000 for y in re.findall(r"[ML]\d+ (\d+)", d)] for d in drawn]
        return dict(zip(names, heights, strict=True))

    assert lines("by=training") == {"act": pytest.approx([0.3, 0.8]), "pi0": pytest.approx([0.6])}
    found = lines("by=tag")
    assert found == {"x": pytest.approx([0.3]), "y": pytest.approx([0.4, 0.8]), "no tag": pytest.approx([0.6])}
    assert set(lines("by=policy")) == {"act@1000", "act@2000", "pi0@2000"}
    assert lines("by=training&tag=y") == {"act": pytest.approx([0.4, 0.8])}


def test_along_time_every_run_has_a_place(tmp_path: Path) -> None:
    for number, step in enumerate(("last", "100", "best")):
        trained(tmp_path, "act", step, 3 * number, began=1_790_000_000.0 + 3600 * number)
    found = points(viewing(tmp_path))  # one step is no curve
    assert [x for x, _ in found.values()] == pytest.approx([2, 49.5, 97])
    assert [rate for _, rate in found.values()] == [0.0, 0.3, 0.6]


def test_runs_of_other_benchmarks_are_another_chart(tmp_path: Path) -> None:
    trained(tmp_path, "act", "1000", 2)
    other = trained(tmp_path, "act", "2000", 4)
    RunDirectory(other).write_config({"policy": {"type": "expert"}, "env": {"type": "other"}})
    client = viewing(tmp_path)
    page = read(client, "/chart/?benchmark=other")
    assert [row[-1].replace(" ", "") for row in rows(page)] == ["act-2000"]
    options = [text(option) for option in page.iter(f"{HTML}option")]
    assert {"made", "other"} <= set(options)


def test_odd_words_and_nothing_at_all_make_a_page(tmp_path: Path) -> None:
    client = viewing(tmp_path)
    assert "no run with a result" in text(read(client, "/chart/"))
    trained(tmp_path, "act", "9" * 40, 3, f"{HOSTILE.replace(',', ' ')},\ud800")
    make_run(tmp_path / "no-rate", {"a": [None]})
    for query in ("", "?by=tag", "?by=x&x=y&benchmark=z&tag=none", "?x=step", "?x=time&by=tag"):
        answer = client.get(f"/chart/{query}")
        assert answer.status_code == 200, query
        assert "<script>alert" not in answer.text
        assert "<img src=x" not in answer.text
        read(client, f"/chart/{query}")


def test_more_groups_than_one_can_tell_apart_are_in_the_table(tmp_path: Path) -> None:
    for number in range(14):
        trained(tmp_path, f"train-{number:02}", "1000", number % 10)
    page = read(viewing(tmp_path), "/chart/?x=step")
    assert len(rows(page)) == 14
    assert len(list(page.iter(f"{SVG}a"))) == 12
    assert "Of 14 groups the 12 with most runs are drawn" in text(page)


def test_of_too_many_runs_the_newest_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proctor.viewer.chart.MOST_RUNS", 2)
    for number in range(4):
        trained(tmp_path, "act", f"{number}000", number, began=1_790_000_000.0 - 60 * number)
    page = read(viewing(tmp_path), "/chart/?x=step")
    assert [row[1] for row in rows(page)] == ["0", "1000"]
    assert "2 older runs are left out" in text(page)
