"""Waiting for descriptors of any number: `select` takes none above 1023, and a run with many workers has them."""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import Protocol


class Readable(Protocol):
    """Something with a descriptor."""

    def fileno(self) -> int:
        """Return it."""


def wait_readable(sources: Sequence[Readable | int], seconds: float | None = None) -> list[Readable | int]:
    """Return those that can be read, or nothing when the time is over, if there is a limit."""
    poll = select.poll()
    numbers = {source if isinstance(source, int) else source.fileno(): source for source in sources}
    for number in numbers:
        poll.register(number, select.POLLIN)
    return [numbers[number] for number, _ in poll.poll(None if seconds is None else 1000 * seconds)]
