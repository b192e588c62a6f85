"""All benchmarks in one run: a table, the same as JSON, and the last figures of such a machine beside.

    make bench                                  what a quiet hour has room for
    make bench-full                             the whole matrix
    python benchmarks/suite.py --only=engine,placement
    python benchmarks/suite.py --write-docs     README.md and docs/ from what is stored; measures nothing

Every figure is a ratio against a peer or a limit that was measured in the same run, in turn, or what something
took, with the spread of its rounds. Tables are kept in benchmarks/results, after every benchmark. One whose
packages or GPU are not here is left out, and the table says so. Exit status: 0; 1 if a benchmark failed or took
longer than its limit. A goal that was missed is named, and is no failure.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import documentation
import psutil
import stored_tables

from proctor.machine.gpus import visible_gpus
from proctor.machine.resources import available_memory, usable_cores

HERE = Path(__file__).parent
SLACK = 4
"""How many times as long as expected a benchmark may take before it is ended; more on a busy machine."""
GRACE = 20.0
"""Seconds that it then has to end what it has started."""


class Part(NamedTuple):
    """A benchmark of the suite.

    Attributes:
        name: in tables, and its file unless `script` says otherwise.
        minutes: what it takes on two quiet cores: in the default suite, and in the whole matrix.
        arguments: in the default suite; `None`: it is not in it.
        full: in the whole matrix.
        python: whose interpreter runs it: this one's, or the one that the option of that name gives.
        peer: whose interpreter it is given, as an option of that name.
        gpu: whether it needs a GPU.
        script: its file, without `.py`.
    """

    name: str
    minutes: tuple[float, float]
    arguments: tuple[str, ...] | None = ()
    full: tuple[str, ...] = ()
    python: str = ""
    peer: str = ""
    gpu: bool = False
    script: str = ""

    @property
    def file(self) -> Path:
        """What is run."""
        return HERE / f"{self.script or self.name}.py"


SUITE = (
    Part("metaworld_step", (5, 5)),
    Part("engine", (13, 13)),
    Part("placement", (2, 2)),
    Part("startup", (1, 2), ("--rounds=3",), ("--rounds=7",)),
    Part("startup_lerobot", (4, 8), ("--lerobot", "--rounds=3"), ("--lerobot", "--rounds=7"), "lerobot",
         script="startup"),
    Part("stored_actions", (1, 2), ("--episodes=3",), ("--episodes=10",)),
    Part("films", (5, 25), ("--fps=10", "--rounds=2"), ("--task=mt50", "--all", "--fps=10", "--rounds=1")),
    Part("recording", (2, 6), ("20",), ("100",)),
    Part("growth", (1, 40), ("--most=1e4", "--rounds=2"), ("--rounds=3",)),
    Part("against_vla_eval", (4, 10), ("--rounds=2",), ("--rounds=5",), peer="vla_eval"),
    Part("against_lerobot", (14, 75), ("50", "--batch=2", "--rounds=2"), ("--rounds=3",), "lerobot"),
    Part("evaluator", (3, 3), python="lerobot"),
    Part("libero_drawing", (3, 3), python="libero"),
    Part("training_waits", (0, 12), None, (), "lerobot"),
    Part("autotune", (0, 12), None, ("random",)),
    Part("scaling", (0, 4), None, ("random", "--scaling"), script="autotune"),
    Part("gpu_pictures", (0, 1), None, ("pictures",), "lerobot", gpu=True, script="metaworld_step"),
    Part("gpu", (0, 12), None, (), "lerobot", gpu=True),
    Part("gpu_against_lerobot", (0, 15), None, (), "lerobot", gpu=True),
    Part("gpu_passes", (0, 6), None, (), "lerobot", gpu=True),
)  # fmt: skip

INTERPRETERS = ("lerobot", "libero", "vla_eval")


class Planned(NamedTuple):
    """A benchmark that will run, how, and how many seconds that probably takes."""

    part: Part
    command: list[str]
    arguments: tuple[str, ...]
    expected: float
    peer: str = ""
    """Its interpreter."""


def machine() -> dict[str, Any]:
    """Return what figures depend on, by which runs of one kind of machine are compared."""
    cpu = Path("/proc/cpuinfo").read_text().splitlines()
    return {
        "cpu": next((line.split(":")[1].strip() for line in cpu if line.startswith("model name")), "unknown"),
        "cores": usable_cores(),
        "gpu": [gpu.name for gpu in visible_gpus()],
        "memory_gb": available_memory() >> 30,
    }


def commit() -> str:
    """Return what was measured, as git names it; empty where there is no repository."""
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--exclude=*"]
    with contextlib.suppress(OSError):
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return ""


def planned(
    part: Part, full: bool, pythons: Mapping[str, str], gpus: Sequence[str], before: list[stored_tables.Run]
) -> Planned | str:
    """Return how a benchmark will run, or why it will not."""
    if part.gpu and not gpus:
        return "no GPU here"
    for wanted in filter(None, (part.python, part.peer)):
        if not pythons[wanted]:
            return f"no interpreter that has {wanted}"
    arguments = part.full if full else part.arguments or ()
    command = [pythons[part.python] if part.python else sys.executable, str(part.file), *arguments]
    if part.peer:
        command.append(f"--{part.peer.replace('_', '-')}={pythons[part.peer]}")
    known = stored_tables.seconds_of(part.name, arguments, before)
    seconds = 60 * part.minutes[full] if known is None else known
    return Planned(part, command, arguments, seconds, pythons[part.peer] if part.peer else "")


def measure(plan: Planned) -> dict[str, Any]:
    """Run a benchmark; returns its figures, and what went wrong if it failed, also if it had figures by then."""
    busy, began = busy_cores(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures"
        environment = {**os.environ, "PROCTOR_FIGURES": str(figures), "HF_HUB_OFFLINE": "1"}
        inherited = filter(None, [os.environ.get("PYTHONPATH", "")])
        environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parent / "src"), str(HERE), *inherited])
        limit = limit_of(plan, busy)
        status, words = run_for(plan.command, environment, limit)
        lines = figures.read_text().splitlines() if figures.exists() else []
    found: dict[str, Any] = {
        "arguments": list(plan.arguments),
        "seconds": round(time.monotonic() - began),
        "busy_cores": busy,
        "status": status,
        "versions": (json.loads(lines[0])["versions"] if lines else {}) | peer_versions(plan),
        "figures": [json.loads(line)["figure"] for line in lines],
    }
    if status is None:
        found["problem"] = f"ended after its limit of {limit / 60:.0f} minutes"
        found["status"] = 124
    elif status or not lines:
        last = (words.strip().splitlines() or ["it reported nothing"])[-1]
        found["problem"] = f"exit status {status}: {last}"
        found["status"] = status or 1
    return found


def limit_of(plan: Planned, busy: float) -> float:
    """Return how many seconds a benchmark may take; where others are at work, more of them."""
    return max(60.0, SLACK * plan.expected * (1.0 + busy))


def busy_cores(seconds: float = 2.0) -> float:
    """Return how many cores others use while no benchmark runs; a load average would count the last one, too."""
    return round(psutil.cpu_percent(seconds) / 100 * (os.cpu_count() or 1), 2)


def peer_versions(plan: Planned) -> dict[str, str]:
    """Return the version of the peer that a benchmark is given, as its interpreter tells."""
    if not plan.peer:
        return {}
    asked = subprocess.run([plan.peer, str(HERE / "figures.py")], capture_output=True, text=True, check=False)
    package = plan.part.peer.replace("_", "-")
    return {package: json.loads(asked.stdout).get(package, "unknown")} if not asked.returncode else {}


def run_for(command: list[str], environment: dict[str, str], seconds: float) -> tuple[int | None, str]:
    """Run a command with a limit; returns its status, `None` if that was reached, and its standard error."""
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True
    ) as started:
        try:
            _, words = started.communicate(timeout=seconds)
            return started.returncode, words
        except subprocess.TimeoutExpired:
            return None, ""
        finally:  # after Ctrl-C too: nothing that it has started may stay
            _end(started)


def _end(started: subprocess.Popen[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.wait(GRACE)


def arguments() -> tuple[argparse.Namespace, list[Part]]:
    """Return what was asked for, and the benchmarks to run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="the whole matrix")
    parser.add_argument("--only", default="", help="names of benchmarks, with commas")
    parser.add_argument("--write-docs", action="store_true", help="write README.md and docs/ from what is stored")
    for peer in INTERPRETERS:
        parser.add_argument(f"--{peer.replace('_', '-')}", default="", help=f"the interpreter that has {peer}")
    given = parser.parse_args()
    only = [name for name in given.only.split(",") if name]
    if unknown := set(only) - {part.name for part in SUITE}:
        names = ", ".join(part.name for part in SUITE)
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {names}")
    chosen = [part for part in SUITE if part.name in only or not only]
    return given, [part for part in chosen if given.full or part.arguments is not None]


