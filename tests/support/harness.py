"""How the tests run Proctor: in this process, or as a user would, and how they look at what is left."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from proctor.config.load import build_settings
from proctor.engine.evaluation import evaluate_settings
from proctor.errors import StoreError
from proctor.events import Watcher
from proctor.policies.protocol import Policy
from proctor.replay.run_films import film_run
from proctor.results import Evaluation
from proctor.store.episodes import EpisodeTable
from proctor.types import EpisodeKey

SUPPORT = Path(__file__).parent
THOUGHTFUL = f"{SUPPORT / 'tiny_policies.py'}:Thoughtful"

Digests = dict[EpisodeKey, tuple[str | None, str | None]]
"""Of every episode's physics and pixels: bit-identical means that both are equal."""


def tiny_tree(
    output_dir: Path,
    *,
    task: str = "a,b,c",
    n_episodes: int = 4,
    policy: Mapping[str, Any] | None = None,
    env: Mapping[str, Any] | None = None,
    eval: Mapping[str, Any] | None = None,
    **top: Any,
) -> dict[str, Any]:
    """Return settings, as nested values, of a run on the tiny benchmark."""
    return {
        "policy": {"path": THOUGHTFUL, **(policy or {})},
        "env": {
            "type": f"{SUPPORT / 'tiny.py'}:Tiny",
            "task": task,
            "scratch": str(output_dir.parent),
            **(env or {}),
        },
        "eval": {"n_episodes": n_episodes, "batch_size": 2, **(eval or {})},
        "output_dir": str(output_dir),
        "display": "none",
        **top,
    }


def run_tiny(
    output_dir: Path, live: Policy | None = None, watcher: Watcher | None = None, **options: Any
) -> Evaluation:
    """Evaluate on the tiny benchmark in this process."""
    settings = build_settings(tiny_tree(output_dir, **options))
    evaluation = evaluate_settings(settings, [watcher] if watcher is not None else [], live)
    return film_run(evaluation, settings, watcher or Watcher())


def digests(source: Evaluation | Path) -> Digests:
    """Return every episode's digests, of an evaluation or of a run directory."""
    if isinstance(source, Evaluation):
        return {record.key: record.digests for record in source.records}
    with EpisodeTable(source / "run.sqlite", read_only=True) as table:
        return {record.key: record.digests for record in list(table.records())}


def lay_out(site: Path, package: str, entry_points: str, version: str = "1.0") -> None:
    """Lay out in a folder of the path what pip leaves of a package, but for its code."""
    info = site / f"{package}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)


def warden_of(pid: int) -> psutil.Process:
    """Return the process that sees to what a run's children leave behind."""

    def found() -> list[psutil.Process]:
        wardens = []
        for child in psutil.Process(pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):  # it may end at any moment
                if "orphans.py" in " ".join(child.cmdline()) and not is_over(child):
                    wardens.append(child)
        return wardens

    warden: psutil.Process
    (warden,) = wait_until(found)  # one that has just been started may still be a copy of its parent
    return warden


def is_over(process: psutil.Process | int) -> bool:
    """Whether a process has ended; it may be gone at any moment."""
    try:
        known = psutil.Process(process) if isinstance(process, int) else process
        return bool(known.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def wait_until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait for something that another process does; the limit only guards against waiting for ever."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
    return found


def stored(directory: Path) -> int:
    """Return how many episodes a run that may just have begun has stored."""
    try:
        return len(digests(directory))
    except StoreError:
        return 0  # the file, or its tables, are not there yet


def flags(tree: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return settings as command-line flags."""
    found = []
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found += flags(value, f"{name}.")
        else:
            found.append(f"--{name}={json.dumps(value) if isinstance(value, bool) else value}")
    return found


def start_cli(
    *arguments: str, extra_env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[str]:
    """Start `proctor` as a user would."""
    return subprocess.Popen(
        [sys.executable, "-m", "proctor", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200", **(extra_env or {})},
        **options,
    )


def run_cli(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `proctor` to its end."""
    process = start_cli(*arguments, **options)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def viewed(folder: Path, path: str = "/") -> str:
    """Return a page of `proctor view`, as a browser gets it."""
    process = start_cli("view", str(folder), "--port=0")
    try:
        assert process.stdout is not None
        port = int(re.search(r":(\d+)/", process.stdout.readline())[1])  # type: ignore[index]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            page: str = answer.read().decode()
        return page
    finally:
        process.kill()
        process.communicate()


def descendants(pid: int) -> list[psutil.Process]:
    """Return the processes that a process has started, and theirs."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def role(process: psutil.Process) -> str:
    """Return "worker", "host" or "other" for a descendant, by the log it writes to."""
    try:
        target = Path(f"/proc/{process.pid}/fd/1").readlink().name
    except OSError:
        return "other"
    return "worker" if target.startswith("worker-") else "host" if target == "host.log" else "other"


def without_rights() -> None:
    """Give up root's right to read and write everything, so that permissions hold in a container, too."""
    for right in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, right, 0, 0, 0)  # PR_CAPBSET_DROP
