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

from proctor.recording.clips import OPTIONS, pixel_format
from proctor.recording.files import CHUNK_FILES, DATA_MB, INDICES, VIDEO_MB, DataFiles, VideoFiles
from proctor.recording.schema import Column
from proctor.recording.sources import ORIGINS, Kind, Recorded
from proctor.recording.statistics import Stats, aggregate, stats_of
from proctor.store.videos import CONTAINER

CODEBASE_VERSION = "v3.0"


class DatasetWriter:
    """Writes a dataset into an empty folder; `finish` makes it one that can be read.

    Args:
        root: the folder.
        kind: what all episodes have in common.
    """

    def __init__(self, root: Path, kind: Kind) -> None:
        self._root, self._kind = root, kind
        self._tasks: dict[str, int] = {}
        self._rows: list[dict[str, Any]] = []
        self._origins: list[dict[str, Any]] = []
        self._stats: dict[str, list[Stats]] = {}
        self._frames = 0
        self._data = DataFiles(root, kind)
        self._videos = {n: VideoFiles(root, n, kind.fps) for n, column in kind.columns.items() if column.video}

    def add(self, episode: Recorded) -> None:
        """Take the next episode."""
        number, length = len(self._rows), episode.frames
        task = self._tasks.setdefault(episode.prompt, len(self._tasks))
        steps = np.arange(length)
        columns: dict[str, NDArray[Any]] = {
            **episode.rows,
            "timestamp": (steps / self._kind.fps).astype(np.float32),
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
        stats = episode.image_stats | {name: _column_stats(values) for name, values in columns.items()}
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

    def finish(self) -> None:
        """Close the files and write what describes them."""
        self.close()
        meta = self._root / "meta"
        (meta / "episodes/chunk-000").mkdir(parents=True)
        _write_table(meta / "episodes/chunk-000/file-000.parquet", self._rows)
        _write_tasks(meta / "tasks.parquet", self._tasks)
        stats = {name: aggregate(parts) for name, parts in self._stats.items()}
        _write_json(
            meta / "stats.json",
            {name: {stat: value.tolist() for stat, value in values.items()} for name, values in stats.items()},
        )
        _write_json(self._root / ORIGINS, {**self._kind.to_wire(), "episodes": self._origins})
        _write_json(meta / "info.json", self._info())

    def _info(self) -> dict[str, Any]:
        columns = {**self._kind.columns, **INDICES}
        return {
            "codebase_version": CODEBASE_VERSION,
            "fps": self._kind.fps,
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
            "robot_type": self._kind.benchmark,
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
            "video.fps": self._kind.fps,
            "video.channels": 3,
            "video.g": int(OPTIONS["g"]),
            "video.crf": int(OPTIONS["crf"]),
            "video.preset": OPTIONS["preset"],
            "has_audio": False,
            "is_depth_map": False,
        }
        shape, names = list(column.shape), ["height", "width", "channels"]
        return {"dtype": "video", "shape": shape, "names": names, "info": info}


def _column_stats(values: NDArray[Any]) -> Stats:
    return stats_of(values if values.ndim > 1 else values[:, None])


def _write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(rows), path)


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
