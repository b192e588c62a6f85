"""How promises are attacked: with the command line, files of one's own and signals, as a stranger would."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import psutil

from harness import SUPPORT, descendants, role, run_cli, start_cli, wait_until

POLICY = """
from proctor import Policy, PolicySpec
from proctor.policies.protocol import Actions
import numpy as np

GAIN = 1.0

class Steady(Policy):
    spec = PolicySpec(observation_keys=("observation.state",), action_steps=1, fingerprint="always the same")

    def act(self, windows, memories, generators):
        states = [window[-1]["observation.state"] for window in windows]
        return Actions([np.full((1, 2), GAIN) * state[:1] for state in states], memories)

class Plain:
    def act(self, observation):
        return np.full(2, GAIN) * observation["observation.state"][:1]
"""


class Scene:
    """A folder with a policy and a benchmark of the user's own, both to be edited at will."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.policy, self.benchmark = folder / "policy.py", folder / "bench.py"
        self.policy.write_text(POLICY)
        shutil.copy(SUPPORT / "tiny.py", self.benchmark)
        self.run = folder / "run"

    def flags(self, *more: str) -> list[str]:
        """Return the flags of an evaluation; later ones win."""
        flags = dict(
            flag.split("=", 1)
            for flag in (
                f"--policy.path={self.policy}:Steady",
                f"--env.type={self.benchmark}:Tiny",
                "--env.task=a,b",
                "--eval.n_episodes=6",
                "--eval.batch_size=2",
                "--policy.placement=central",
                f"--output_dir={self.run}",
                "--display=none",
                *more,
            )
        )
        return [f"{name}={value}" for name, value in flags.items()]

    def eval(self, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `proctor eval` to its end, with one worker if nothing else is asked for."""
        return run_cli("eval", *self.flags("--eval.batch_size=1", *more), extra_env=environment)

    def start(self, *more: str, command: str = "eval") -> subprocess.Popen[str]:
        """Start a slow `proctor eval`."""
        return start_cli(command, *self.flags("--env.delay=0.02", *more))

    def moved(self, name: str) -> Scene:
        """Return the same files, run and all, in another folder."""
        shutil.move(self.folder, self.folder.parent / name)
        return self._in(self.folder.parent / name)

    def copied(self, folder: Path) -> Scene:
        """Return copies of all files."""
        shutil.copytree(self.folder, folder)
        return self._in(folder)

    @staticmethod
    def _in(folder: Path) -> Scene:
        other = object.__new__(Scene)
        other.folder, other.run = folder, folder / "run"
        other.policy, other.benchmark = folder / "policy.py", folder / "bench.py"
        return other


def edit(file: Path, old: str, new: str) -> None:
    """Change a user's file."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def ended(run: Path) -> int:
    """Return how many episodes a run has stored by now."""
    try:
        with sqlite3.connect(f"file:{run}/run.sqlite?mode=ro", uri=True) as database:
            return int(database.execute("SELECT count(*) FROM episodes").fetchone()[0])
    except sqlite3.Error:
        return 0


def digests(run: Path) -> dict[tuple[str, int], str]:
    """Return the digest of every episode, as the database holds it."""
    database = sqlite3.connect(f"file:{run}/run.sqlite?mode=ro", uri=True)
    try:
        rows = database.execute("SELECT task, episode_index, digest FROM episodes WHERE status = 'finished'")
        return {(task, index): digest for task, index, digest in rows}
    finally:
        database.close()


def result(run: Path) -> dict[str, Any]:
    """Return what `eval_info.json` says."""
    told: dict[str, Any] = json.loads((run / "eval_info.json").read_text())
    return told


def one_of(process: subprocess.Popen[str], kind: str) -> psutil.Process:
    """Wait for a worker or host of a running command, and return it."""
    found: psutil.Process = wait_until(
        lambda: next((child for child in descendants(process.pid) if role(child) == kind), None)
    )
    return found


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a command's end; returns its status and what it said on standard error."""
    _, told = process.communicate(timeout=120)
    return process.returncode, told


def assert_one_line(told: str) -> None:
    """A user's mistake gets a message, never a traceback."""
    assert "Traceback" not in told
    assert told.startswith("proctor: "), told


def kill(process: psutil.Process) -> None:
    """End a process as the kernel does when memory runs out."""
    os.kill(process.pid, 9)
