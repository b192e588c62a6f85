"""What a run costs as it grows: time and memory during it, after its last episode, and when it is read again.

    python benchmarks/growth.py [--most=1e6] [--least=1e3] [--tasks=10] [--workers=2] [--rounds=1]

For every size, `proctor eval` runs nine tenths of the plan in a fresh process, and the same command, asked for the
whole plan, goes on with it. Then `proctor report` and `proctor compare` (with a copy) read it. Episodes have one
step. Prints a row per size, as Markdown; a row of a million takes about ten minutes on two cores. Sizes take
turns, round by round; those above ten thousand episodes have one round.

coordinator   µs that its core worked for each episode, from the first to the last of the first command
during        the largest resident memory of the coordinator, and of any other process, while episodes ran
after         seconds from the last episode until the second command has exited, and its largest memory by then
resume        seconds from the start of the second command until its first episode had ended
(in brackets) the seconds of these in which its core worked, which do not depend on who else is busy
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
from figures import report

HERE = Path(__file__).parent
EVERY = 0.1
ONCE = 10_000
"""Episodes; what is larger is measured in one round."""


class Sample(NamedTuple):
    """A process and its children at one moment."""

    moment: float
    core: float
    own: int
    child: int


class Command(NamedTuple):
    """One command that has ended. Memory is in bytes."""

    began: float
    ended: float
    most: int
    samples: Sequence[Sample]

    @property
    def seconds(self) -> float:
        return self.ended - self.began


class Row(NamedTuple):
    """What was measured at one size. Memory is in bytes."""

    episodes: int
    coordinator_us: float
    during: int
    child: int
    after_s: float
    after_core: float
    after: int
    resume_s: float
    resume_core: float
    eval_info: int
    page: int
    report_s: float
    report: int
    compare_s: float
    compare: int


def proctor(*arguments: str) -> Command:
    """Run a command of Proctor and watch it."""
    began = time.time()
    process = subprocess.Popen([sys.executable, "-m", "proctor", *arguments], stdout=subprocess.DEVNULL)
    watched, samples = psutil.Process(process.pid), list[Sample]()
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            assert process.returncode == 0, arguments
            return Command(began, time.time(), usage.ru_maxrss * 1024, samples)
        samples.append(_look(watched))
        time.sleep(EVERY)


def _look(process: psutil.Process) -> Sample:
    try:
        core, own = sum(process.cpu_times()[:2]), process.memory_info().rss
        # One that was forked and is not yet what it will be still has its parent's memory, and its command line.
        children = [one for one in process.children(recursive=True) if one.cmdline() != process.cmdline()]
        sizes = [child.memory_info().rss for child in children]
    except psutil.Error:  # it ends just now
        return Sample(time.time(), 0.0, 0, 0)
    return Sample(time.time(), core, own, max(sizes, default=0))


def measure(place: Path, episodes: int, tasks: int = 10, workers: int = 2) -> Row:
    """Run one size."""
    run, whole = place / "run", max(10, episodes // tasks)
    arguments = [
        f"--env.type={HERE / 'brief.py'}:Brief",
        f"--env.n_tasks={tasks}",
        f"--policy.path={HERE / 'brief.py'}:rest",
        "--policy.placement=worker",
        f"--eval.batch_size={workers}",
        f"--output_dir={run}",
        "--display=plain",
    ]
    most = whole * 9 // 10
    first = proctor("eval", *arguments, f"--eval.n_episodes={most}")
    start, end = _first_and_last(run, first.began)
    second = proctor("eval", *arguments, f"--eval.n_episodes={whole}")
    resumed, last = _first_and_last(run, second.began)
    report = proctor("report", str(run))
    shutil.copytree(run, place / "copy")
    compare = proctor("compare", str(run), str(place / "copy"))
    ran = [sample for sample in first.samples if sample.moment <= end]
    ran += [sample for sample in second.samples if sample.moment <= last]
    return Row(
        episodes=whole * tasks,
        coordinator_us=1e6 * (_core(first, end) - _core(first, start)) / (most * tasks),
        during=max(sample.own for sample in ran),
        child=max(sample.child for sample in ran),
        after_s=second.ended - last,
        after_core=_core(second, second.ended) - _core(second, last),
        after=second.most,
        resume_s=resumed - second.began,
        resume_core=_core(second, resumed),
        eval_info=(run / "eval_info.json").stat().st_size,
        page=(run / "report.html").stat().st_size,
        report_s=report.seconds,
        report=report.most,
        compare_s=compare.seconds,
        compare=compare.most,
    )


def _core(command: Command, until: float) -> float:
    """Return how long the coordinator's core had worked by a moment."""
    return max((sample.core for sample in command.samples if sample.moment <= until), default=0.0)


