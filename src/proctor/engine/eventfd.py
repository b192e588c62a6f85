"""What wakes a process or a thread that waits: an eventfd that knows whether it is still open.

A thread may come late: a policy of the caller's process may still be in `act` when its run is over. If it rang a
bare number, that could be another file by then, and eight bytes would land in it. So an `EventFd` owns its
descriptor, closes it once, and only when nobody is using it; whoever rings or waits later does nothing.
"""

from __future__ import annotations

import os
import select
import sys

_ONCE = (1).to_bytes(8, sys.byteorder)


class EventFd:
    """An eventfd that any thread may ring, one at a time waits at, and any may close.

    There is no lock: every question to a policy rings twice, and a signal handler may ring while its own thread
    does. Whoever uses the descriptor enters a list first and then asks whether it is closed; whoever closes it
    does the two the other way round. So one of them sees the other, and the last to leave the list closes it.

    Args:
        descriptor: an eventfd that came from another process, owned from now on; a new one if there is none.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC) if descriptor is None else descriptor
        self._open = [self._descriptor]  # taken out by the one that closes it
        self._users: list[None] = []
        self._closed = False

    def fileno(self) -> int:
        """Return the descriptor, to be given to another process or to a selector; -1 once it is closed."""
        return -1 if self._closed else self._descriptor

    def ring(self) -> None:
        """Wake who waits, or who waits next."""
        self._users.append(None)
        try:
            if not self._closed:
                os.write(self._descriptor, _ONCE)
        finally:
            self._users.pop()
            if self._closed:
                self._free()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is rung. Returns whether it was, and not closed, or the time over.

        `os.read` and `poll` go on after a signal, and let its handler run first; `os.eventfd_read` raises instead,
        in every Python.
        """
        self._users.append(None)
        try:
            if self._closed or (seconds is not None and not self._rings_within(seconds)):
                return False
            os.read(self._descriptor, 8)
            return not self._closed
        finally:
            self._users.pop()
            if self._closed:
                self._free()

    def _rings_within(self, seconds: float) -> bool:
        poll = select.poll()  # `select` takes no descriptor above 1023
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(1000 * seconds))

    def close(self) -> None:
        """Close it; who waits is woken, and the descriptor goes with the last that uses it."""
        if self._closed:
            return
        self._users.append(None)  # before it counts as closed: nobody frees it meanwhile
        self._closed = True
        if len(self._users) > 1:
            os.write(self._descriptor, _ONCE)
        self._users.pop()
        self._free()

    __del__ = close

    def _free(self) -> None:
        if not self._users:
            try:
                descriptor = self._open.pop()
            except IndexError:
                return  # another has
            os.close(descriptor)
