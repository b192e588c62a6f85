"""Promise: kill it at any moment; no finished episode is lost or changed, and the same command finishes the rest.

The coordinator, the host and the workers are killed, stopped politely and rudely, again and again.
"""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path

import pytest

from harness import descendants, is_over, wait_until
from outside import Scene, digests, ended, finish, kill, one_of, result


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], str]:
    scene = Scene(tmp_path_factory.mktemp("reference") / "scene")
    done = scene.eval()
    assert done.returncode == 0, done.stderr
    return digests(scene.run)


def disturbed(scene: Scene, before: int, how: signal.Signals) -> int | None:
    """Run the command until it has stored more than `before`, then send a signal; returns its status."""
    process = scene.start()
    children = wait_until(lambda: descendants(process.pid))
    wait_until(lambda: ended(scene.run) > before or process.poll() is not None)
    process.send_signal(how)
    status, told = finish(process)
    assert status in (-signal.SIGKILL, 143, 130, 0), told
    wait_until(lambda: all(is_over(child) for child in children))
    return status


@pytest.mark.slow
def test_the_command_is_killed_after_every_few_episodes(
    tmp_path: Path, expected: dict[tuple[str, int], str]
) -> None:
    scene = Scene(tmp_path / "scene")
    kept: dict[tuple[str, int], str] = {}
    for how in itertools.cycle((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)):
        status = disturbed(scene, len(kept), how)
        now = digests(scene.run)
        assert kept.items() <= now.items()  # nothing that was there is gone or another
        kept = now
        if status == 0 or len(kept) == len(expected):
            break
    done = scene.eval()
    assert done.returncode == 0, done.stderr
    assert digests(scene.run) == expected
    assert result(scene.run)["run"]["complete"]


def test_children_are_killed_while_it_runs(tmp_path: Path, expected: dict[tuple[str, int], str]) -> None:
    scene = Scene(tmp_path / "scene")
    process = scene.start("--eval.max_attempts=50")

    def wait_for(count: int) -> None:
        wait_until(lambda: ended(scene.run) >= count or process.poll() is not None)

    for number in range(1, 6):
        wait_for(number)
        if process.poll() is None:
            kill(one_of(process, "host" if number % 3 == 0 else "worker"))
    status, told = finish(process)
    assert status == 0, told
    assert digests(scene.run) == expected


def test_a_second_writer_is_kept_out_and_told_who_writes(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "scene")
    first = scene.start()
    wait_until(lambda: ended(scene.run) > 0)
    second = scene.eval()
    os.kill(first.pid, signal.SIGKILL)
    finish(first)
    assert second.returncode == 2
    assert str(first.pid) in second.stderr
    assert scene.eval().returncode == 0  # the lock went away with its holder
