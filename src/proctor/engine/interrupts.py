"""Ctrl-C and SIGTERM as something to read, instead of an exception in the middle of a commit."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any


class Interrupted(Exception):
    """The user asked to stop, and what was under way comes to nothing."""


class Interrupts:
    """Counts the stop signals while it is entered; `fileno` becomes readable with each.

    Outside the main thread Python allows no handlers; then nothing is caught and the caller's rules hold.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: signal.Signals | None = None
        self.satisfied = False
        self._abrupt = False
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        ends, (self._read, self._write) = (self._read, self._write), (-1, -1)
        for end in ends:  # their numbers may soon be another file's, and a late thread may still wake us
            os.close(end)

    def fileno(self) -> int:
        """Return the descriptor that tells of a signal."""
        return self._read

    def drain(self) -> None:
        """Make `fileno` quiet again."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 64)

    def wake(self) -> None:
        """Make `fileno` readable; any thread may call it, even when all is over."""
        with contextlib.suppress(OSError):
            os.write(self._write, b".")

    @contextlib.contextmanager
    def abruptly(self) -> Iterator[None]:
        """Let a second signal break off what runs in this thread, which nobody else can end.

        Raises:
            Interrupted: there was one.
        """
        self._abrupt = True
        try:
            yield
        except BaseException as error:
            if self.count > 1:
                raise Interrupted from error
            raise
        finally:
            self._abrupt = False

    def stop(self, times: int = 1) -> None:
        """Count as if that many SIGINTs had come; any thread may call it, as a node's does."""
        self.count += times
        self.first = self.first or signal.SIGINT
        self.wake()

    def enough(self) -> None:
        """End the run at once, and not because of a signal: what it was to find out is known."""
        self.satisfied = True
        self.count += 2
        self.wake()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.first = self.first or signal.Signals(number)
        self.wake()
        if self._abrupt and self.count > 1:
            raise KeyboardInterrupt
