"""Ctrl-C and SIGTERM as something to read, instead of an exception in the middle of a commit."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

from proctor.engine.eventfd import EventFd
from proctor.errors import Interrupted
from proctor.machine.processes import STOP_SIGNALS


class Interrupts:
    """Counts the stop signals while it is entered; `fileno` becomes readable with each.

    Outside the main thread Python allows no handlers; then nothing is caught and the caller's rules hold.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: signal.Signals | None = None
        self._abrupt = False
        self._bell = EventFd()
        self._before: dict[signal.Signals, Any] = {}
        self._others: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        self._others = STOP_SIGNALS.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        STOP_SIGNALS.reset(self._others)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._bell.close()

    def fileno(self) -> int:
        """Return the descriptor that tells of a signal."""
        return self._bell.fileno()

    def drain(self) -> None:
        """Make `fileno` quiet again."""
        self._bell.wait(0)

    def wake(self) -> None:
        """Make `fileno` readable; any thread may call it, even when all is over."""
        self._bell.ring()

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

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.first = self.first or signal.Signals(number)
        self.wake()
        if self._abrupt and self.count > 1:
            raise KeyboardInterrupt
