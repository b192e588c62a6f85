"""What the six surfaces share: a sandbox each, and the table at the end of `make fuzz`."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fuzz.inputs import SEED, SHARE
from fuzz.sandbox import Sandbox
from fuzz.surface import Surface
from proctor.engine.process import STEADY

_MOST_MEMORY = 8 << 30
"""Bytes of addresses: threads and libraries reserve more than they use."""


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A folder that is current, home and place of temporary files at once."""
    sandbox = Sandbox(tmp_path_factory.mktemp("fuzz").resolve())
    with pytest.MonkeyPatch.context() as patch, _bounded_memory():
        patch.setenv("HOME", str(sandbox.root / "home"))
        patch.setenv("TMPDIR", str(sandbox.root / "tmp"))
        patch.setenv("COLUMNS", "200")
        patch.setattr(tempfile, "tempdir", str(sandbox.root / "tmp"))
        patch.setattr(sys, "dont_write_bytecode", True)
        for name, value in STEADY.items():  # or a command would start this process over
            patch.setenv(name, value)
        patch.chdir(sandbox.here)
        yield sandbox
        sandbox.ignore()
    os.chdir("/")


@contextlib.contextmanager
def _bounded_memory() -> Iterator[None]:
    """Let what reads without a limit fail here, before the whole machine has no memory left."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.fixture
def surface(sandbox: Sandbox, record_property: Callable[[str, object], None]) -> Iterator[Callable[..., Surface]]:
    """Makes the surface that a test is about; its counts go into the table."""
    made: list[Surface] = []

    def make(name: str, **options: Any) -> Surface:
        made.append(Surface(name, sandbox, **options))
        return made[-1]

    yield make
    for one in made:
        record_property("fuzz", one.tally())


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table: what was counted, and nothing else."""
    if not SHARE:
        return
    reports = [report for kind in terminalreporter.stats.values() for report in kind]
    every = [
        value for report in reports for name, value in getattr(report, "user_properties", ()) if name == "fuzz"
    ]
    rows = {row["surface"]: row for row in every if row["inputs"]}
    line = terminalreporter.write_line
    terminalreporter.section(f"fuzz, PROCTOR_FUZZ_SEED={SEED}")
    line(f"{'surface':<13}{'inputs':>7}{'refused':>9}{'faults':>8}{'longest':>10}  ended with")
    for row in rows.values():
        statuses = ", ".join(f"{status}: {number}" for status, number in row["statuses"].items())
        numbers = f"{row['inputs']:>7}{row['refused']:>9}{row['faults']:>8}{row['longest']:>8.2f} s"
        line(f"{row['surface']:<13}{numbers}  {statuses}")
    line(f"{'together':<13}{sum(row['inputs'] for row in rows.values()):>7}")
    for row in rows.values():
        for slow in row["slow"]:
            line(f"slow, {row['surface']}: {slow}")
