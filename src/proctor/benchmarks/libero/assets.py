"""LIBERO's meshes and textures: where they may lie, how they are fetched, and what tells one tree from another.

The package hf-libero comes without them. They are a dataset on the Hugging Face hub.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from proctor.config.content_hashes import content_hash
from proctor.errors import UsageError
from proctor.installation import missing_package

REPOSITORY = "lerobot/libero-assets"
HOW_TO_GET = (
    f"On a machine with network run: hf download --repo-type dataset {REPOSITORY} --local-dir DIR; "
    "then give --env.assets_path=DIR"
)

_FOLDERS = ("scenes", "articulated_objects")
"""What every tree of them has."""


def find_assets(given: str | None) -> Path | None:
    """Return the assets on this machine, or nothing. A path that is given is the only one looked at.

    Raises:
        UsageError: there are none at the given path.
    """
    if given is not None:
        root = Path(given).expanduser()
        if not _are_assets(root):
            raise UsageError(
                f"--env.assets_path={given}: there are no LIBERO assets, which have folders "
                f"{' and '.join(_FOLDERS)}. {HOW_TO_GET}"
            )
        return root
    own_download = Path("~/.cache/libero/assets").expanduser()  # where hf-libero itself puts them
    for place in (package_root() / "assets", own_download):
        if _is_complete(place):
            return place
    cached = _in_hub_cache()  # last, because asking takes an import
    return cached if cached is not None and _is_complete(cached) else None


def fetch_assets() -> None:
    """Download the assets into the hub's cache, with the hub's own progress bar.

    Raises:
        UsageError: that did not work; says why, and how to get them otherwise.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise UsageError(
            f"LIBERO's assets are not on this machine, and huggingface_hub is not there to get them. {HOW_TO_GET}"
        ) from None
    try:
        snapshot_download(REPOSITORY, repo_type="dataset")
    except Exception as error:  # no network, no disk, switched off (HF_HUB_OFFLINE): all end the same way
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise UsageError(
            f"LIBERO's assets are not on this machine and could not be downloaded: {reason}. {HOW_TO_GET}"
        ) from None
    if find_assets(None) is None:
        raise UsageError(f"a download of LIBERO's assets was cut short and could not be finished. {HOW_TO_GET}")


def package_root() -> Path:
    """Return where hf-libero keeps its task definitions and initial states, without importing it.

    Raises:
        UsageError: it is not installed.
    """
    # find_spec of the top package runs no code that matters; `libero.libero` would ask questions.
    found = importlib.util.find_spec("libero")
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        if (Path(place) / "libero" / "bddl_files").is_dir():
            return Path(place) / "libero"
    raise missing_package("--env.type=libero", "hf-libero", "libero")


def fingerprint(root: Path) -> str:
    """Return a hash of a tree: every file's name and content. Where the tree lies does not matter."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if (
            any(part.startswith(".") for part in name.parts)
            or name.name.startswith("README")
            or not path.is_file()
        ):
            continue  # what the hub and git add
        digest.update(f"{name.as_posix()}\0{content_hash(path)}\0".encode())
    return digest.hexdigest()[:16]


def _in_hub_cache() -> Path | None:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        return None
    try:
        return Path(snapshot_download(REPOSITORY, repo_type="dataset", local_files_only=True))
    except Exception:  # not there, or the cache is of no use: both mean no
        return None


def _are_assets(root: Path) -> bool:
    return all((root / folder).is_dir() for folder in _FOLDERS)


def _is_complete(root: Path) -> bool:
    """Whether there are assets, and no download of them has been cut short, here or in the cache around it."""
    beside, inside = root.parent.parent / "blobs", root / ".cache" / "huggingface" / "download"
    unfinished = any(beside.glob("*.incomplete")) or any(inside.rglob("*.incomplete"))
    return _are_assets(root) and not unfinished
