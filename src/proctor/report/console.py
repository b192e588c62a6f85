"""Where text goes: a terminal, a file, or a pipe whose reader has seen enough."""

from __future__ import annotations

import os
import sys

from rich.console import Console
from rich.text import Text


class PatientConsole(Console):
    """Goes on silently when its reader is gone (`proctor eval ... | head`): the run matters, the text does not."""

    def on_broken_pipe(self) -> None:
        """Drop this and all further output."""
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def printable(name: str) -> Text:
    """Return somebody's name for a thing as it is: no markup in it is obeyed, and no control code gets out.

    >>> printable("lift[red]\\x1b[2J").plain
    'lift[red]?[2J'
    """
    return Text("".join(letter if letter.isprintable() else "?" for letter in name))


def count(number: int, word: str) -> str:
    """Return a number with its word.

    >>> count(1, "episode"), count(2, "episode")
    ('1 episode', '2 episodes')
    """
    return f"{number} {word}" + ("" if number == 1 else "s")
