"""How large is a report, and how long does it take to make one?

    python benchmarks/report.py [--episodes=10] [--times=5]

Writes a made-up run of 50 tasks through the store's own writer, then runs `proctor report` on it several times
as a user would: a fresh process each time, imports and all. Prints size and medians, as Markdown.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from made_up_run import MadeUp, make_run


class Taken(NamedTuple):
    """Seconds by the clock on the wall, and those that a core worked, which do not depend on who else is busy."""

    wall: float
    core: float


def take(runs: Sequence[Path], output: Path) -> Taken:
    """Return what one `proctor report` takes."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "proctor", "report", *map(str, runs), f"--output={output}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    core = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Taken(time.perf_counter() - began, core)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=10, help="per task")
    parser.add_argument("--times", type=int, default=5)
    wish = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        first = make_run(place / "first", MadeUp(n_episodes=wish.episodes))
        second = make_run(place / "second", MadeUp(n_episodes=wish.episodes, skill=0.5, policy="other"))
        print("| report | episodes | size | wall | wall, slowest | core |\n|---|---|---|---|---|---|")
        for name, runs in (("one run", [first]), ("two runs side by side", [first, second])):
            output = place / "report.html"
            taken = [take(runs, output) for _ in range(wish.times)]
            wall, core = [one.wall for one in taken], [one.core for one in taken]
            print(
                f"| {name} | {len(runs) * 50 * wish.episodes} | {output.stat().st_size / 1e6:.2f} MB "
                f"| {statistics.median(wall):.2f} s | {max(wall):.2f} s | {statistics.median(core):.2f} s |"
            )


if __name__ == "__main__":
    main()
