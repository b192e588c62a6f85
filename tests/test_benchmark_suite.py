"""`make bench`: every part is there, figures keep their spread, and a table has the last figures beside."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import figures
import pytest
import suite


def test_every_part_is_a_benchmark_that_reports_figures() -> None:
    for part in suite.SUITE:
        source = (suite.HERE / f"{part.name}.py").read_text()
        assert part.name == "growth" or "report(" in source, part.name


@pytest.mark.slow
@pytest.mark.gl
@pytest.mark.timeout(1500)  # eleven commands, one after the other
def test_the_benchmark_of_films_has_failures_in_its_default_and_finds_equal_frames(tmp_path: Path) -> None:
    pytest.importorskip("av")
    flags = ("--episodes=1", "--size=24", "--fps=2", "--rounds=2", "--all")
    part = suite.Part("films", "", ())
    # Episodes this short all fail; the tasks are the default's.
    found = suite.measure(part, sys.executable, (*flags, "--env.episode_length=3"))
    values = {one["name"]: one["values"] for one in found["figures"]}
    assert values["videos with equal frames"] == [1.0], found
    assert len(values["filming failures during the run against proctor film"]) == 2
    assert len(values["filming all to keep the failures against proctor film"]) == 2
    assert "6 failures of 6 episodes" in found["figures"][0]["absolute"]


def test_a_figure_is_printed_with_its_spread_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROCTOR_FIGURES", str(tmp_path / "figures"))
    figures.report("ours against theirs", [3.0, 1.0, 2.0], goal=1.5, absolute="20 against 10 steps/s")
    assert capsys.readouterr().out == "  ours against theirs: 2x (1 to 3), goal 1.5; 20 against 10 steps/s\n"
    kept = json.loads((tmp_path / "figures").read_text())
    assert kept["figure"]["values"] == [3.0, 1.0, 2.0]
    assert "numpy" in kept["versions"]


def _run(*values: float, cores: int = 2) -> dict[str, Any]:
    figure = {"name": "a against b", "values": list(values), "unit": "x", "goal": None, "absolute": "words"}
    return {
        "machine": {"cpu": "some", "cores": cores, "gpu": []},
        "parts": {"engine": {"figures": [figure]}, "growth": {"figures": [], "problem": "no such thing"}},
    }


def test_the_table_shows_the_last_figures_and_what_was_left_out() -> None:
    lines = suite.table(_run(1.0, 3.0), _run(4.0)).splitlines()
    assert "| a against b | 2x (1 to 3) | 4 | words |" in lines
    assert "| `growth.py` | left out | | no such thing |" in lines


def test_a_run_is_compared_with_the_newest_of_its_own_kind_of_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "RESULTS", tmp_path)
    for name, run in (("2026-01-01", _run(1.0)), ("2026-01-02", _run(2.0)), ("2026-01-03", _run(3.0, cores=16))):
        (tmp_path / f"{name}.json").write_text(json.dumps(run))
    assert suite.last_like(_run()["machine"]) == _run(2.0)
    assert suite.last_like({"cpu": "other", "cores": 2, "gpu": []}) is None
