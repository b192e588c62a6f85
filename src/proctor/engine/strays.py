"""What a child's own children become when it has ended: nothing stays, however it or its parent ended.

A kill reaches a child's process group. What has left that, as a daemon does, is found by a mark in its
environment, by a small process beside this one (`warden.py`), which is there also when this one is killed. It
lives as long as this process has children.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import threading
from pathlib import Path

from proctor.engine.warden import VARIABLE

_WARDEN = Path(__file__).with_name("warden.py")


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
            if self._warden is None:
                self._mark = secrets.token_hex(8)
                self._warden = subprocess.Popen(
                    [sys.executable, "-I", "-S", _WARDEN, self._mark],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    bufsize=0,
                    cwd="/",
                    start_new_session=True,
                )
            self._number += 1
            mark = f"{self._mark}.{self._number}"
            self._alive.add(mark)
            return mark

    def dismiss(self, mark: str) -> None:
        """Have all ended that a child left behind, which has ended itself; with the last child, wait for that."""
        with self._lock:
            if self._warden is None or mark not in self._alive:
                return
            self._alive.discard(mark)
            assert self._warden.stdin is not None
            if self._alive:
                with contextlib.suppress(OSError):  # somebody has killed it
                    os.write(self._warden.stdin.fileno(), f"{mark.partition('.')[2]}\n".encode())
                return
            warden, self._warden = self._warden, None
        with contextlib.suppress(OSError):
            warden.stdin.close()  # type: ignore[union-attr] # it is a pipe
        warden.wait()

    def _forget(self) -> None:
        """Leave children and warden to the process that started them; this is a copy of it."""
        warden, self._warden = self._warden, None
        self._lock = threading.Lock()
        self._alive = set()
        if warden is not None and warden.stdin is not None:
            warden.stdin.close()
            warden.returncode = 0  # nothing to wait for


STRAYS = Strays()


def marked(mark: str) -> dict[str, str]:
    """Return the variable that marks a child, inside whatever run this process may be a child of itself."""
    around = os.environ.get(VARIABLE)
    return {VARIABLE: f"{around}:{mark}" if around else mark}
