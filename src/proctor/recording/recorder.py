"""Records one episode, in the worker that runs it: a folder that is whole or not there.

piece.json    whose episode it is, and what was recorded
steps.npz     every column that is no video, a row per step
NAME.mp4      a video per camera
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.config.plain_values import to_plain
from proctor.errors import SimulatorError
from proctor.recording.clips import CONTAINER, ClipWriter
from proctor.recording.schema import (
    ACTION,
    DONE,
    EXECUTED,
    REWARD,
    SUCCESS,
    WANTED,
    DatasetSchema,
    dataset_name,
    observed_columns,
    step_columns,
)
from proctor.recording.statistics import ImageStats
from proctor.store.schema import EpisodeRecord
from proctor.types import BenchmarkSpec, Episode, Look, Observation, Outcome

PIECE, STEPS = "piece.json", "steps.npz"
PART = ".part"

_ORIGIN = ("task_group", "task_id", "task", "episode_index", "seed", "success", "digest", "pixel_digest")
"""What of an episode's record says whose piece it is."""


class RecordingError(Exception):
    """An episode could not be recorded: disk full, or the directory is gone."""


@dataclass(frozen=True)
class RecordingOptions:
    """How episodes are recorded.

    Attributes:
        fps: the benchmark's steps a second.
        noisy: whether what is executed may be another action than the policy's.
        only_success: whether a failure leaves nothing.
    """

    fps: int
    noisy: bool = False
    only_success: bool = False


class EpisodeRecorder:
    """Takes what a benchmark's settings offer at every step, and what was done there.

    Args:
        path: the folder that holds the episode when it is whole.
        episode: the episode.
        spec: what the benchmark offers.
        options: the benchmark's steps a second, and what of an episode is kept.
    """

    def __init__(self, path: Path, episode: Episode, spec: BenchmarkSpec, options: RecordingOptions) -> None:
        self._path, self._partial = path, path.with_name(path.name + PART)
        self._episode, self._spec, self._options = episode, spec, options
        self._observed = observed_columns(spec)
        self._columns = self._observed | step_columns(spec, options.noisy)
        self._clips: dict[str, ClipWriter] = {}
        self._image_stats = {key: ImageStats() for key, column in self._columns.items() if column.video}
        self._steps: dict[str, list[Any]] = {key: [] for key, c in self._columns.items() if not c.video}
        self.look: Look = frozenset(self._observed)
        self.drawn = any(feature.drawn for feature in spec.features.values())

    def observe(self, observation: Observation) -> None:
        """Take what is seen before the next action."""
        for key, column in self._observed.items():
            array = np.asarray(observation[key])
            if array.reshape(-1).shape != (int(np.prod(column.shape)),):
                raise SimulatorError(f"the simulator gave '{key}' of shape {array.shape}, not {column.shape}")
            if column.video:
                self._film(key, array)
            else:
                self._steps[key].append(array.astype(column.dtype))

    def act(self, action: NDArray[Any], executed: NDArray[Any], outcome: Outcome, done: bool) -> None:
        """Take an action of the policy, what the simulator was given for it, and what came of it."""
        values = {
            ACTION: self._spec.executed(action),
            WANTED: action,  # no column where nothing is clipped
            EXECUTED: self._spec.executed(executed),  # no column where there is no noise
            REWARD: outcome.reward,
            SUCCESS: bool(outcome.success),
            DONE: done,
        }
        for key, value in values.items():
            if key in self._columns:
                self._steps[key].append(value)

    def finish(self, record: EpisodeRecord) -> None:
        """Make the episode durable under its name, unless it is one that is not wanted."""
        if self._options.only_success and not record.success:
            self.abandon()
            return
        try:
            self._make_folder()
            for clip in self._clips.values():
                clip.finish()
            rows: Any = {
                dataset_name(key): self._columns[key].stack(values) for key, values in self._steps.items()
            }
            np.savez(self._partial / STEPS, **rows)
            (self._partial / PIECE).write_text(json.dumps(self._describe(record), indent=1))
            for file in self._partial.iterdir():
                _sync(file)
            shutil.rmtree(self._path, ignore_errors=True)
            self._partial.rename(self._path)
            _sync(self._path.parent)
        except OSError as error:
            raise RecordingError(f"cannot write {self._path}: {error}") from error

    def abandon(self) -> None:
        """Drop a half-recorded episode."""
        for clip in self._clips.values():
            clip.abandon()
        shutil.rmtree(self._partial, ignore_errors=True)

    def _film(self, key: str, frame: NDArray[np.uint8]) -> None:
        try:
            if key not in self._clips:
                self._make_folder()
                path = self._partial / f"{dataset_name(key)}.{CONTAINER}"
                self._clips[key] = ClipWriter(path, self._options.fps, frame.shape)
            self._clips[key].add(frame)
        except OSError as error:
            raise RecordingError(f"cannot write {self._path}: {error}") from error
        self._image_stats[key].add(frame)

    def _make_folder(self) -> None:
        if not self._clips:
            shutil.rmtree(self._partial, ignore_errors=True)  # a killed worker's
        self._partial.mkdir(parents=True, exist_ok=True)

    def _describe(self, record: EpisodeRecord) -> dict[str, Any]:
        columns = {dataset_name(key): column for key, column in self._columns.items()}
        return {
            "origin": {name: getattr(record, name) for name in _ORIGIN},
            "prompt": self._episode.task.prompt,
            "frames": record.steps,
            **to_plain(DatasetSchema(self._spec.name, self._options.fps, columns)),
            "image_stats": {
                dataset_name(key): {name: value.tolist() for name, value in images.stats().items()}
                for key, images in self._image_stats.items()
            },
        }


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
