"""A hash of everything that makes a policy's bits: contents, never paths.

A checkpoint names what lies outside of it: a backbone, a tokenizer, the policy that an adapter adapts. In which
fields is not known here. Every text in its configs that is a file, a folder or a repository in the hub's cache is
replaced by a hash of what that holds, and so is whatever else was seen to be read from there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from proctor.config.content_hashes import content_hash
from proctor.files import clip, is_there
from proctor.policies.lerobot.checkpoint import Checkpoint, LoadedCheckpoint
from proctor.policies.lerobot.guard import ADAPTER

WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".model", ".npz", ".npy", ".pkl", ".gguf")
_IRRELEVANT = frozenset(
    # Where it lies or runs, which is told elsewhere, and how it is to be published.
    ("pretrained_path", "device", "push_to_hub", "repo_id", "private", "tags", "license", "pretrained_revision")
)
_TRAINING = "train_config.json"
"""How it was trained, which nobody reads who loads it: a policy is the same beside it and without."""
_HUB_ID = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?")


class Contents:
    """What texts in a config refer to, by content.

    Args:
        checkpoint: the checkpoint's own folder, which is hashed anyway.
        read: files that were opened while it was loaded.
    """

    def __init__(self, checkpoint: Path, read: Collection[Path]) -> None:
        self._checkpoint = Path(os.path.realpath(checkpoint))
        self._read = frozenset(read)
        self._hashes: dict[Path, str] = {}

    def replaced(self, value: Any) -> Any:
        """Return a config's value with every reference replaced by the hash of what it refers to."""
        if isinstance(value, Mapping):
            return {key: self.replaced(part) for key, part in value.items() if key not in _IRRELEVANT}
        if isinstance(value, (list, tuple)):
            return [self.replaced(part) for part in value]
        if isinstance(value, Path):
            value = str(value)
        place = self.place(value) if isinstance(value, str) else None
        return value if place is None else self.of(place)

    def of(self, place: Path) -> str:
        """Return what stands for a file or folder; what lies in the checkpoint itself is hashed with it."""
        own = Path(os.path.realpath(place))
        if own.is_relative_to(self._checkpoint):
            return f"own:{own.relative_to(self._checkpoint)}"
        return f"content:{self._hash(place)}"

    def place(self, text: str, *, is_loaded: bool = False) -> Path | None:
        """Return the file or folder that a text refers to, if it does.

        A single word may happen to be a folder's name as well ("act"): it counts if something was read in there,
        or if the caller knows that it is loaded.
        """
        if not text or len(text) > 1000 or "\n" in text or "\0" in text:
            return None
        if is_there(text):
            path = Path(text).expanduser()
            return path.absolute() if is_loaded or self._is_model(path.absolute(), os.sep in text) else None
        return self._snapshot(text) if _HUB_ID.fullmatch(text) else None

    def others(self) -> list[str]:
        """Return the hashes of models that were read, but that no text refers to: their names are in some code."""
        for file in self._read:
            snapshot = _snapshot_around(file)
            if snapshot is not None:
                self._hash(snapshot)
            elif file.suffix in WEIGHTS and file.is_file() and not self._is_known(file):
                self._hash(file)
        return sorted(set(self._hashes.values()))

    def _hash(self, place: Path) -> str:
        if place not in self._hashes:
            self._hashes[place] = content_hash(place)
        return self._hashes[place]

    def _is_model(self, path: Path, is_path: bool) -> bool:
        """Whether a model is loaded from here, and not only something that has a text's name."""
        if self._checkpoint.is_relative_to(os.path.realpath(path)):
            return False  # its own folder, or one that holds everything
        if any(file.is_relative_to(path) for file in self._read):
            return True
        return is_path and any(file.suffix in WEIGHTS for file in (path.iterdir() if path.is_dir() else [path]))

    def _is_known(self, file: Path) -> bool:
        known = (self._checkpoint, *self._hashes)
        return any(
            file.is_relative_to(place) or Path(os.path.realpath(file)).is_relative_to(place) for place in known
        )

    @cached_property
    def _snapshots_read(self) -> dict[str, Path]:
        """What was read in the hub's cache, by the folder of its repository; the first of several by name."""
        found = (_snapshot_around(file) for file in sorted(self._read, reverse=True))
        return {snapshot.parent.parent.name: snapshot for snapshot in found if snapshot is not None}

    def _snapshot(self, repository: str) -> Path | None:
        """Return where the hub's cache holds a repository, if this is one."""
        folder = f"models--{repository.replace('/', '--')}"
        if folder in self._snapshots_read:
            return self._snapshots_read[folder]
        from huggingface_hub import constants

        cached = Path(constants.HF_HUB_CACHE) / folder
        reference = cached / "refs" / "main"
        if reference.is_file():
            named = cached / "snapshots" / reference.read_text().strip()
            if named.is_dir() and any(file.suffix in WEIGHTS for file in named.iterdir()):
                return named
        return None


