"""Measured tables in README.md and under docs/: each stands between markers and is written from what is stored.

    <!-- bench:engine -->               the newest stored run in which `engine` ended well
    <!-- bench:placement cores=16 -->   the newest of a machine with 16 cores
    <!-- /bench -->

`python benchmarks/suite.py --write-docs` writes them.
"""

from __future__ import annotations

import re
from pathlib import Path

import stored_tables

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"(<!-- bench:(\w+)(?: cores=(\d+))? -->\n)(.*?)(<!-- /bench -->)", re.DOTALL)


def pages() -> list[Path]:
    """Return the files that may hold such tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(text: str) -> list[str]:
    """Return which benchmarks a page shows."""
    return [match[2] for match in _BLOCK.finditer(text)]


def written(text: str, found: list[stored_tables.Run]) -> str:
    """Return a page with its tables as they are stored, or how to measure them."""

    def block(match: re.Match[str]) -> str:
        start, name, cores, _, end = match.groups()
        run = stored_tables.newest_with(name, int(cores) if cores else None, found)
        words = f"Not measured yet: `make bench-full ONLY={name}`."
        inside = words if run is None else stored_tables.part_table(name, run)
        return f"{start}\n{inside}\n\n{end}"

    return _BLOCK.sub(block, text)


def write() -> list[Path]:
    """Write all pages; returns those that have changed."""
    found, changed = stored_tables.runs(), []
    for page in pages():
        before = page.read_text()
        after = written(before, found)
        if after != before:
            page.write_text(after)
            changed.append(page)
    return changed