def _first_and_last(run: Path, since: float) -> tuple[float, float]:
    """Return when the first and the last episode ended since a moment."""
    database = sqlite3.connect(f"{(run / 'run.sqlite').as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        query = "SELECT min(ended_at), max(ended_at) FROM episodes WHERE ended_at >= ?"
        first, last = database.execute(query, [since]).fetchone()
        return first, last
    finally:
        database.close()


def table_row(row: Row) -> str:
    """Return a row as Markdown."""
    cells = [
        f"{row.episodes:,}",
        f"{row.coordinator_us:.0f} µs",
        f"{_size(row.during)} / {_size(row.child)}",
        f"{row.after_s:.1f} s ({row.after_core:.1f}), {_size(row.after)}",
        f"{row.resume_s:.1f} s ({row.resume_core:.1f})",
        f"{_size(row.eval_info)}",
        f"{_size(row.page)}",
        f"{row.report_s:.1f} s, {_size(row.report)}",
        f"{row.compare_s:.1f} s, {_size(row.compare)}",
    ]
    return f"| {' | '.join(cells)} |"


def _size(number: int) -> str:
    return f"{number / 1e6:.1f} MB" if number < 1e7 else f"{number / 1e6:.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=float, default=1e6, help="episodes of the last row")
    parser.add_argument("--least", type=float, default=1e3, help="episodes of the first")
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    wish = parser.parse_args()
    names = (
        "episodes", "coordinator", "during: coordinator / other", "after", "resume", "eval_info.json",
        "report.html", "proctor report", "proctor compare",
    )  # fmt: skip
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
    sizes = [round(wish.least)]
    while sizes[-1] * 10 <= wish.most:
        sizes.append(sizes[-1] * 10)
    rows: dict[int, list[Row]] = {size: [] for size in sizes}
    for number in range(wish.rounds):
        for size in sizes:
            if number and size > ONCE:
                continue
            with tempfile.TemporaryDirectory() as folder:
                rows[size].append(measure(Path(folder), size, wish.tasks, wish.workers))
            print(table_row(rows[size][-1]), flush=True)
    for size in sizes:
        report_size(rows[size], rows[sizes[0]])


def report_size(rows: list[Row], smallest: list[Row]) -> None:
    """Report what a size took, beside what the smallest did."""
    most = max(rows, key=lambda row: row.during)
    what = f"{most.episodes:,} episodes"
    own, least = ([row.coordinator_us for row in side] for side in (rows, smallest))
    report(
        f"the coordinator's core, per episode, {what}",
        own,
        "µs",
        absolute=f"{_spread(own, least)} of {smallest[0].episodes:,} episodes; "
        f"memory {_size(most.during)}, {_size(max(row.after for row in rows))} with the ending",
    )
    report(
        f"from the last episode until the command has exited, {what}",
        [row.after_s for row in rows],
        "s",
        absolute=f"{statistics.median(row.after_core for row in rows):.1f} s of one core; "
        f"`eval_info.json` {_size(most.eval_info)}, `report.html` {_size(most.page)}",
    )
    report(
        f"a resume with nine tenths stored, until its first episode has ended, {what}",
        [row.resume_s for row in rows],
        "s",
        absolute=f"{statistics.median(row.resume_core for row in rows):.1f} s of one core",
    )
    report(
        f"`proctor report`, {what}",
        [row.report_s for row in rows],
        "s",
        absolute=f"{_size(max(row.report for row in rows))} of memory; `proctor compare` with a copy "
        f"{statistics.median(row.compare_s for row in rows):.1f} s, {_size(max(row.compare for row in rows))}",
    )


def _spread(values: list[float], others: list[float]) -> str:
    return f"{statistics.median(values) / statistics.median(others):.2f} times that"


if __name__ == "__main__":
    main()
