"""What a child's own children become when it has ended: nothing stays, however it or its parent ended.

A kill reaches a child's process group. What has left that, as a daemon does, is found by a mark in its
environment, by a small process beside this one (`warden.py`), which is there also when this one is killed. It
lives as long as this process has children. If somebody kills or stops it, another takes over, or this process
does its work.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
from pathlib import Path

from proctor.engine.warden import SECONDS, VARIABLE, end_marked

_WARDEN = Path(__file__).with_name("warden.py")

_PATIENCE = SECONDS + 2.0
"""Seconds for its last work: it gives up earlier itself, unless somebody has stopped it."""


class Strays:
    """Marks children, and has those ended that they leave behind. One for a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._warden: subprocess.Popen[bytes] | None = None
        self._mark = ""
        self._number = 0
        self._alive: set[str] = set()
        os.register_at_fork(after_in_child=self._forget)

    def admit(self) -> str:
        """Return the mark of a child that is about to start."""
        with self._lock:
            if not self._alive:
                self._mark = secrets.token_hex(8)
            self._keep_warden()
            self._number += 1
            mark = f"{self._mark}.{self._number}"
            self._alive.add(mark)
            return mark

    def dismiss(self, mark: str) -> None:
        """Have all ended that a child left behind, which has ended itself; with the last child, wait for that."""
        with self._lock:
            if mark not in self._alive:
                return
            self._alive.discard(mark)
            if self._alive:
                self._tell(mark)
                return
            warden, self._warden = self._warden, None
        if warden is None or not _conclude(warden):
            end_marked({mark.partition(".")[0].encode()})

    def _keep_warden(self) -> subprocess.Popen[bytes]:
        """Return the warden, or another if somebody has killed it: that one knows every child by the same mark."""
        if self._warden is None or self._warden.poll() is not None:
            if self._warden is not None and self._warden.stdin is not None:
                self._warden.stdin.close()
            self._warden = None
            self._warden = subprocess.Popen(
                [sys.executable, "-I", "-S", _WARDEN, self._mark],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                start_new_session=True,
            )
            assert self._warden.stdin is not None
            os.set_blocking(self._warden.stdin.fileno(), False)  # it may be stopped: nobody waits for it here
        return self._warden

    def _tell(self, mark: str) -> None:
        try:
            warden = self._keep_warden()
            assert warden.stdin is not None
            os.write(warden.stdin.fileno(), f"{mark.partition('.')[2]}\n".encode())
        except OSError:  # killed just now, unable to start, or stopped for so long that its pipe is full
            end_marked({mark.encode()})

    def _forget(self) -> None:
        """Leave children and warden to the process that started them; this is a copy of it."""
        warden, self._warden = self._warden, None
        self._lock = threading.Lock()
        self._alive = set()
        if warden is not None and warden.stdin is not None:
            warden.stdin.close()
            warden.returncode = 0  # nothing to wait for


def _conclude(warden: subprocess.Popen[bytes]) -> bool:
    """Let a warden do its last work, and return whether it did."""
    assert warden.stdin is not None
    warden.stdin.close()
    warden.send_signal(signal.SIGCONT)  # somebody may have stopped it
    try:
        return warden.wait(_PATIENCE) == 0
    except subprocess.TimeoutExpired:
        warden.kill()
        warden.wait()
        return False


STRAYS = Strays()


def marked(mark: str) -> dict[str, str]:
    """Return the variable that marks a child, inside whatever run this process may be a child of itself."""
    around = os.environ.get(VARIABLE)
    return {VARIABLE: f"{around}:{mark}" if around else mark}
