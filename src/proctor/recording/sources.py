"""Where recorded episodes are found: each in a folder of its own as a worker left it, or in an earlier dataset."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.config.plain_values import to_plain
from proctor.errors import StoreError
from proctor.files import as_written_by_proctor, open_below, read_json
from proctor.recording.clips import CONTAINER, Clip, Reel, head_of
from proctor.recording.recorder import PART, PIECE, STEPS
from proctor.recording.schema import Column, DatasetSchema, numbered_file
from proctor.recording.statistics import NAMES, Stats
from proctor.store.run_directory import RunDirectory
from proctor.types import EpisodeKey

Digests = tuple[str | None, str | None]
"""Those of an episode: of its physics, and of its pixels."""

PIECES, DATASET = "recording", "dataset"
"""Folders of a run directory: what workers left, and what all of it makes."""

ORIGINS = "meta/proctor.json"
"""Beside LeRobot's files: which episode of the run each of the dataset's is, and how it was recorded."""


@dataclass(frozen=True)
class RecordedEpisode:
    """One recorded episode, with all that the dataset needs of it."""

    schema: DatasetSchema
    origin: dict[str, Any]
    prompt: str
    rows: dict[str, NDArray[Any]]
    clips: dict[str, Clip]
    image_stats: dict[str, Stats]

    @property
    def frames(self) -> int:
        """How many steps it has."""
        return len(self.rows["action"])


class RecordingSource:
    """The recorded episodes of one run directory."""

    def __init__(self, run: Path) -> None:
        self._run, self._pieces, self._dataset = run, run / PIECES, run / DATASET

    @property
    def is_empty(self) -> bool:
        """Whether nothing was recorded here."""
        return not (self._dataset / ORIGINS).exists() and next(self._pieces.glob(f"*/*/{PIECE}"), None) is None

    def find(self, key: EpisodeKey, digests: Digests) -> RecordedEpisode | None:
        """Return an episode that came out with these digests; `None` if it was not recorded here."""
        with as_written_by_proctor(self._run):
            piece = self._found.get(key)
            if piece is not None:
                described = read_json(self._own(piece / PIECE))
                if _digests(described["origin"]) == digests:
                    return self._read_piece(piece, described)
            number = self._assembled.get(key)
            if number is not None and _digests(self._origins["episodes"][number]) == digests:
                return self._read_assembled(number)
        return None

    def set_aside(self, kept: Collection[EpisodeKey]) -> None:
        """Leave the dataset's episodes that are not among these as workers leave theirs: it is about to go."""
        for key, number in self._assembled.items():
            if key not in kept and key not in self._found:
                episode = self._read_assembled(number)
                write_piece(RunDirectory(self._run).recording(key), episode)

    @cached_property
    def _found(self) -> dict[EpisodeKey, Path]:
        found = {}
        for file in self._pieces.glob(f"*/*/{PIECE}"):
            found[_key(read_json(self._own(file))["origin"])] = file.parent
        return found

    def _own(self, file: Path) -> Path:
        """Return a file that is one of the run's own: what others may have linked there is not read."""
        with open_below(self._run, str(file.relative_to(self._run))):
            return file

    @cached_property
    def _origins(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = read_json(self._own(self._dataset / ORIGINS))
        except FileNotFoundError:
            return {"episodes": []}
        except ValueError as error:
            raise StoreError(
                f"{self._dataset / ORIGINS} cannot be read: {error}. Move {self._dataset} away."
            ) from None
        return found

    @cached_property
    def _assembled(self) -> dict[EpisodeKey, int]:
        return {_key(origin): number for number, origin in enumerate(self._origins["episodes"])}

    @cached_property
    def _episodes(self) -> list[dict[str, Any]]:
        import pyarrow.parquet as pq

        return [
            row
            for file in sorted((self._dataset / "meta/episodes").glob("*/*.parquet"))
            for row in pq.read_table(self._own(file)).to_pylist()
        ]

    def _read_assembled(self, number: int) -> RecordedEpisode:
        import pyarrow.parquet as pq

        row, schema = self._episodes[number], DatasetSchema.from_wire(self._origins)
        chunk, file = row["data/chunk_index"], row["data/file_index"]
        first = next(
            place
            for place, other in enumerate(self._episodes)
            if (other["data/chunk_index"], other["data/file_index"]) == (chunk, file)
        )
        # An episode is one row group.
        with pq.ParquetFile(self._own(self._dataset / "data" / numbered_file(chunk, file, "parquet"))) as data:
            table = data.read_row_group(number - first)
        rows = {name: _array(table.column(name), column) for name, column in schema.values.items()}
        return RecordedEpisode(
            schema,
            self._origins["episodes"][number],
            row["tasks"][0],
            rows,
            {name: self._clip(name, row, schema.fps) for name in schema.videos},
            {name: _stats(row, name) for name in schema.videos},
        )

    def _clip(self, name: str, row: Mapping[str, Any], fps: int) -> Clip:
        about = f"videos/{name}"
        path = (
            self._dataset
            / about
            / numbered_file(row[f"{about}/chunk_index"], row[f"{about}/file_index"], CONTAINER)
        )
        return Clip(self._own(path), round(row[f"{about}/from_timestamp"] * fps), row["length"])

    def _read_piece(self, piece: Path, described: Mapping[str, Any]) -> RecordedEpisode:
        schema = DatasetSchema.from_wire(described)
        with np.load(self._own(piece / STEPS)) as steps:
            rows = {name: steps[name] for name in schema.values}
        return RecordedEpisode(
            schema,
            described["origin"],
            described["prompt"],
            rows,
            {
                name: Clip(self._own(piece / f"{name}.{CONTAINER}"), 0, described["frames"])
                for name in schema.videos
            },
            {
                name: {stat: np.asarray(value) for stat, value in stats.items()}
                for name, stats in described["image_stats"].items()
            },
        )


def write_piece(path: Path, episode: RecordedEpisode) -> None:
    """Write an episode into a folder of its own, as a worker does."""
    part = path.with_name(path.name + PART)
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for name, clip in episode.clips.items():
        reel = Reel(part / f"{name}.{CONTAINER}", episode.schema.fps, head_of(clip))
        reel.add(clip)
        reel.close()
    rows: Any = episode.rows
    np.savez(part / STEPS, **rows)
    described = {
        "origin": episode.origin,
        "prompt": episode.prompt,
        "frames": episode.frames,
        **to_plain(episode.schema),
        "image_stats": {
            name: {stat: value.tolist() for stat, value in stats.items()}
            for name, stats in episode.image_stats.items()
        },
    }
    (part / PIECE).write_text(json.dumps(described, indent=1))
    part.rename(path)


def _key(origin: Mapping[str, Any]) -> EpisodeKey:
    return EpisodeKey(origin["task_group"], origin["task_id"], origin["episode_index"])


def _digests(origin: Mapping[str, Any]) -> Digests:
    return origin["digest"], origin["pixel_digest"]


def _array(column: Any, kind: Column) -> NDArray[Any]:
    values = column.combine_chunks()
    while hasattr(values, "flatten") and values.type.num_fields:
        values = values.flatten()
    return np.asarray(values.to_numpy(zero_copy_only=False), kind.dtype).reshape(-1, *kind.shape)


def _stats(row: Mapping[str, Any], name: str) -> Stats:
    return {stat: np.asarray(row[f"stats/{name}/{stat}"]) for stat in NAMES}
