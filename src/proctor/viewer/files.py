"""Which files a browser may see, and how: nothing outside of the folder of runs, and only kinds that are known."""

from __future__ import annotations

import os
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from proctor.report.page import page
from proctor.store.run_directory import DATABASE
from proctor.video_format import CONTAINER, MEDIA_TYPE

_TEXT = "text/plain; charset=utf-8"
# What a run directory holds. A page that somebody put there would run under this address, so there are no pages.
KINDS = {
    f".{CONTAINER}": MEDIA_TYPE,
    ".webm": "video/webm",
    ".gif": "image/gif",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".json": "application/json",
    ".yaml": _TEXT,
    ".log": _TEXT,
    ".txt": _TEXT,
    ".sqlite": "application/vnd.sqlite3",
}

_HERE = Path(__file__).parent / "static"
SCRIPTS = ("renew.js", "keys.js", "list.js", "run.js", "episode.js")
STATIC = {
    "page.css": (page.HERE / "page.css", "text/css; charset=utf-8"),
    "page.js": (page.HERE / "page.js", "text/javascript; charset=utf-8"),
    "viewer.css": (_HERE / "viewer.css", "text/css; charset=utf-8"),
    **{name: (_HERE / name, "text/javascript; charset=utf-8") for name in SCRIPTS},
    "icon.svg": (_HERE / "icon.svg", "image/svg+xml"),
}


def file_response(file: Path) -> Response:
    """Return a file, or the part of it that is asked for, so that a video can be sought in."""
    kind = KINDS.get(file.suffix.lower())
    if kind is None:
        raise HTTPException(404, f"{file.name} is of a kind that the viewer does not show.")
    return FileResponse(file, media_type=kind)


def static_response(name: str) -> Response:
    """Return a file of the viewer's own."""
    file, kind = STATIC[name]
    return FileResponse(file, media_type=kind)


def inside(root: Path, relative: str) -> Path | None:
    """Return what `relative` names below `root`, if it is there and no link leads out; `root` itself is "".

    Args:
        root: a folder, resolved.
        relative: what a request named, decoded once.
    """
    parts = relative.split("/") if relative else []
    # Hidden files belong to editors, version control and half-written results.
    if "\0" in relative or any(part in ("", "..") or part.startswith(".") for part in parts):
        return None
    try:
        found = root.joinpath(*parts).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # not there, a loop of links, no name that a file can have
        return None
    if not found.is_relative_to(root):
        return None
    hidden = any(part.startswith(".") for part in found.relative_to(root).parts)
    return None if hidden else found


def run_around(root: Path, found: Path) -> Path | None:
    """Return the run directory that something below `root` belongs to; what belongs to none is not shown."""
    for folder in (found, *found.parents):
        if (folder / DATABASE).is_file():
            return folder
        if folder == root:
            break
    return None


def leads_out(root: Path, file: Path) -> bool:
    """Whether a file below `root` is a link that leads out of it."""
    return file.is_symlink() and inside(root, os.path.relpath(file, root)) is None
