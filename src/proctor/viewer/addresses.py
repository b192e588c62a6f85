"""Where the viewer's pages are."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from proctor.types import EpisodeKey


def address(path: str, page: str = "run") -> str:
    """Return where a run's page is."""
    return f"/{page}/{quote(path, errors='surrogateescape')}/" if path else f"/{page}/"


def episode_address(key: EpisodeKey, path: str, page: str = "episode") -> str:
    """Return where the page of an episode of the run at `path` is, or its film."""
    named = {"group": key.group, "task": key.task_id, "episode": key.episode_index}
    return f"{address(path, page)}?{urlencode(named)}"
