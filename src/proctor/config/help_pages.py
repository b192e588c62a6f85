"""How `--help` is laid out, at any width: words, flags, and examples that can be pasted. It knows no settings."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

_GAP, _INDENT = 4, 4
_NARROW, _LEAST_WORDS = 60, 32
"""Columns that a flag's words need to stand beside it and still be read."""

_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|[^\s'"])+""")


class FlagList:
    """Flags and what they do: two columns where there is room, else the words below each flag.

    Args:
        rows: the flag as it is typed, what it does, and what holds if it is left out, already in brackets.
    """

    def __init__(self, rows: Sequence[tuple[str, str, str]]) -> None:
        self.rows = rows

    @property
    def row_count(self) -> int:
        """How many flags there are."""
        return len(self.rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it as wide as it may be."""
        column = max((len(flag) for flag, _, _ in self.rows), default=0) + _GAP
        beside = options.max_width - column >= _LEAST_WORDS
        for flag, words, default in self.rows:
            text = Text(words)
            if default:
                text.append(f" {default}", style="dim")
            lines = text.wrap(console, max(10, options.max_width - (column if beside else _INDENT)))
            head = Text(flag, style="cyan")
            if beside and lines:
                head.append(" " * (column - len(flag)))
                head = Text.assemble(head, lines.pop(0))
            yield head
            for line in lines:
                yield Text(" " * (column if beside else _INDENT)) + line


def print_words(console: Console, words: str) -> None:
    """Print a command's words: paragraphs filled to the width, examples so that they can be pasted."""
    for block in filter(None, re.sub(r"\\\n +", "", words).strip().split("\n\n")):
        lines = block.split("\n")
        if lines[0].startswith("  "):
            for line in lines:
                for part in _example(line.strip(), console.width):
                    console.print(part, markup=False, highlight=False, soft_wrap=True)
        else:
            console.print(" ".join(lines), markup=False, highlight=False)
        console.print()


def print_flags(console: Console, title: str, flags: FlagList) -> None:
    """Print flags below their title; nothing where there are none."""
    if flags.row_count:
        console.print(Text(title, style="bold"))
        console.print(flags)
        console.print()


def _example(line: str, width: int) -> list[str]:
    """Return a command line in lines that fit, if that can be, and that mean the same when they are pasted."""
    if len(line) + 2 <= width:
        return [f"  {line}"]
    command, _, comment = line.partition("  # ")
    rows = [f"  # {part}" for part in textwrap.wrap(comment, max(10, width - 4))]
    first, *words = _WORD.findall(command)
    row = f"  {first}"
    for word in words:
        if len(row) + len(word) + 3 > width:
            rows.append(f"{row} \\")
            row = f"{' ' * (4 if width >= _NARROW else 2)}{word}"
        else:
            row += f" {word}"
    return [*rows, row]
