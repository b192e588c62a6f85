"""The tables that `suite.py` keeps under `results/`: read again, compared with, and shown as Markdown.

A table is one JSON file, `DATE_MACHINE.json`, and the same as Markdown beside it. Figures are compared with the
newest ones of a machine of the same kind, each on its own: a run of a few benchmarks hides nothing of the others.
"""

from __future__ import annotations

import json
import re
from itertools import count
from pathlib import Path
from typing import Any

from figures import Figure

RESULTS = Path(__file__).parent / "results"

Run = dict[str, Any]
"""As it is stored: `date`, `commit`, `machine` and `parts`, by the name of the benchmark."""


QUIET = 0.2
"""Cores that others may use while a machine counts as quiet."""


def runs(folder: Path | None = None) -> list[Run]:
    """Return all that is stored, the newest first."""
    return [json.loads(file.read_text()) for file in sorted((folder or RESULTS).glob("*.json"), reverse=True)]


def figures_of(part: dict[str, Any]) -> list[Figure]:
    """Return the figures of a benchmark in a run."""
    return [Figure(**{**values, "values": tuple(values["values"])}) for values in part["figures"]]


def of_the_kind(machine: dict[str, Any], found: list[Run]) -> list[Run]:
    """Return the runs of machines like this one."""
    return [run for run in found if all(run["machine"][key] == machine[key] for key in ("cpu", "cores", "gpu"))]


def newest_figures(found: list[Run]) -> dict[str, Figure]:
    """Return every figure that was ever measured in runs, by its name, as it was last."""
    newest: dict[str, Figure] = {}
    for run in reversed(found):
        for part in run["parts"].values():
            newest |= {figure.name: figure for figure in figures_of(part)}
    return newest


def newest_with(part: str, cores: int | None, found: list[Run]) -> Run | None:
    """Return the newest run in which a benchmark ended well, if asked for on so many cores."""
    for run in found:
        ended_well = part in run["parts"] and "problem" not in run["parts"][part]
        if ended_well and cores in (None, run["machine"]["cores"]):
            return run
    return None


def seconds_of(part: str, arguments: tuple[str, ...], found: list[Run]) -> float | None:
    """Return how long a benchmark took when it last ended well with these arguments."""
    for run in found:
        stored = run["parts"].get(part)
        if stored and "problem" not in stored and stored["arguments"] == list(arguments):
            return float(stored["seconds"])
    return None


def new_file(run: Run, folder: Path | None = None) -> Path:
    """Return where a run is to be stored: `DATE_MACHINE.json`, of which there is none yet."""
    machine = run["machine"]
    words = [machine["cpu"], f"{machine['cores']} cores", *machine["gpu"][:1]]
    kind = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\(r\)|\(tm\)|cpu|@", "", " ".join(words).lower())).strip("-")
    name = f"{run['date'].replace(' ', '_').replace(':', '-')}_{kind}"
    place = folder or RESULTS
    place.mkdir(parents=True, exist_ok=True)
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(file for one in names if not (file := place / f"{one}.json").exists())


def store(run: Run, before: dict[str, Figure], file: Path) -> None:
    """Write a run, or write it again as it goes on, and the same as Markdown beside it."""
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n")
    partial.replace(file)
    words = [f"# {run['date']}", machine_words(run), table(run, before)]
    file.with_suffix(".md").write_text("\n\n".join(words) + "\n")


def table(run: Run, before: dict[str, Figure]) -> str:
    """Return a run as Markdown, with earlier figures beside."""
    lines = ["| what | figure (lowest to highest) | goal | last | measured |", "|---|---|---|---|---|"]
    for name, part in run["parts"].items():
        for figure in figures_of(part):
            last = before[figure.name].words if figure.name in before else ""
            lines.append(f"| {figure.name} | {figure.words} | {figure.aim} | {last} | {figure.absolute} |")
        if "problem" in part:
            what = "failed" if part.get("status") else "left out"
            lines.append(f"| `{name}` | {what} | | | {part['problem'].replace('|', '/')} |")
    return "\n".join(lines)


def machine_words(run: Run) -> str:
    """Return what the figures of a run depend on, as a sentence."""
    machine = run["machine"]
    gpus = f"{len(machine['gpu'])} × {machine['gpu'][0]}" if machine["gpu"] else "no GPU"
    return f"{machine['cpu']}, {machine['cores']} cores, {gpus}, {machine['memory_gb']} GB of memory free."


def part_table(name: str, run: Run) -> str:
    """Return what one benchmark of a run found, with where, when and with what, for a page of the docs."""
    part, machine = run["parts"][name], run["machine"]
    lines = ["| what | median (lowest to highest) | measured |", "|---|---|---|"]
    for figure in figures_of(part):
        lines.append(f"| {figure.name} | {figure.words} | {figure.absolute} |")
    versions = ", ".join(f"{package} {number}" for package, number in part["versions"].items())
    gpu = f", {machine['gpu'][0]}" if machine["gpu"] else ""
    where = f"{machine['cpu']}, {machine['cores']} cores{gpu}, {_others(part, run)}"
    return "\n".join([*lines, "", f"{run['date'][:10]}, {where}; {versions}."])


def _others(part: dict[str, Any], run: Run) -> str:
    """Say whether other work went on beside a benchmark."""
    if "busy_cores" in part:
        busy = part["busy_cores"]
        return f"{busy:.1f} of them busy with other work when it began" if busy > QUIET else "quiet"
    # Stored before that was measured: a load average counts the benchmark before, so the first one's is told.
    first = next(one["load"] for one in run["parts"].values() if "load" in one)
    return f"load average {first:.1f} when the suite began"