def main() -> int:
    """Measure, print and store; or write the docs."""
    given, chosen = arguments()
    if given.write_docs:
        for page in documentation.write():
            print(f"{page}: written anew")
        return 0
    own = machine()
    before = stored_tables.of_the_kind(own, stored_tables.runs())
    last = stored_tables.newest_figures(before)
    pythons = {peer: getattr(given, peer) for peer in INTERPRETERS}
    plans = {part.name: planned(part, given.full, pythons, own["gpu"], before) for part in chosen}
    minutes = sum(plan.expected for plan in plans.values() if isinstance(plan, Planned)) / 60
    busy = busy_cores()
    words = "; a quiet hour would tell more" if busy > stored_tables.QUIET else ""
    print(
        f"{len(plans)} benchmarks, about {minutes:.0f} minutes; {busy:.1f} cores are busy with other work{words}",
        flush=True,
    )
    date = f"{datetime.datetime.now():%Y-%m-%d %H:%M:%S}"
    run: dict[str, Any] = {"date": date, "commit": commit(), "machine": own, "parts": {}}
    file = stored_tables.new_file(run)
    for name, plan in plans.items():
        if isinstance(plan, Planned):
            print(f"{name} {' '.join(plan.arguments)} (about {plan.expected / 60:.0f} minutes)", flush=True)
            run["parts"][name] = measure(plan)
        else:
            run["parts"][name] = {"figures": [], "problem": plan}
        stored_tables.store(run, last, file)  # as it goes on, so that Ctrl-C loses one benchmark
    print(f"\n{stored_tables.table(run, last)}\n\nstored in {file}")
    figures = [figure for part in run["parts"].values() for figure in stored_tables.figures_of(part)]
    if missed := [figure.name for figure in figures if figure.met is False]:
        print(f"goals missed: {'; '.join(missed)}")
    if failed := [name for name, part in run["parts"].items() if part.get("status")]:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
