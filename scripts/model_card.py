"""Puts the outcomes of a run into a model card: `python scripts/model_card.py CHECKPOINT RUN`.

Writes `outcomes.json`, which has every episode, and the table in `README.md`. With `--check` it writes nothing and
says whether the run came out as the card says.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from proctor.results import ScoredRun, task_key

OUTCOMES, CARD = "outcomes.json", "README.md"
BEGIN, END = "<!-- results -->\n", "<!-- end of results -->\n"
VERSIONS = ("gymnasium", "metaworld", "mujoco", "numpy")
"""What trajectories were seen to depend on, besides the processor and the renderer."""

SHOWN = 16
"""Digits of a digest: enough to tell episodes apart."""


def outcomes(run: ScoredRun) -> dict[str, Any]:
    """Return what every episode of a run came to, and what that depends on."""
    tasks: dict[str, Any] = {}
    for record in run.records:
        task = tasks.setdefault(record.task, {"seeds": [], "successes": [], "digests": []})
        task["seeds"].append(record.seed)
        task["successes"].append(int(bool(record.success)))
        task["digests"].append("+".join(digest[:SHOWN] for digest in record.digests if digest))
    return {
        "surroundings": {
            **{name: run.versions.get(name) for name in VERSIONS},
            "cpu": run.identity["machine"]["cpu"],
            # By which libraries choose how they compute: rewards are made of BLAS's dot products, too.
            "environment": run.identity["machine"]["environment"],
            "renderer": run.identity["renderer"],
        },
        "tasks": tasks,
    }


def table(run: ScoredRun) -> str:
    """Return the rates as Markdown."""
    results = run.results
    rows = [
        f"| {task.name} | {rate.successes}/{rate.episodes} | {100 * rate.low:.0f}–{100 * rate.high:.0f} % |"
        for task, rate in ((task, results.of([task_key(task)])) for task in results.tasks)
    ]
    overall = results.overall
    rate, interval = (
        100 * overall.successes / overall.episodes,
        f"{100 * overall.low:.1f}–{100 * overall.high:.1f} %",
    )
    return "\n".join(
        [
            f"**{rate:.1f} %** ({overall.successes} of {overall.episodes} episodes, 95 % interval {interval})",
            "",
            "| task | successes | 95 % interval |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def check(card: dict[str, Any], run: dict[str, Any]) -> tuple[str, bool]:
    """Say how a run compares with a card, in the episodes that both have, and whether all outcomes are equal."""
    shared = equal = digests = 0
    for name, ours in run["tasks"].items():
        theirs = card["tasks"].get(name, {"seeds": []})
        for place, seed in enumerate(ours["seeds"]):
            if seed in theirs["seeds"]:
                other = theirs["seeds"].index(seed)
                shared += 1
                equal += ours["successes"][place] == theirs["successes"][other]
                digests += ours["digests"][place] == theirs["digests"][other]
    words = f"{equal} of {shared} outcomes are as in the model card, {digests} episodes bit for bit"
    differ = [name for name, value in card["surroundings"].items() if run["surroundings"].get(name) != value]
    other = f" (other here: {', '.join(differ)})" if differ else ""
    return f"{words}{other}.", equal == shared > 0


def main(arguments: list[str]) -> int:
    """Write or check; returns the exit status."""
    checks = "--check" in arguments
    folder, place = (Path(argument) for argument in arguments if argument != "--check")
    run = ScoredRun.open(place)
    if checks:
        words, good = check(json.loads((folder / OUTCOMES).read_text()), outcomes(run))
        sys.stdout.write(f"{words}\n")
        return 0 if good else 1
    (folder / OUTCOMES).write_text(json.dumps(outcomes(run), separators=(",", ":")) + "\n")
    before, _, rest = (folder / CARD).read_text().partition(BEGIN)
    (folder / CARD).write_text(f"{before}{BEGIN}{table(run)}{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
