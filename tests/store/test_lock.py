"""One writer per run directory; the second is told who the first is."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import is_over, wait_until
from proctor.errors import EXIT_USAGE, RunLockedError, UsageError
from proctor.store.lock import RunLock

HOLD = (
    "import sys\n"
    "from pathlib import Path\n"
    "from proctor.store.lock import RunLock\n"
    "with RunLock(Path(sys.argv[1])):\n"
    "    print('held', flush=True)\n"
    "    sys.stdin.read()\n"
    "print('released', flush=True)\n"
)
"""Holds the lock until its standard input ends."""


@contextmanager
def another_holder(directory: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_process_is_refused_and_told_the_first_ones_number_and_host(tmp_path: Path) -> None:
    with another_holder(tmp_path) as holder:
        with pytest.raises(RunLockedError) as caught, RunLock(tmp_path):
            pytest.fail("two writers in one run directory")
        message = str(caught.value)
        assert f"process {holder.pid} on {socket.gethostname()} since " in message
        assert str(tmp_path) in message
        assert "--output_dir" in message
        assert caught.value.exit_status == EXIT_USAGE


def test_a_refused_process_does_not_disturb_the_lock(tmp_path: Path) -> None:
    with another_holder(tmp_path) as holder:
        for _ in range(3):
            with pytest.raises(RunLockedError, match=f"process {holder.pid} on"), RunLock(tmp_path):
                pytest.fail("two writers in one run directory")


def test_a_second_lock_in_the_same_process_is_refused_too(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        with pytest.raises(RunLockedError, match=f"process {os.getpid()} on"), RunLock(tmp_path):
            pytest.fail("two writers in one run directory")
        with pytest.raises(RunLockedError), RunLock(tmp_path):
            pytest.fail("the refusal has dropped the lock")


def test_a_lock_is_free_when_its_holder_leaves(tmp_path: Path) -> None:
    with another_holder(tmp_path) as holder:
        assert holder.communicate("")[0] == "released\n"
        with RunLock(tmp_path):
            pass


def test_a_lock_is_free_when_its_holder_is_killed_and_names_the_next_one(tmp_path: Path) -> None:
    with another_holder(tmp_path) as holder:
        holder.kill()
        holder.wait()
        with RunLock(tmp_path):
            assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()


def test_a_lock_is_free_after_an_error_inside(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), RunLock(tmp_path):
        _ = 1 / 0
    with RunLock(tmp_path):
        pass


def test_a_released_lock_names_nobody(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        pass
    assert (tmp_path / "lock").read_bytes() == b""


def test_the_lock_file_stays_so_that_nobody_can_lock_another_one_beside_it(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        before = (tmp_path / "lock").stat().st_ino
    with RunLock(tmp_path):
        assert (tmp_path / "lock").stat().st_ino == before


def test_a_holder_that_has_not_said_its_name_yet_is_still_a_holder(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        (tmp_path / "lock").write_bytes(b"")
        with pytest.raises(RunLockedError, match="being written by another process"), RunLock(tmp_path):
            pytest.fail("two writers in one run directory")


def test_children_do_not_inherit_the_lock(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            close_fds=False,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
    with child, RunLock(tmp_path):
        child.communicate(b"")


FORK = """
import ctypes, os, sys, time
from pathlib import Path
from proctor.store.lock import RunLock
with RunLock(Path(sys.argv[1])):
    pid = os.fork() if sys.argv[2] == "python" else ctypes.CDLL(None).fork()
    if pid == 0:
        time.sleep(3600)
    print(pid, flush=True)
    sys.stdin.read()
"""


@contextmanager
def killed_after_a_fork(directory: Path, how: str) -> Iterator[int]:
    """Have a process that holds the lock fork, and kill it; gives the number of the fork."""
    with subprocess.Popen(
        [sys.executable, "-c", FORK, str(directory), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        fork = int(holder.stdout.readline())
        holder.kill()
    try:
        yield fork
    finally:
        os.kill(fork, 9)
        wait_until(lambda: is_over(fork))


def test_a_fork_of_the_holder_does_not_keep_the_lock(tmp_path: Path) -> None:
    with killed_after_a_fork(tmp_path, "python"), RunLock(tmp_path):
        pass


def test_a_fork_that_python_does_not_hear_of_is_named_to_who_comes_second(tmp_path: Path) -> None:
    with killed_after_a_fork(tmp_path, "C") as fork:
        with pytest.raises(RunLockedError) as caught, RunLock(tmp_path):
            pytest.fail("two writers in one run directory")
        assert f"still locked by process {fork}, which a run that has ended left behind" in str(caught.value)


def test_a_fork_that_leaves_by_the_same_way_neither_releases_the_lock_nor_wipes_its_name(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        code = (
            "import os, sys\nfrom pathlib import Path\nfrom proctor.store.lock import RunLock\n"
            "with RunLock(Path(sys.argv[1])):\n    fork = os.fork()\n    if fork:\n        os.waitpid(fork, 0)\n"
            "        print((Path(sys.argv[1]) / 'lock').read_text())\n"
        )
        (tmp_path / "other").mkdir()
        told = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "other")], capture_output=True, text=True, check=True
        )
    assert json.loads(told.stdout)["host"] == socket.gethostname()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL])
def test_a_file_system_without_locks_is_called_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(UsageError) as caught, RunLock(tmp_path):
        pytest.fail("nothing keeps a second writer out")
    assert not isinstance(caught.value, RunLockedError)
    assert f"{tmp_path} lies on a file system without locks ({os.strerror(number)})" in str(caught.value)
    assert "being written" not in str(caught.value)
