"""How large is a report, and how long does it take to make one?

    python benchmarks/report.py [--episodes=10] [--times=5]

Writes a made-up run of 50 tasks through the store's own writer, then runs `proctor report` on it several times
as a user would: a fresh process each time, imports and all. Prints size and median, as Markdown.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from made_up_run import MadeUp, make_run


def seconds(runs: Sequence[Path], output: Path) -> float:
    """Return the wall seconds of one `proctor report`."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "proctor.cli", "report", *map(str, runs), f"--output={output}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=10, help="per task")
    parser.add_argument("--times", type=int, default=5)
    wish = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        first = make_run(place / "first", MadeUp(n_episodes=wish.episodes))
        second = make_run(place / "second", MadeUp(n_episodes=wish.episodes, skill=0.5, policy="other"))
        print("| report | episodes | size | median | slowest |\n|---|---|---|---|---|")
        for name, runs in (("one run", [first]), ("two runs side by side", [first, second])):
            output = place / "report.html"
            taken = [seconds(runs, output) for _ in range(wish.times)]
            print(
                f"| {name} | {len(runs) * 50 * wish.episodes} | {output.stat().st_size / 1e6:.2f} MB "
                f"| {statistics.median(taken):.2f} s | {max(taken):.2f} s |"
            )


if __name__ == "__main__":
    main()
