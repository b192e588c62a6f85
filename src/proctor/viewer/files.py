"""Files of runs, and the viewer's own, as answers."""

from __future__ import annotations

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from proctor.report.page import page

_TEXT = "text/plain; charset=utf-8"
# What a run directory holds. A page that somebody put there would run under this address, so there are no pages.
KINDS = {
    ".mp4": "video/mp4",
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
STATIC = {
    "page.css": (page.HERE / "page.css", "text/css; charset=utf-8"),
    "page.js": (page.HERE / "page.js", "text/javascript; charset=utf-8"),
    "viewer.css": (_HERE / "viewer.css", "text/css; charset=utf-8"),
    "viewer.js": (_HERE / "viewer.js", "text/javascript; charset=utf-8"),
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
