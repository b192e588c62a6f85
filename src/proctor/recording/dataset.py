"""A LeRobotDataset v3.0 on disk, written episode by episode.

data/chunk-000/file-000.parquet            a row per step, a row group per episode, many episodes a file
videos/NAME/chunk-000/file-000.mp4         a camera's frames, many episodes a file
meta/episodes/chunk-000/file-000.parquet   a row per episode: where its data and frames lie, its statistics
meta/tasks.parquet, meta/stats.json, meta/info.json
meta/proctor.json                          which episode of the run each is
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.config.plain_values import to_plain
from proctor.recording.clips import CONTAINER, OPTIONS, Clip, Reel, head_of, pixel_format
from proctor.recording.schema import Column, DatasetSchema, numbered_file
from proctor.recording.sources import ORIGINS, RecordedEpisode
from proctor.recording.statistics import Stats, aggregate, stats_of_columns

CODEBASE_VERSION = "v3.0"


class DatasetWriter:
    """Writes a dataset into an empty folder; `finish` makes it one that can be read.

    Args:
        root: the folder.
        schema: what all episodes have in common.
    """

    def __init__(self, root: Path, schema: DatasetSchema) -> None:
        self._root, self._schema = root, schema
        self._tasks: dict[str, int] = {}
        self._rows: list[dict[str, Any]] = []
        self._origins: list[dict[str, Any]] = []
        self._stats: dict[str, list[Stats]] = {}
        self._frames = 0
        self._data = DataFiles(root, schema)
        self._videos = {name: VideoFiles(root, name, schema.fps) for name in schema.videos}

    def add(self, episode: RecordedEpisode) -> None:
        """Take the next episode."""
        number, length = len(self._rows), episode.frames
        task = self._tasks.setdefault(episode.prompt, len(self._tasks))
        steps = np.arange(length)
        columns: dict[str, NDArray[Any]] = {
            **episode.rows,
            "timestamp": (steps / self._schema.fps).astype(np.float32),
            "frame_index": steps,
            "episode_index": np.full(length, number),
            "index": steps + self._frames,
            "task_index": np.full(length, task),
        }
        chunk, file = self._data.add(columns)
        row: dict[str, Any] = {
            "episode_index": number,
            "tasks": [episode.prompt],
            "length": length,
            "data/chunk_index": chunk,
            "data/file_index": file,
            "dataset_from_index": self._frames,
            "dataset_to_index": self._frames + length,
        }
        for name, files in self._videos.items():
            row |= files.add(episode.clips[name])
        stats = episode.image_stats | stats_of_columns(columns)
        for name, values in stats.items():
            self._stats.setdefault(name, []).append(values)
            row |= {f"stats/{name}/{stat}": value.tolist() for stat, value in values.items()}
        self._rows.append(row | {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0})
        self._origins.append(episode.origin)
        self._frames += length

    def close(self) -> None:
        """Close the files; once is enough."""
        self._data.close()
        for files in self._videos.values():
            files.close()

    def finish(self) -> int:
        """Close the files and write what describes them; returns how many episodes there are."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.close()
        meta = self._root / "meta"
        (meta / "episodes/chunk-000").mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(self._rows), meta / "episodes/chunk-000/file-000.parquet")
        _write_tasks(meta / "tasks.parquet", self._tasks)
        stats = {name: aggregate(parts) for name, parts in self._stats.items()}
        _write_json(
            meta / "stats.json",
            {name: {stat: value.tolist() for stat, value in values.items()} for name, values in stats.items()},
        )
        _write_json(self._root / ORIGINS, {**to_plain(self._schema), "episodes": self._origins})
        _write_json(meta / "info.json", self._info())
        return len(self._rows)

    def _info(self) -> dict[str, Any]:
        columns = {**self._schema.columns, **INDICES}
        return {
            "codebase_version": CODEBASE_VERSION,
            "fps": self._schema.fps,
            "features": {name: self._feature(column) for name, column in columns.items()},
            "total_episodes": len(self._rows),
            "total_frames": self._frames,
            "total_tasks": len(self._tasks),
            "chunks_size": CHUNK_FILES,
            "data_files_size_in_mb": DATA_MB,
            "video_files_size_in_mb": VIDEO_MB,
            "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
            "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}." + CONTAINER
            if self._videos
            else None,
            "robot_type": self._schema.benchmark,
            "splits": {"train": f"0:{len(self._rows)}"},
        }

    def _feature(self, column: Column) -> dict[str, Any]:
        if not column.video:
            return {"dtype": column.dtype, "shape": list(column.shape), "names": None}
        height, width = column.shape[:2]
        info = {
            "video.height": height,
            "video.width": width,
            "video.codec": "h264",
            "video.pix_fmt": pixel_format(column.shape),
            "video.fps": self._schema.fps,
            "video.channels": 3,
            "video.g": int(OPTIONS["g"]),
            "video.crf": int(OPTIONS["crf"]),
            "video.preset": OPTIONS["preset"],
            "has_audio": False,
            "is_depth_map": False,
        }
        shape, names = list(column.shape), ["height", "width", "channels"]
        return {"dtype": "video", "shape": shape, "names": names, "info": info}


