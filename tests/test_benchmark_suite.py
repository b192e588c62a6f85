"""`make bench`: parts report figures, tables are stored and compared, README and docs show what is stored."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import against_lerobot
import documentation
import figures
import gpu
import gpu_against_lerobot
import growth
import psutil
import pytest
import stored_tables
import suite
from against_lerobot import Measurements
from figures import Figure
from suite import Part, Planned

BENCHMARKS = Path(suite.__file__).parent


def test_every_part_is_a_benchmark_that_reports_figures() -> None:
    for part in suite.SUITE:
        assert "report(" in part.file.read_text(), part.name


def test_a_full_run_has_every_part_and_the_default_fits_an_hour() -> None:
    default = [part for part in suite.SUITE if part.arguments is not None]
    assert sum(part.minutes[False] for part in default) <= 60
    assert all(part.minutes[True] > 0 for part in suite.SUITE)
    assert {part.name for part in suite.SUITE} >= {"gpu", "gpu_against_lerobot", "autotune", "growth", "startup"}


@pytest.mark.slow
@pytest.mark.gl
@pytest.mark.timeout(1500)  # eleven commands, one after the other
def test_the_benchmark_of_films_has_failures_in_its_default_and_finds_equal_frames() -> None:
    pytest.importorskip("av")
    # Episodes this short all fail; the tasks are the default's.
    flags = ("--episodes=1", "--size=24", "--fps=2", "--rounds=2", "--all", "--env.episode_length=3")
    part = Part("films", (20, 20), flags)
    plan = suite.planned(part, False, {}, [], [])
    assert isinstance(plan, Planned)
    found = suite.measure(plan)
    values = {one["name"]: one["values"] for one in found["figures"]}
    assert values["videos with equal frames"] == [1.0], found
    assert len(values["filming failures during the run against proctor film"]) == 2
    assert len(values["filming all to keep the failures against proctor film"]) == 2
    assert "6 failures of 6 episodes" in found["figures"][0]["absolute"]


def test_a_figure_is_printed_with_its_spread_and_goal_and_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROCTOR_FIGURES", str(tmp_path / "figures"))
    figures.report("ours against theirs", [3.0, 1.0, 2.0], goal=1.5, absolute="20 against 10 steps/s")
    words = "  ours against theirs: 2x (1 to 3); at least 1.5x: met; 20 against 10 steps/s\n"
    assert capsys.readouterr().out == words
    kept = json.loads((tmp_path / "figures").read_text())
    assert kept["figure"]["values"] == [3.0, 1.0, 2.0]
    assert "numpy" in kept["versions"]


def test_a_ratio_is_to_reach_its_goal_and_a_time_to_stay_below() -> None:
    assert Figure("a", (2.0,), "x", 2.0).met
    assert Figure("a", (0.31,), "s", 0.3).aim == "at most 0.3 s: missed"
    assert Figure("a", (1.0,)).met is None
    assert Figure("a", (1234.5, 1200.0), "ms").words == "1,217 ms (1,200 to 1,234)"


def _run(
    *values: float, name: str = "engine", cores: int = 2, date: str = "2026-01-01 10:00:00"
) -> dict[str, Any]:
    figure = {"name": f"{name} against b", "values": values, "unit": "x", "goal": 3.5, "absolute": "words"}
    return {
        "date": date,
        "commit": "abc",
        "machine": {"cpu": "Some(R) CPU @ 2.0GHz", "cores": cores, "gpu": [], "memory_gb": 8},
        "parts": {
            name: {
                "figures": [figure],
                "arguments": ["-x"],
                "seconds": 60,
                "busy_cores": 0.1,
                "status": 0,
                "versions": {"numpy": "2"},
            },
            "libero_drawing": {"figures": [], "problem": "no interpreter that has libero"},
        },
    }


def test_the_table_shows_goals_the_last_figures_and_what_was_left_out() -> None:
    lines = stored_tables.table(_run(1.0, 3.0), stored_tables.newest_figures([_run(4.0)])).splitlines()
    assert "| engine against b | 2x (1 to 3) | at least 3.5x: missed | 4x | words |" in lines
    assert "| `libero_drawing` | left out | | | no interpreter that has libero |" in lines


def test_a_run_of_one_benchmark_hides_no_figures_of_the_others(tmp_path: Path) -> None:
    for run in (
        _run(1.0),
        _run(2.0, name="films", date="2026-01-02 10:00:00"),
        _run(9.0, cores=16, date="2026-01-03 10:00:00"),
    ):
        stored_tables.store(run, {}, stored_tables.new_file(run, tmp_path))
    like = stored_tables.of_the_kind(_run()["machine"], stored_tables.runs(tmp_path))
    newest = stored_tables.newest_figures(like)
    assert {name: figure.values for name, figure in newest.items()} == {
        "engine against b": (1.0,),
        "films against b": (2.0,),
    }
    assert [run["date"][:10] for run in like] == ["2026-01-02", "2026-01-01"]


def test_a_table_is_stored_under_its_date_and_machine_in_a_folder_that_git_keeps(tmp_path: Path) -> None:
    file = stored_tables.new_file(_run(1.0), tmp_path)
    stored_tables.store(_run(1.0), {}, file)
    assert file.name == "2026-01-01_10-00-00_some-2-0ghz-2-cores.json"
    assert "| engine against b | 1x |" in file.with_suffix(".md").read_text()
    assert stored_tables.new_file(_run(1.0), tmp_path) != file, "two runs of one second"
    assert stored_tables.RESULTS == BENCHMARKS / "results"


def test_a_benchmark_is_expected_to_take_as_long_as_the_last_time() -> None:
    part = Part("engine", (2, 3), ("-x",))
    pythons = dict.fromkeys(suite.INTERPRETERS, "")
    fresh, known = (suite.planned(part, False, pythons, [], runs) for runs in ([], [_run(1.0)]))
    assert isinstance(fresh, Planned)
    assert isinstance(known, Planned)
    assert (fresh.expected, known.expected) == (120, 60)


def test_what_cannot_run_here_says_why_and_a_peer_is_handed_its_interpreter() -> None:
    pythons = {"lerobot": "", "libero": "", "vla_eval": "/some/python"}
    plan = suite.planned(Part("against_vla_eval", (1, 1), peer="vla_eval"), False, pythons, [], [])
    assert isinstance(plan, Planned)
    assert plan.command[-1] == "--vla-eval=/some/python"
    assert suite.planned(Part("x", (1, 1), python="libero"), False, pythons, [], []) == (
        "no interpreter that has libero"
    )
    assert suite.planned(Part("gpu", (1, 1), gpu=True), True, pythons, [], []) == "no GPU here"


def test_a_benchmark_may_take_longer_where_others_want_the_cores() -> None:
    plan = Planned(Part("engine", (2, 3)), [], (), 100.0)
    assert suite.limit_of(plan, 0.0) == 400
    assert suite.limit_of(plan, 2.0) == 1200


def _planned(tmp_path: Path, source: str, expected: float = 60.0) -> Planned:
    script = tmp_path / "script.py"
    script.write_text(source)
    return Planned(Part("script", (1, 1)), [sys.executable, str(script)], (), expected)


def test_a_benchmark_that_fails_after_its_first_figure_has_failed(tmp_path: Path) -> None:
    plan = _planned(tmp_path, "from figures import report\nreport('a', [1.0])\nraise SystemExit('no more disk')")
    found = suite.measure(plan)
    assert (found["status"], found["problem"]) == (1, "exit status 1: no more disk")
    assert [figure["name"] for figure in found["figures"]] == ["a"]
    run = {**_run(1.0), "parts": {"script": found}}
    assert "| `script` | failed | | | exit status 1: no more disk |" in stored_tables.table(run, {})


def test_a_benchmark_that_hangs_is_ended_with_all_that_it_has_started(tmp_path: Path) -> None:
    source = "import subprocess, sys, time\n"
    source += "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
    source += f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\ntime.sleep(1000)\n"
    status, _ = suite.run_for(_planned(tmp_path, source).command, dict(os.environ), 5.0)
    assert status is None
    child = int((tmp_path / "child").read_text())
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(child)
        assert process.status() == psutil.STATUS_ZOMBIE or not psutil.wait_procs([process], timeout=60)[1]


PAGE = (
    "before\n<!-- bench:engine -->\nold\n<!-- /bench -->\nafter\n<!-- bench:engine cores=16 -->\n<!-- /bench -->\n"
)


def test_a_page_shows_the_newest_run_of_a_benchmark_that_ended_well() -> None:
    broken = _run(7.0, date="2026-01-03 10:00:00")
    broken["parts"]["engine"]["problem"] = "exit status 1"
    page = documentation.written(PAGE, [broken, _run(4.0, date="2026-01-02 10:00:00"), _run(1.0)])
    assert "| engine against b | 4x | words |" in page
    assert "2026-01-02, Some(R) CPU @ 2.0GHz, 2 cores, quiet; numpy 2." in page
    assert "cores=16 -->\n\nNot measured yet: `make bench-full ONLY=engine`.\n\n<!-- /bench -->\n" in page
    assert "old" not in page
    assert documentation.written(page, [_run(4.0, date="2026-01-02 10:00:00")]) == page


def test_a_page_says_if_other_work_went_on_beside() -> None:
    run = _run(4.0)
    run["parts"]["engine"]["busy_cores"] = 0.7
    assert "2 cores, 0.7 of them busy with other work when it began;" in documentation.written(PAGE, [run])


@pytest.mark.parametrize("page", documentation.pages(), ids=lambda page: page.name)
def test_measured_tables_of_readme_and_docs_are_those_that_are_stored(page: Path) -> None:
    text = page.read_text()
    assert documentation.written(text, stored_tables.runs()) == text, "run: make bench-docs"
    names = {part.name for part in suite.SUITE}
    assert set(documentation.blocks(text)) <= names
    assert text.count("<!-- bench:") == len(documentation.blocks(text)) == text.count("<!-- /bench -->")


def test_the_page_about_speed_shows_what_the_suite_has_measured() -> None:
    assert {"engine", "metaworld_step", "against_lerobot"} <= set(
        documentation.blocks((documentation.ROOT / "docs" / "speed.md").read_text())
    )


def _side(seconds: float, episodes: int, digests: list[tuple[str | None, str | None]]) -> Measurements:
    return Measurements(
        wall=seconds + 10,
        eval_s=seconds,
        cpu=1.0,
        memory=1.0,
        drawings=0,
        successes=[False] * episodes,
        rewards=[0.0] * episodes,
        digests=digests,
    )


def test_on_a_gpu_an_episode_is_compared_with_an_episode(capsys: pytest.CaptureFixture[str]) -> None:
    asked = []

    def run(side: str, steps: int, task: str, episodes: int) -> tuple[Measurements, str]:
        asked.append((side, episodes))
        return _side(10.0 * episodes if side == "LeRobot" else 48.0, episodes, [("a", "b")]), "50 %"

    gpu_against_lerobot.compare(1, 2, run)
    gpu_against_lerobot.whole_suite(1, run)
    said = capsys.readouterr().out
    assert "n_action_steps=1: 5x (5 to 5); at least 5x: met; 2.00 against 10.00 s" in said
    assert "MT50 x 10 on the GPU, n_action_steps=50, the evaluation: 48 s; at most 25 s: missed" in said
    ours, theirs = ("Proctor", 24), ("LeRobot", 8)
    assert asked == [ours, theirs, theirs, ours, ("Proctor", 10)]


def test_on_a_gpu_episodes_that_differ_from_run_to_run_are_no_result() -> None:
    digests = iter("ab")

    def run(side: str, steps: int, task: str, episodes: int) -> tuple[Measurements, str]:
        return _side(1.0, episodes, [(next(digests), None)]), ""

    with pytest.raises(AssertionError, match="differ from run to run"):
        gpu_against_lerobot.whole_suite(2, run)


def test_both_sides_are_given_the_same_flags_on_a_gpu(tmp_path: Path) -> None:
    ours, theirs = (
        gpu_against_lerobot.command(side, tmp_path, 1, "reach-v3", 8, tmp_path / "run")
        for side in ("Proctor", "LeRobot")
    )
    common = set(ours) & set(theirs)
    assert {"--policy.device=cuda", "--policy.n_action_steps=1", "--eval.n_episodes=8", "--seed=1000"} <= common


def test_variables_for_lerobot_reach_lerobot_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEROBOT_EVAL_VARIABLES", "A=1 B=x=y")
    assert gpu_against_lerobot.variables_of("LeRobot") == {"A": "1", "B": "x=y"}
    assert gpu_against_lerobot.variables_of("Proctor") == {}


def test_without_a_driver_the_use_of_the_gpu_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with gpu.Utilisation() as use:
        pass
    assert use.median() == "unknown"


def test_lerobot_is_compared_round_by_round_with_the_floor_beside(capsys: pytest.CaptureFixture[str]) -> None:
    ours = [_side(10.0, 2, [("a", "b")] * 2), _side(20.0, 2, [("a", "b")] * 2)]
    theirs = [_side(200.0, 2, []), _side(200.0, 2, [])]
    longer = [_side(40.0, 16, [("a", "b")] * 16), _side(50.0, 16, [("a", "b")] * 16)]
    against_lerobot.check(ours, theirs, longer)
    against_lerobot.report_ratios(50, ours, theirs, longer, [300.0, 500.0])
    said = capsys.readouterr().out
    assert "n_action_steps=50: 36x (32 to 40); at least 40x: missed; 180.0 against 5.0 steps/s" in said
    assert "80x (60 to 100); 400.0 steps/s; Proctor runs at 0.45 of it" in said
    assert "whole commands of 2 episodes against lerobot-eval, n_action_steps=50: 8.75x (7 to 10.5)" in said
    with pytest.raises(AssertionError, match="differ from run to run"):
        against_lerobot.check([ours[0], _side(1.0, 2, [("other", "b")] * 2)], theirs, longer)


def test_growth_reports_every_size_beside_the_smallest(capsys: pytest.CaptureFixture[str]) -> None:
    small = growth.Row(1000, 200.0, 70 << 20, 1, 0.5, 0.4, 72 << 20, 0.6, 0.5, 600_000, 400_000, 0.7, 1, 0.8, 1)
    growth.report_size([small._replace(episodes=10_000, coordinator_us=220.0)], [small])
    said = capsys.readouterr().out
    assert "the coordinator's core, per episode, 10,000 episodes: 220 µs; 1.10 times that of 1,000" in said
    assert "a resume with nine tenths stored, until its first episode has ended, 10,000 episodes: 0.6 s" in said
