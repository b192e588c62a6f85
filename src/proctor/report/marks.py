"""Lines with a mark in front: what was looked at, how it is, and what to do about it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.text import Text

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
