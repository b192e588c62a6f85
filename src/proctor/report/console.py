"""Where text goes: a terminal, a file, or a pipe whose reader has seen enough."""

from __future__ import annotations

import os
import sys

from rich.console import Console


class PatientConsole(Console):
    """Goes on silently when its reader is gone (`proctor eval ... | head`): the run matters, the text does not."""

    def on_broken_pipe(self) -> None:
        """Drop this and all further output."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def count(number: int, word: str) -> str:
    """Return a number with its word.

    >>> count(1, "episode"), count(2, "episode")
    ('1 episode', '2 episodes')
    """
    return f"{number} {word}" + ("" if number == 1 else "s")
