"""The rate of a run that is not complete is fair, though quick successes end first, and it is one everywhere."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from incomplete_runs import Moment, simulate

from harness import SUPPORT, run_cli, start_cli, stored, viewed, wait_until
from quick_and_slow import QUICK, succeeds

EPISODES, SEED, WORKERS = 90, 1000, 8


def command(output: Path, *more: str) -> list[str]:
    return [
        f"--env.type={SUPPORT / 'quick_and_slow.py'}:QuickAndSlow",
        "--policy.type=zero",
        f"--eval.n_episodes={EPISODES}",
        f"--eval.batch_size={WORKERS}",
        "--eval.stop_grace=0",
        f"--output_dir={output}",
        *more,
    ]


def interrupt(output: Path, number: signal.Signals, *more: str) -> str:
    """Stop a run on many workers while they are busy; returns what it printed."""
    process = start_cli("eval", *command(output, *more))
    wait_until(lambda: stored(output) >= 4 * WORKERS)
    process.send_signal(number)
    out, _ = process.communicate(timeout=120)
    return out


def started(run: Path) -> tuple[set[int], dict[int, int]]:
    """Return which episodes have ended, and how far the others were, from the run's own file."""
    with sqlite3.connect(run / "run.sqlite") as database:
        ended = {index for (index,) in database.execute("SELECT episode_index FROM episodes")}
        running = dict(database.execute("SELECT episode_index, steps FROM in_flight"))
    database.close()
    return ended, running


def truth(indices: set[int]) -> float:
    return sum(succeeds(SEED + index) for index in indices) / len(indices)


def info(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "eval_info.json").read_text())
    return found


def shown_by_viewer(place: Path, name: str) -> str:
    row = next(line for line in viewed(place).split("<tr") if f">{name}</a>" in line)
    return re.search(r">(~?[\d.]+ %)<", row)[1]  # type: ignore[index]


def test_ctrl_c_shows_what_the_started_episodes_come_to_and_going_on_makes_it_exact(tmp_path: Path) -> None:
    out = interrupt(tmp_path / "run", signal.SIGINT)
    ended, running = started(tmp_path / "run")
    assert ended
    assert not ended & running.keys()
    assert WORKERS // 2 <= len(running) <= WORKERS, "every busy worker was in the middle of an episode"
    fair, found = truth(ended | running.keys()), info(tmp_path / "run")
    value = found["overall"]["pc_success"] / 100
    # All that have run longer than successes take will fail: only those that have just begun are guessed.
    young = sum(steps < QUICK for steps in running.values())
    assert abs(value - fair) <= (young + 0.5) / len(ended | running.keys())
    assert truth(ended) > fair, "what ended first flatters"
    assert found["intervals"]["overall"]["low"] <= fair <= found["intervals"]["overall"]["high"]
    estimate = found["run"]["estimate"]
    assert (estimate["ended"], estimate["running"]) == (len(ended), len(running))
    # One number, marked as an estimate, wherever it is shown.
    words = f"~{100 * value:.1f} %"
    assert words in out
    assert f"Incomplete: {len(running)} episodes were still running" in out
    assert f"({100 * truth(ended):.1f} %) favour quick successes" in out
    assert words.replace(" ", "&nbsp;") in (tmp_path / "run/report.html").read_text()
    assert shown_by_viewer(tmp_path, "run") == words
    merged = run_cli("merge", str(tmp_path / "run"), f"--output_dir={tmp_path / 'merged'}")
    assert words in merged.stdout
    again = run_cli("eval", *command(tmp_path / "run"))
    assert again.returncode == 0, again.stderr
    assert started(tmp_path / "run") == (set(range(EPISODES)), {})
    assert f"{100 * truth(set(range(EPISODES))):.1f} %" in again.stdout
    assert "~" not in again.stdout.partition("┏")[2]


def test_a_killed_run_reads_as_it_stood_at_its_last_commit(tmp_path: Path) -> None:
    interrupt(tmp_path / "run", signal.SIGKILL)
    ended, running = started(tmp_path / "run")
    assert running
    fair = truth(ended | running.keys())
    shown = shown_by_viewer(tmp_path, "run")
    young = sum(steps < QUICK for steps in running.values())
    assert abs(float(shown.strip("~ %")) / 100 - fair) <= (young + 0.5) / len(ended | running.keys())
    assert shown.startswith("~")
    page = run_cli("report", str(tmp_path / "run"))
    assert page.returncode == 0, page.stderr
    assert shown.replace(" ", "&nbsp;") in (tmp_path / "run/report.html").read_text()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rate", [0.05, 0.5, 0.95])
def test_over_a_thousand_simulated_runs_the_bias_is_below_a_point_and_all_that_ended_is_used(rate: float) -> None:
    # Meta-World's 50 tasks, 10 episodes each, 16 workers, interrupted after 153: the plain rate of what has ended
    # is off by several points, the finished prefix of the plan uses a third of it.
    moments: list[Moment] = simulate(1000, tasks=50, per_task=10, workers=16, ended=153, rate=rate, seed=7)
    told = [moment for moment in moments if moment.estimate is not None]
    assert len(told) >= 0.99 * len(moments), "it is shown"
    used = [moment.counted / moment.ended for moment in told]
    assert min(used) >= 0.8
    bias = sum(moment.estimate - moment.started for moment in told if moment.estimate is not None) / len(told)
    assert abs(bias) < 0.01
    covered = sum(moment.low <= moment.truth <= moment.high for moment in told) / len(told)
    assert covered >= 0.93
