"""What a command imports before it has anything to do: words are printed in tenths of a second."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from proctor.cli.main import COMMANDS

_RUN = """
import contextlib, io, json, sys
from proctor.cli.main import run
for command in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = run(command)
    assert status == 0 and out.getvalue().strip(), (command, status, out.getvalue())
print(*sys.modules)
"""

SIMULATORS_AND_MODELS = {"mujoco", "metaworld", "gymnasium", "OpenGL", "torch", "lerobot", "av", "scipy", "ray"}
"""Seconds each."""
READERS = {"pydantic", "yaml"}
"""Of settings: half of what is left."""
ENGINE = {"proctor.engine", "proctor.parallel", "proctor.tuning", "proctor.comparison", "proctor.viewer"}
ARRAYS = {"numpy", "msgpack", "sqlite3"}


def imported(*commands: list[str]) -> set[str]:
    """Return the modules and packages that these commands have imported by their end."""
    done = subprocess.run([sys.executable, "-c", _RUN, json.dumps(commands)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "command", [["--help"], ["--version"], ["card", "--help"], ["diff", "--help"], ["doctor", "--help"]]
)
def test_plain_words_need_no_arrays_and_no_reader_of_settings(command: list[str]) -> None:
    assert not imported(command) & (ARRAYS | READERS | ENGINE | SIMULATORS_AND_MODELS)


def test_no_help_imports_the_engine_or_what_reads_settings() -> None:
    """All of them in one process: what none has imported in the end, none has at all."""
    every = [[command, "--help"] for command in COMMANDS]
    assert not imported(*every) & (READERS | ENGINE | SIMULATORS_AND_MODELS)


@pytest.mark.parametrize("words", [[], ["policies"], ["--json"]])
def test_list_imports_classes_and_nothing_that_runs_them(words: list[str]) -> None:
    assert not imported(["list", *words]) & (READERS | ENGINE | SIMULATORS_AND_MODELS | {"proctor.store"})
