"""All benchmarks in one run: a table, the same as JSON, and the figures of the last run on such a machine beside.

    make bench             what a quiet hour has room for
    make bench-full        the whole matrix
    python benchmarks/suite.py --only=engine,placement

Every figure is a ratio against a peer or a limit that was measured in the same run, in turn. A benchmark whose
packages are not here is left out, and the table says so.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from figures import Figure

from proctor.machine.gpus import visible_gpus
from proctor.machine.resources import available_memory, usable_cores

HERE = Path(__file__).parent
RESULTS = Path("outputs/benchmarks")


class Part(NamedTuple):
    """A benchmark of the suite.

    Attributes:
        name: its file.
        python: whose interpreter it needs: this one's, or the one that the option of that name gives.
        arguments: in the default suite; `None`: it is not in it.
        full: in the whole matrix.
    """

    name: str
    python: str
    arguments: tuple[str, ...] | None
    full: tuple[str, ...] = ()


SUITE = (
    Part("metaworld_step", "", ()),
    Part("engine", "", ()),
    Part("placement", "", ()),
    Part("stored_actions", "", ("--episodes=3",), ("--episodes=10",)),
    Part("films", "", ("--fps=10",), ("--task=mt50", "--all")),
    Part("recording", "", ("20",), ("100",)),
    Part("against_vla_eval", "", ("--rounds=2",), ("--rounds=5",)),
    Part("against_lerobot", "lerobot", ("50", "batch=2"), ()),
    Part("evaluator", "lerobot", ()),
    Part("training_waits", "lerobot", None, ()),
    Part("libero_drawing", "libero", ()),
    Part("growth", "", None, ()),
)


def machine() -> dict[str, Any]:
    """Return what figures depend on, by which runs of one kind of machine are compared."""
    model = next((line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), "unknown")
    return {
        "cpu": model,
        "cores": usable_cores(),
        "gpu": [gpu.name for gpu in visible_gpus()],
        "memory_gb": available_memory() >> 30,
    }


def _cpuinfo() -> list[str]:
    return Path("/proc/cpuinfo").read_text().splitlines()


def measure(part: Part, python: str, arguments: tuple[str, ...]) -> dict[str, Any]:
    """Run a benchmark; returns its figures, and what it said if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures"
        environment = {**os.environ, "PROCTOR_FIGURES": str(figures), "HF_HUB_OFFLINE": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parent / "src"), str(HERE)])
        began = time.monotonic()
        command = [python, str(HERE / f"{part.name}.py"), *arguments]
        ended = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
        lines = figures.read_text().splitlines() if figures.exists() else []
    found: dict[str, Any] = {
        "arguments": list(arguments),
        "seconds": round(time.monotonic() - began),
        "load": os.getloadavg()[0],
        "versions": json.loads(lines[0])["versions"] if lines else {},
        "figures": [json.loads(line)["figure"] for line in lines],
    }
    if not lines:
        last = (ended.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        found["problem"] = f"exit status {ended.returncode}: {last}"
    return found


def last_like(own: dict[str, Any]) -> dict[str, Any] | None:
    """Return the newest stored run of this kind of machine."""
    for file in sorted(RESULTS.glob("*.json"), reverse=True):
        stored: dict[str, Any] = json.loads(file.read_text())
        if all(stored["machine"][key] == own[key] for key in ("cpu", "cores", "gpu")):
            return stored
    return None


def table(run: dict[str, Any], last: dict[str, Any] | None) -> str:
    """Return a run as Markdown, with the figures of an earlier one."""
    parts = [] if last is None else last["parts"].values()
    before = {one["name"]: Figure(**one) for part in parts for one in part["figures"]}
    lines = ["| what | ratio | last | measured |", "|---|---|---|---|"]
    for name, part in run["parts"].items():
        if "problem" in part:
            lines.append(f"| `{name}.py` | left out | | {part['problem']} |")
        for values in part["figures"]:
            figure = Figure(**values)
            earlier = before.get(figure.name)
            then = "" if earlier is None else f"{earlier.median:.3g}"
            lines.append(f"| {figure.name} | {figure.words} | {then} | {figure.absolute} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="the whole matrix")
    parser.add_argument("--only", default="", help="names of benchmarks, with commas")
    for peer in ("lerobot", "libero"):
        parser.add_argument(f"--{peer}", default="", help=f"the interpreter that has {peer}")
    given = parser.parse_args()
    only = [name for name in given.only.split(",") if name]
    if unknown := set(only) - {part.name for part in SUITE}:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    run: dict[str, Any] = {"machine": machine(), "parts": {}}
    for part in SUITE:
        arguments = part.full if given.full else part.arguments
        if arguments is None or (only and part.name not in only):
            continue
        python = getattr(given, part.python) if part.python else sys.executable
        print(f"{part.name} {' '.join(arguments)}", flush=True)
        missing = {"figures": [], "problem": f"no interpreter that has {part.python}"}
        run["parts"][part.name] = measure(part, python, arguments) if python else missing
    print("\n" + table(run, last_like(run["machine"])))
    RESULTS.mkdir(parents=True, exist_ok=True)
    file = RESULTS / f"{datetime.datetime.now():%Y-%m-%d_%H-%M-%S}.json"
    file.write_text(json.dumps(run, indent=1))
    print(f"\nstored in {file}")


if __name__ == "__main__":
    main()
