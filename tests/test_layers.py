"""Imports point one way: docs/design.md draws the layers, and the source is held to the drawing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "proctor"
ROOMS = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}


def layers() -> list[set[str]]:
    """Return the rooms of each layer, lowest first."""
    drawing = (ROOT / "docs" / "design.md").read_text().split("```layers\n")[1].split("```")[0]
    return [{room.strip() for room in line.split("|")} for line in reversed(drawing.splitlines())]


def imports(file: Path) -> Iterator[str]:
    """Yield the modules that a file imports anywhere: late ones, and those for types alone, count too."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "proctor":
            yield from (f"proctor.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module


def rooms_of(file: Path) -> set[str]:
    """Return the rooms that a file imports from."""
    parts = (module.split(".") for module in imports(file))
    return {part[1] for part in parts if part[0] == "proctor" and len(part) > 1} & ROOMS


@pytest.mark.parametrize("name", sorted(ROOMS - {"__init__", "__main__"}))
def test_a_room_knows_only_those_below_it(name: str) -> None:
    drawn = layers()
    assert sum(name in layer for layer in drawn) == 1, f"docs/design.md must draw {name} once"
    level = next(number for number, layer in enumerate(drawn) if name in layer)
    allowed = {name}.union(*drawn[:level])
    files = [SOURCE / f"{name}.py"] if (SOURCE / f"{name}.py").exists() else (SOURCE / name).rglob("*.py")
    wrong = {str(file.relative_to(SOURCE)): rooms_of(file) - allowed for file in files}
    assert {file: rooms for file, rooms in wrong.items() if rooms} == {}


def test_the_drawing_names_no_room_that_is_gone() -> None:
    assert set().union(*layers()) <= ROOMS


def test_every_file_that_the_docs_send_a_contributor_to_is_there() -> None:
    known = [
        str(path.relative_to(ROOT))
        for room in ("src", "tests", "docs", "benchmarks", "scripts")
        for path in (ROOT / room).rglob("*.*")
    ]
    for page in ("docs/design.md", "docs/processes.md", "CONTRIBUTING.md"):
        named = re.findall(r"`([\w/]+\.(?:py|j2|md))`", (ROOT / page).read_text())
        gone = [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in known)]
        assert (page, gone) == (page, [])


@pytest.mark.parametrize(
    ("module", "late"),
    [
        ("proctor.engine.worker", "pydantic rich sqlite3 scipy jinja2 av torch gymnasium mujoco ray"),
        ("proctor.engine.evaluation", "scipy jinja2 av torch gymnasium mujoco ray starlette pyarrow"),
        ("proctor.cli.entry", "numpy pydantic rich asyncio"),
    ],
)
def test_heavy_packages_are_imported_late(module: str, late: str) -> None:
    code = f"import sys, {module}; print(*sorted(set(sys.modules) & set({late.split()!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
