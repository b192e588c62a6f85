"""Where a run's videos lie, and the one way from a stored record to such a file.

What a record says of its video may come from anybody. A run writes the video of an episode to one place only, so
whatever else is stored there was not written by Proctor; and no link below the run directory is followed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from proctor.errors import StoreError
from proctor.files import clip, is_below, open_below
from proctor.types import EpisodeKey
from proctor.video_format import CONTAINER

_MOST_NAME = 240


def file_name(text: str) -> str:
    """Return `text` with everything that does not belong into a file name replaced.

    >>> file_name("my/task: v3")
    'my_task_v3'
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("_.") or "run"
    # File systems take 255 bytes, a few of which are for what comes before and after.
    return name if len(name) <= _MOST_NAME else f"{name[:200]}_{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def video_place(key: EpisodeKey) -> str:
    """Return the path of an episode's video, as LeRobot names it, relative to the run directory."""
    return f"videos/{file_name(key[0])}_{key[1]}/eval_episode_{key[2]}.{CONTAINER}"


def numbers_place(key: EpisodeKey) -> str:
    """Return the path of the numbers beside an episode's video, relative to the run directory."""
    return f"{video_place(key).removesuffix(CONTAINER)}numbers"


def check_place(path: Path, key: EpisodeKey, stored: str | None) -> None:
    """Raise `StoreError` if a table names another file as an episode's video than its run can have written."""
    if stored is not None and stored != video_place(key):
        raise StoreError(
            f"{path} says that the video of {clip(key[0], 60)} episode {clip(key[2], 20)} is {clip(stored)!r}. "
            f"A run writes it to {clip(video_place(key))}: this file was changed by hand, and is not read."
        )


def video_file(run: Path, key: EpisodeKey) -> Path | None:
    """Return a filmed episode's video if it is there: a regular file inside of its run, through no link."""
    place = video_place(key)
    return run / place if is_below(run, place) else None


def open_video(run: Path, key: EpisodeKey) -> AbstractContextManager[int]:
    """Open what `video_file` found; nothing can have been put in its place in between. Raises `OSError`."""
    return open_below(run, video_place(key))


def bring_video(run: Path, key: EpisodeKey, target: Path) -> None:
    """Link or copy a filmed episode's video, and the numbers beside it, into another run directory."""
    for place in (video_place(key), numbers_place(key)):
        if is_below(run, place):
            _bring(run, place, target)


def _bring(run: Path, place: str, target: Path) -> None:
    final = target / place
    if final.exists():
        return
    try:
        _make_folders(target, final)
        with open_below(run, place) as video:
            try:
                os.link(f"/proc/self/fd/{video}", final, follow_symlinks=True)
            except OSError:  # another file system, or one without links
                _copy(video, final)
    except OSError as error:
        raise StoreError(
            f"cannot copy {run / place} to {final}: {error.strerror or error}. Free some space."
        ) from error


def place_video(made: Path, key: EpisodeKey, target: Path) -> None:
    """Move an episode's video from one run directory to another on the same disk, over one that is there.

    The numbers beside it go with it; what lay beside another film goes away.
    """
    final, numbers = target / video_place(key), target / numbers_place(key)
    try:
        _make_folders(target, final)
        numbers.unlink(missing_ok=True)
        (made / video_place(key)).replace(final)
        if (made / numbers_place(key)).exists():
            (made / numbers_place(key)).replace(numbers)
    except OSError as error:
        raise StoreError(f"cannot write {final}: {error.strerror or error}. Free some space.") from error


def _make_folders(target: Path, final: Path) -> None:
    for folder in (target / "videos", final.parent):
        folder.mkdir(exist_ok=True)
        if folder.is_symlink():
            raise OSError(f"{folder} is a link")


def links_among(run: Path, filmed: Iterable[EpisodeKey]) -> str | None:
    """Say how many videos are left out because they are no files of the run's own; `None` if there are none."""
    places = map(video_place, filmed)
    out = [place for place in places if os.path.lexists(run / place) and not is_below(run, place)]
    if not out:
        return None
    more = f" and {len(out) - 1} more" if len(out) > 1 else ""
    return f"{run / out[0]}{more}: not a regular file inside of {run}, or behind a link. Left out."


def _copy(video: int, final: Path) -> None:
    partial = final.with_name(f"{final.name}.part")
    with open(os.dup(video), "rb") as source, partial.open("wb") as copy:
        shutil.copyfileobj(source, copy)
    partial.replace(final)
