"""Two thousand episodes while processes of every kind are killed and stopped: equal to the quiet run."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from harness import THOUGHTFUL, descendants, digests, flags, is_over, role, run_cli, start_cli, tiny_tree
from proctor.store.episodes import EpisodeTable

EPISODES = 2_000
SEED = 12


class Monkey:
    """Kills and stops processes of a run, now and then, until the run has ended; starts it again if need be."""

    def __init__(self, command: list[str]) -> None:
        self._command, self._random = command, random.Random(SEED)
        self.deeds: Counter[str] = Counter()

    def run(self) -> tuple[int, str]:
        """Return the exit status and the errors of the session that came to an end by itself."""
        while True:
            process = start_cli(*self._command)
            killed = self._torment(process)
            _, errors = process.communicate(timeout=300)
            if process.returncode == 1 and "while loading" in errors:
                self.deeds["host lost before the run began"] += 1  # that is refused, and the same command goes on
            elif not killed:
                return process.returncode, errors

    def _torment(self, process: subprocess.Popen[str]) -> bool:
        """Do harm until a session ends; returns whether it was killed."""
        patience = self._random.uniform(8.0, 16.0)
        begun = time.monotonic()
        while process.poll() is None:
            time.sleep(self._random.uniform(0.2, 0.8))
            if time.monotonic() - begun > patience:
                if self._random.random() < 0.5:
                    self.deeds["coordinator killed"] += 1
                    process.kill()
                    return True
                self.deeds["coordinator stopped"] += 1
                process.send_signal(signal.SIGSTOP)
                time.sleep(self._random.uniform(0.5, 4.0))
                process.send_signal(signal.SIGCONT)
                begun = time.monotonic()
                continue
            with contextlib.suppress(psutil.NoSuchProcess):
                victims = [one for one in descendants(process.pid) if role(one) in ("worker", "host")]
                if not victims:
                    continue
                victim = self._random.choice(victims)
                how = self._random.choice(["killed", "stopped"])
                self.deeds[f"{role(victim)} {how}"] += 1
                victim.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        return False


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("placement", ["central", "worker"])
def test_two_thousand_episodes_under_fire_equal_the_quiet_run(tmp_path: Path, placement: str) -> None:
    options = {
        "task": "a,b,c,d",
        "n_episodes": EPISODES // 4,
        "policy": {"path": THOUGHTFUL, "placement": placement, "kwargs": '{"drawn": false}'},
    }
    quiet = run_cli("eval", *flags(tiny_tree(tmp_path / "quiet", **options)))  # type: ignore[arg-type]
    assert quiet.returncode == 0, quiet.stderr
    tree = tiny_tree(
        tmp_path / "chaos",
        **options,  # type: ignore[arg-type]
        env={"delay": 0.004},
        eval={"batch_size": 4, "max_attempts": 1000},
        limits=dict.fromkeys(("start", "build", "reset", "step", "draw", "load", "act", "respond"), 4.0),
    )
    monkey = Monkey(["eval", *flags(tree)])
    status, errors = monkey.run()
    print(dict(monkey.deeds))  # noqa: T201 - shown with -s, and where it fails
    assert status == 0, errors
    assert len(digests(tmp_path / "chaos")) == EPISODES
    assert digests(tmp_path / "chaos") == digests(tmp_path / "quiet")
    with EpisodeTable(tmp_path / "chaos" / "run.sqlite", read_only=True) as table:
        assert {record.status for record in table.records()} == {"finished"}
        assert table.attempts()  # it was no quiet run
    left = [one for one in psutil.process_iter() if _belongs_to(one, tmp_path) and not is_over(one)]
    assert left == []


def _belongs_to(process: psutil.Process, place: Path) -> bool:
    try:
        return Path(f"/proc/{process.pid}/fd/1").readlink().is_relative_to(place)
    except OSError:
        return False
