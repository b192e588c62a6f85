"""What is known of a training, `training.json` in its folder: the command it was begun with, and its curve."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from proctor import __version__
from proctor.errors import UsageError
from proctor.files import as_written_by_proctor, clip, given_path, read_json
from proctor.store.filesystem import write_json
from proctor.training.checkpoints import CHECKPOINTS, Checkpoints
from proctor.training.curve import Curve
from proctor.training.dataset import content_hash
from proctor.training.settings import Flags, TrainingSettings, differences

TRAINING = "training.json"
_OURS = {TRAINING, "lock", "logs", "trainer.json", "eval", "report.html"}
"""What this command writes into a training's folder, besides checkpoints."""


@dataclass(frozen=True)
class TrainingRecord:
    """A training as it stands.

    Attributes:
        flags: of the command that it was begun with.
        folder: where that was typed.
        trained: whether the trainer has come to its last step.
        curve: the evaluations so far.
        failures: why a checkpoint could not be evaluated, by its step.
        ids: under which id each tracker knows it.
        dataset: a hash of what is trained on; none: it is not on this machine.
    """

    flags: Flags
    folder: str
    trained: bool = False
    curve: Curve = field(default_factory=Curve)
    failures: Mapping[int, str] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    dataset: str | None = None

    def write(self, place: Path) -> None:
        """Keep it in a training's folder."""
        best = self.curve.best
        write_json(
            place / TRAINING,
            {
                "proctor": __version__,
                "flags": dict(self.flags),
                "folder": self.folder,
                "trained": self.trained,
                "best": None if best is None else best.step,
                "evaluations": self.curve.to_json(),
                "failures": [{"step": step, "error": words} for step, words in self.failures.items()],
                "trackers": dict(self.ids),
                "dataset": self.dataset,
            },
        )

    @classmethod
    def read(cls, place: Path) -> TrainingRecord | None:
        """Return a folder's, `None` if it has none. Raises `StoreError` if it is damaged."""
        file = place / TRAINING
        if not os.path.lexists(file):
            return None
        with as_written_by_proctor(file):
            told = read_json(file)
            return cls(
                flags={str(name): str(text) for name, text in told["flags"].items()},
                folder=str(told["folder"]),
                trained=bool(told["trained"]),
                curve=Curve.from_json(told["evaluations"]),
                failures={int(one["step"]): str(one["error"]) for one in told["failures"]},
                ids={str(name): str(value) for name, value in told["trackers"].items()},
                dataset=told["dataset"] and str(told["dataset"]),
            )


def begin_or_resume(settings: TrainingSettings) -> TrainingRecord:
    """Return the record of the training in a folder, a new one if there is none to go on with.

    Raises:
        UsageError: the folder holds something else, or a training by another command.
    """
    place = settings.output_dir
    found = TrainingRecord.read(place)
    begun = bool(Checkpoints(place).whole())
    if found is None and settings.kind != "followed":
        _check_empty(place)
    dataset = None if settings.dataset is None else content_hash(settings.dataset)
    if found is None or not (begun or found.curve.points):
        return TrainingRecord(settings.flags, str(Path.cwd()), dataset=dataset)
    others = differences(settings.flags, found.flags, of_evaluations=bool(found.curve.points))
    if others:
        raise UsageError(
            f"{place} holds a training that was begun with another command: {'; '.join(others)}. "
            f"Choose another --output_dir, or go on with that one: proctor train --resume={place}"
        )
    if dataset != found.dataset and not found.trained:
        raise UsageError(
            f"the dataset in {settings.dataset} is not what the training in {place} was begun with. Put it back, "
            "or train on the new one in another --output_dir."
        )
    return TrainingRecord(
        settings.flags, str(Path.cwd()), found.trained, found.curve, {}, found.ids, found.dataset
    )  # what could not be evaluated is tried again


def _check_empty(place: Path) -> None:
    with given_path(place, "output_dir"):
        entries = [entry.name for entry in place.iterdir()] if place.exists() else []
    others = sorted(name for name in entries if name not in _OURS)
    if CHECKPOINTS in others:
        raise UsageError(
            f"{place} holds checkpoints of another trainer. Choose another --output_dir, or evaluate them as they "
            f"come: proctor train --follow={place}"
        )
    if others:
        raise UsageError(
            f"{place} is not empty: it holds {clip(', '.join(others), 100)}. Choose another --output_dir."
        )


def remove_unbegun(place: Path) -> None:
    """Remove a folder that a refused command has made, and holds, if it has nothing but what that has written."""
    if not place.is_dir() or any(entry.name not in _OURS for entry in place.iterdir()):
        return
    shutil.rmtree(place, ignore_errors=True)