def _write_tasks(path: Path, tasks: dict[str, int]) -> None:
    """Write the prompts as LeRobot reads them: the index of a pandas frame, by what pandas notes beside it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def described(name: str, kind: str, numpy_type: str) -> dict[str, Any]:
        return {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": numpy_type, "metadata": None}

    pandas = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [described("task_index", "int64", "int64"), described("task", "unicode", "object")],
        "pandas_version": "2.0",
    }
    table = pa.table({"task_index": pa.array(tasks.values(), pa.int64()), "task": list(tasks)})
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(pandas)}), path)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=4) + "\n")


CHUNK_FILES = 1000
DATA_MB, VIDEO_MB = 100, 200
"""LeRobot's own limits of a file."""

REEL_SECONDS = 1000
"""LeRobot looks frames up by their time as a float32, to a tenth of a millisecond: from 1024 s on it misses."""

INDICES = {
    "timestamp": Column("float32", (1,)),
    "frame_index": Column("int64", (1,)),
    "episode_index": Column("int64", (1,)),
    "index": Column("int64", (1,)),
    "task_index": Column("int64", (1,)),
}


class NumberedFiles:
    """Files of one kind, so many in a chunk, of which the last is open."""

    def __init__(self, folder: Path, ending: str) -> None:
        self._folder, self._ending = folder, ending
        self._number, self._bytes = -1, 0
        self._file: Any = None

    @property
    def _place(self) -> tuple[int, int]:
        """The chunk and the number of the file that is open."""
        return divmod(self._number, CHUNK_FILES)

    def _next(self) -> Path:
        """Close the file that is open; return where the next one is to be."""
        self.close()
        self._number, self._bytes = self._number + 1, 0
        path = self._folder / numbered_file(*self._place, self._ending)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def close(self) -> None:
        """Close the file that is open."""
        if self._file is not None:
            self._file.close()
            self._file = None


class DataFiles(NumberedFiles):
    """The steps, as Parquet."""

    def __init__(self, root: Path, schema: DatasetSchema) -> None:
        import pyarrow as pa

        super().__init__(root / "data", "parquet")
        self._columns = {**schema.values, **INDICES}
        self._schema = pa.schema([(name, _arrow_type(column)) for name, column in self._columns.items()])

    def add(self, values: dict[str, NDArray[Any]]) -> tuple[int, int]:
        """Write an episode as one row group; returns the chunk and the file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        arrays = [_arrow_array(values[name], column) for name, column in self._columns.items()]
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        if self._file is None or self._bytes + table.nbytes > DATA_MB << 20:
            self._file = pq.ParquetWriter(self._next(), self._schema)
        self._file.write_table(table, row_group_size=max(1, len(table)))
        self._bytes += table.nbytes
        return self._place


class VideoFiles(NumberedFiles):
    """The frames of one camera."""

    _file: Reel | None

    def __init__(self, root: Path, name: str, fps: int) -> None:
        super().__init__(root / "videos" / name, CONTAINER)
        self._about, self._fps = f"videos/{name}", fps

    def add(self, clip: Clip) -> dict[str, Any]:
        """Copy an episode's frames; returns where they are."""
        head = head_of(clip)
        reel = self._file
        size = clip.path.stat().st_size if clip.start == 0 else 0
        if (
            reel is None
            or reel.head != head
            or self._bytes + size > VIDEO_MB << 20
            or reel.frames + clip.frames > REEL_SECONDS * self._fps
        ):
            reel = self._file = Reel(self._next(), self._fps, head)
        start = reel.frames
        self._bytes += reel.add(clip)
        chunk, file = self._place
        return {
            f"{self._about}/chunk_index": chunk,
            f"{self._about}/file_index": file,
            f"{self._about}/from_timestamp": start / self._fps,
            f"{self._about}/to_timestamp": reel.frames / self._fps,
        }


def _arrow_type(column: Column) -> Any:
    import pyarrow as pa

    kind = pa.from_numpy_dtype(np.dtype(column.dtype))
    if column.shape == (1,):
        return kind
    if len(column.shape) == 1:
        return pa.list_(kind, column.shape[0])
    for _ in column.shape:
        kind = pa.list_(kind)
    return kind


def _arrow_array(values: NDArray[Any], column: Column) -> Any:
    import pyarrow as pa

    typed = values.astype(column.dtype)
    if len(column.shape) > 1:
        return pa.array(typed.tolist(), _arrow_type(column))
    flat = pa.array(typed.reshape(-1))
    return flat if column.shape == (1,) else pa.FixedSizeListArray.from_arrays(flat, column.shape[0])
