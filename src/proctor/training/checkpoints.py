"""The checkpoints of a training, in LeRobot's layout: which are whole, which is the last, which the best.

A trainer writes `checkpoints/STEP` and then makes `checkpoints/last` point to it. So a checkpoint is whole when
`last` points to it or to a later one. LeRobot removes the link before it makes the new one: where there is none,
the newest checkpoint may be half written, and all before it are whole.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from proctor.config.lerobot_fields import PRETRAINED_MODEL, TRAIN_CONFIG
from proctor.files import read_json
from proctor.training.dataset import dataset_of

CHECKPOINTS, LAST, BEST, STATE = "checkpoints", "last", "best", "training_state"


class Checkpoint(NamedTuple):
    """One checkpoint: the training step that it was written after, and its folder."""

    step: int
    path: Path

    @property
    def policy(self) -> Path:
        """The policy in it, as `--policy.path` takes it."""
        return self.path / PRETRAINED_MODEL

    @property
    def train_config(self) -> Path:
        """The settings of the training, as LeRobot's trainer writes them."""
        return self.policy / TRAIN_CONFIG

    @property
    def last_step(self) -> int | None:
        """The step that its training is to end with, where LeRobot's trainer has written it."""
        steps = self._config.get("steps")
        return steps if type(steps) is int else None

    @property
    def dataset(self) -> Path | None:
        """What it was trained on, if the trainer has written that and it is on this machine."""
        return dataset_of(self._config)

    @property
    def _config(self) -> dict[str, Any]:
        try:
            told = read_json(self.train_config)
        except (OSError, ValueError):
            return {}
        return told if isinstance(told, dict) else {}


class Checkpoints:
    """The checkpoints in a training's folder."""

    def __init__(self, training: Path) -> None:
        self._folder = training / CHECKPOINTS

    def whole(self) -> list[Checkpoint]:
        """Return those that are written completely, in the order of their steps."""
        try:
            names = [entry.name for entry in os.scandir(self._folder) if entry.name.isdecimal() and entry.is_dir()]
        except OSError:
            return []
        found = sorted(Checkpoint(int(name), self._folder / name) for name in names)
        last = self._linked(LAST)
        return found[:-1] if last is None else [one for one in found if one.step <= last]

    def last(self) -> Checkpoint | None:
        """Return the last whole one."""
        whole = self.whole()
        return whole[-1] if whole else None

    def mark_best(self, step: int) -> None:
        """Make `best` point to a checkpoint, if that is still there. Until then it points to the one before."""
        name = next((one.path.name for one in self.whole() if one.step == step), None)
        link = self._folder / BEST
        if name is None or (link.is_symlink() and link.readlink() == Path(name)):
            return
        part = self._folder / f".{BEST}.part"
        part.unlink(missing_ok=True)
        part.symlink_to(name)
        part.replace(link)

    def _linked(self, name: str) -> int | None:
        """Return the step that a link points to, if it points to a checkpoint."""
        try:
            target = (self._folder / name).readlink().name
        except OSError:
            return None
        return int(target) if target.isdecimal() and (self._folder / target).is_dir() else None