def _snapshot_around(file: Path) -> Path | None:
    """Return the snapshot of a repository in a hub's cache that a file lies in."""
    for folder in file.parents:
        if folder.parent.name == "snapshots" and folder.parent.parent.name.startswith("models--"):
            return folder
    return None


def network_of(loaded: LoadedCheckpoint) -> Any:
    """Return a loaded policy's configs, without where it lies and how it is published."""

    def kept(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: kept(part) for key, part in sorted(value.items()) if key not in _IRRELEVANT}
        return [kept(part) for part in value] if isinstance(value, (list, tuple)) else value

    return kept(loaded.configs)


class Identification(NamedTuple):
    """A policy's fingerprint, unless that cannot be had; the user's changes, by content; and what to tell."""

    fingerprint: str | None
    overrides: dict[str, str]
    notes: tuple[str, ...] = ()


def file_hashes(directory: Path) -> dict[str, str]:
    """Return the contents of a checkpoint's files by their names, as hashes. It may run while they are loaded."""
    return {
        str(file.relative_to(directory)): content_hash(file)
        for file in sorted(directory.rglob("*"))
        if file.is_file() and _counts(file.relative_to(directory))
    }


def _counts(name: Path) -> bool:
    documentation = name.suffix == ".md" or str(name) == _TRAINING
    return not documentation and "__pycache__" not in str(name) and not any(part[0] == "." for part in name.parts)


def identify(
    checkpoint: Checkpoint,
    loaded: LoadedCheckpoint,
    overrides: Mapping[str, Any],
    files: Callable[[], Mapping[str, str]],
) -> Identification:
    """Return what tells a loaded policy from every other; `files` returns the hashes of its files."""
    contents, configs = Contents(checkpoint.directory, checkpoint.guard.read), dict(loaded.configs)
    try:
        if ADAPTER in configs:
            name = configs[ADAPTER].get("base_model_name_or_path")
            base = contents.place(name, is_loaded=True) if isinstance(name, str) else None
            if base is None:
                raise FileNotFoundError(clip(name))
            configs[ADAPTER] = {**configs[ADAPTER], "base_model_name_or_path": contents.of(base)}
        fingerprint = _fingerprint(files(), configs, contents)
        return Identification(
            fingerprint, {name: str(contents.replaced(value)) for name, value in overrides.items()}
        )
    except OSError as error:
        note = (
            f"{checkpoint.name}: what it was loaded from cannot be read any more "
            f"({' '.join(str(error).split())}), so this run cannot be resumed"
        )
        return Identification(None, {name: str(value) for name, value in overrides.items()}, (note,))


def _fingerprint(files: Mapping[str, str], configs: Mapping[str, Any], contents: Contents) -> str:
    whole = hashlib.sha256()
    for name, value in sorted(configs.items()):
        whole.update(f"{name}={json.dumps(contents.replaced(value), sort_keys=True, default=str)}\n".encode())
    for name, content in files.items():
        if name not in configs:
            whole.update(f"{name}={content}\n".encode())
    whole.update("\n".join(contents.others()).encode())
    return whole.hexdigest()[:32]
