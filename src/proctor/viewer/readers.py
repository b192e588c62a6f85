"""Reads that nobody waits for long: each has a thread of its own, which ends with the process.

A run directory may lie on a disk that does not answer, or be made to take for ever. Python cannot end a thread;
but it can go on without it, and leave it behind when the process ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")


class BusyError(Exception):
    """Too much is being read already, and does not end."""


class Readers:
    """Runs functions in threads.

    Args:
        most: how many may be under way at once.
        most_each: how many of them for the same thing, so that one that never ends does not take up all.
    """

    def __init__(self, most: int = 64, most_each: int = 4) -> None:
        self._most, self._most_each = most, most_each
        self._under_way: Counter[Hashable] = Counter()
        self._lock = threading.Lock()

    def start(self, key: Hashable, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Start a function. Raises `BusyError` if too many are under way, of all or of this `key`."""
        with self._lock:
            if self._under_way[key] >= self._most_each or self._under_way.total() >= self._most:
                raise BusyError
            self._under_way[key] += 1
        future: Future[Result] = Future()
        thread = threading.Thread(
            target=self._run, args=(key, future, function, arguments), name="proctor-reader", daemon=True
        )
        thread.start()
        return future

    async def answer(
        self, key: Hashable, patience: float, function: Callable[..., Result], *arguments: Any
    ) -> Result:
        """Return what a function returns. Raises `BusyError`, or `TimeoutError` when patience ends."""
        return await asyncio.wait_for(asyncio.wrap_future(self.start(key, function, *arguments)), patience)

    def _run(
        self, key: Hashable, future: Future[Result], function: Callable[..., Result], arguments: tuple[Any, ...]
    ) -> None:
        future.set_running_or_notify_cancel()
        try:
            result = function(*arguments)
        except BaseException as error:
            self._ended(key)
            future.set_exception(error)
        else:
            self._ended(key)
            future.set_result(result)

    def _ended(self, key: Hashable) -> None:
        with self._lock:
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]
