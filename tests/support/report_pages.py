"""A report as a browser reads it, and tasks of which it may be about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import html5lib

from proctor.types import Task

SMALL = tuple(
    Task(group, place, f"{group}-{place}-v3", f"do {group} {place}", 300)
    for group, many in (("easy", 3), ("hard", 2))
    for place in range(many)
)
HTML = "{http://www.w3.org/1999/xhtml}"
SVG = "{http://www.w3.org/2000/svg}"


class Document:
    """A page as a browser reads it; reading it fails if it is not valid."""

    def __init__(self, path: Path) -> None:
        self.source = path.read_text(encoding="utf-8")
        self.root = html5lib.HTMLParser(strict=True).parse(self.source)

    def all(self, tag: str, **attributes: str) -> list[Any]:
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        found = [*self.root.iter(HTML + tag), *self.root.iter(SVG + tag)]
        return [e for e in found if all(value in (e.get(name) or "").split() for name, value in wanted.items())]

    def text(self, element: Any = None) -> str:
        return " ".join(" ".join((self.root if element is None else element).itertext()).split())

    def rows(self, table: Any) -> list[list[str]]:
        return [
            [self.text(cell) for cell in row if cell.tag in (f"{HTML}th", f"{HTML}td")]
            for row in table.iter(f"{HTML}tr")
        ]

    def section(self, ident: str) -> Any:
        (found,) = self.all("section", id=ident)
        return found
