"""Where text goes: a terminal, a file, or a pipe that is closed early; and how numbers are written there."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:  # every command imports this, and most show no rate
    from proctor.stats.intervals import Rate


class PatientConsole(Console):
    """Goes on silently when its reader is gone (`proctor eval ... | head`): the run matters, the text does not."""

    def on_broken_pipe(self) -> None:
        """Drop this and all further output."""
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def printable(name: str) -> Text:
    """Return foreign text so that it prints literally: without markup and without control codes.

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


def letter(place: int) -> str:
    """Return what a run is called beside others: A, B, ..."""
    return chr(ord("A") + place) if place < 26 else f"R{place + 1}"


def duration(seconds: float) -> str:
    """Return a duration as text.

    >>> duration(75)
    '1 min 15 s'
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def in_bytes(size: int) -> str:
    """Return a size as text.

    >>> in_bytes(999), in_bytes(10_689), in_bytes(1_084_213)
    ('999 bytes', '10.7 kB', '1.08 MB')
    """
    if size < 1000:
        return f"{size} bytes"
    scale, unit = (1e3, "kB") if size < 1_000_000 else (1e6, "MB") if size < 1_000_000_000 else (1e9, "GB")
    return f"{size / scale:.3g} {unit}"


def moment(seconds: float) -> str:
    """Return a time as text, in this machine's time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def percent(rate: Rate) -> str:
    """Return a rate in percent; `~` says that it is an estimate, because episodes were running."""
    return "–" if rate.value is None else f"{'~' if rate.running else ''}{100 * rate.value:.1f} %"


def interval(rate: Rate) -> str:
    """Return an interval in percent; nothing for an unknown rate."""
    return f"{100 * rate.low:.1f}–{100 * rate.high:.1f}" if rate.value is not None else ""


Mark = Literal["good", "none", "bad", "note"]

_MARKS: dict[Mark, tuple[str, str, str]] = {
    "good": ("✓", "+", "green"),
    "none": ("–", "-", "dim"),
    "bad": ("✗", "x", "bold red"),
    "note": ("!", "!", "yellow"),
}
"""Each mark, the same for terminals without Unicode, and its style."""


@dataclass(frozen=True)
class MarkedLine:
    """One line, or a few where the terminal is narrow; `remedy` goes below it, behind an arrow."""

    mark: Mark
    name: str
    text: str
    remedy: str = ""
    section: str = ""


def print_marked(console: Console, line: MarkedLine, section_width: int, name_width: int) -> None:
    """Print a line. What is to be typed stays whole, whatever the width."""
    unicode = console.encoding.lower().startswith("utf")
    for row in _rows(line, section_width, name_width, console.width, unicode):
        if not unicode:
            row = Text(row.plain.encode(console.encoding, "replace").decode(console.encoding))
        console.print(row, soft_wrap=True)


def _rows(line: MarkedLine, section_width: int, name_width: int, width: int, unicode: bool) -> Iterator[Text]:
    mark, plain_mark, style = _MARKS[line.mark]
    indent = " " * (section_width + 2 + name_width)
    room = max(20, width - len(indent))
    rows = textwrap.wrap(line.text, room, break_long_words=False, break_on_hyphens=False) or [""]
    yield Text.assemble(
        (f"{line.section:<{section_width}}", "bold"),
        (f"{mark if unicode else plain_mark} ", style),
        f"{line.name:<{name_width}}",
        (rows[0], "dim" if line.mark == "none" else ""),
    )
    for row in rows[1:]:
        yield Text(f"{indent}{row}")
    if line.remedy:
        arrow = "→" if unicode else ">"
        yield Text.assemble(" " * section_width, (f"{arrow} {line.remedy}", "bold"))
