"""Names of tasks in columns that are too narrow for them: broken behind hyphens, not in mid-word."""

from __future__ import annotations

import re

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text


def broken(name: str, width: int, lines: int = 0) -> list[str]:
    """Return a name in lines of at most `width`, broken behind hyphens and the like where that is possible.

    Args:
        name: the name.
        width: letters in a line.
        lines: at most so many; the middle of a longer name is left out. 0: as many as it takes.

    >>> broken("button-press-topdown-wall-v3", 16)
    ['button-press-', 'topdown-wall-v3']
    >>> broken("pick_up_the_black_bowl_on_the_plate", 10, lines=2)
    ['pick_up_t…', '_the_plate']
    """
    if lines and len(name) > width * lines:
        end = width * lines // 2
        name = f"{name[: width * lines - end - 1]}…{name[-end:]}"
    found = [""]
    for part in _parts(name):
        if found[-1] and len(found[-1]) + len(part) > width:
            found.append("")
        found[-1] += part
        while len(found[-1]) > width:
            found[-1:] = [found[-1][:width], found[-1][width:]]
    if lines and len(found) > lines:
        return [name[:width], name[width:]]
    return found


def _parts(name: str) -> list[str]:
    return [part for part in re.findall(r"[^-_/. ]*[-_/. ]?", name) if part]


class BreakableName:
    """A name in a cell of a rich table."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield it in as many lines as it takes."""
        yield Text("\n".join(broken(self._name, options.max_width)))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return the widths of its longest part and of the whole."""
        return Measurement(max(map(len, _parts(self._name)), default=1), max(1, len(self._name)))
