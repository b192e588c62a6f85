"""What wakes a process or a thread that waits: an eventfd that knows whether it is still open.

A thread may come late: a policy of the caller's process may still be in `act` when its run is over. If it rang a
bare number, that could be another file by then, and eight bytes would land in it. So a bell owns its descriptor,
closes it once, and only when nobody waits there; whoever rings or waits later does nothing.
"""

from __future__ import annotations

import os
import select
import sys
import threading

_ONCE = (1).to_bytes(8, sys.byteorder)


class Bell:
    """An eventfd that any thread may ring, one at a time waits at, and any may close.

    Args:
        descriptor: an eventfd that came from another process, owned from now on; a new one if there is none.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC) if descriptor is None else descriptor
        self._closed = False
        self._waiting = 0
        # One that can be taken twice: a signal handler may ring while its own thread does.
        self._lock = threading.RLock()

    def fileno(self) -> int:
        """Return the descriptor, to be given to another process or to a selector; -1 once it is closed."""
        return -1 if self._closed else self._descriptor

    def ring(self) -> None:
        """Wake who waits, or who waits next."""
        with self._lock:
            if not self._closed:
                os.write(self._descriptor, _ONCE)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is rung. Returns whether it was, and not closed, or the time over.

        `os.read` and `poll` go on after a signal, and let its handler run first; `os.eventfd_read` raises instead,
        in every Python.
        """
        with self._lock:
            if self._closed:
                return False
            self._waiting += 1
        try:
            if seconds is not None:
                poll = select.poll()  # `select` takes no descriptor above 1023
                poll.register(self._descriptor, select.POLLIN)
                if not poll.poll(1000 * seconds):
                    return False
            os.read(self._descriptor, 8)
            return not self._closed
        finally:
            with self._lock:
                self._waiting -= 1
                if self._closed and not self._waiting:
                    os.close(self._descriptor)

    def close(self) -> None:
        """Close it; who waits is woken, and the descriptor goes with the last of them."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._waiting:
                os.write(self._descriptor, _ONCE)
            else:
                os.close(self._descriptor)

    __del__ = close
