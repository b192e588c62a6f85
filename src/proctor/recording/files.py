"""The large files of a dataset: the steps as Parquet, the frames as video, many episodes a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.recording.clips import Clip, Reel, head_of
from proctor.recording.schema import Column
from proctor.recording.sources import Kind
from proctor.store.videos import CONTAINER

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


class _Places:
    """Numbers of files: so many in a chunk."""

    def __init__(self) -> None:
        self.number = -1

    def next(self) -> None:
        self.number += 1

    @property
    def pair(self) -> tuple[int, int]:
        return divmod(self.number, CHUNK_FILES)

    def path(self, folder: Path, ending: str) -> Path:
        chunk, file = self.pair
        path = folder / f"chunk-{chunk:03d}/file-{file:03d}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


class DataFiles:
    """The steps, as Parquet."""

    def __init__(self, root: Path, kind: Kind) -> None:
        import pyarrow as pa

        self._folder = root / "data"
        self._columns = {n: column for n, column in {**kind.columns, **INDICES}.items() if not column.video}
        self._schema = pa.schema([(name, _arrow_type(column)) for name, column in self._columns.items()])
        self._places, self._bytes = _Places(), 0
        self._writer: Any = None

    def add(self, values: dict[str, NDArray[Any]]) -> tuple[int, int]:
        """Write an episode as one row group; returns the chunk and the file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        arrays = [_arrow_array(values[name], column) for name, column in self._columns.items()]
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        if self._writer is None or self._bytes + table.nbytes > DATA_MB << 20:
            self.close()
            self._places.next()
            self._writer = pq.ParquetWriter(self._places.path(self._folder, "parquet"), self._schema)
            self._bytes = 0
        self._writer.write_table(table, row_group_size=max(1, len(table)))
        self._bytes += table.nbytes
        return self._places.pair

    def close(self) -> None:
        """Close the file that is open."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class VideoFiles:
    """The frames of one camera."""

    def __init__(self, root: Path, name: str, fps: int) -> None:
        self._about, self._folder, self._fps = f"videos/{name}", root / "videos" / name, fps
        self._places, self._bytes = _Places(), 0
        self._reel: Reel | None = None

    def add(self, clip: Clip) -> dict[str, Any]:
        """Copy an episode's frames; returns where they are."""
        head = head_of(clip)
        reel = self._reel
        size = clip.path.stat().st_size if clip.start == 0 else 0
        if (
            reel is None
            or reel.head != head
            or self._bytes + size > VIDEO_MB << 20
            or reel.frames + clip.frames > REEL_SECONDS * self._fps
        ):
            self.close()
            self._places.next()
            reel = self._reel = Reel(self._places.path(self._folder, CONTAINER), self._fps, head)
            self._bytes = 0
        start = reel.frames
        self._bytes += reel.add(clip)
        chunk, file = self._places.pair
        return {
            f"{self._about}/chunk_index": chunk,
            f"{self._about}/file_index": file,
            f"{self._about}/from_timestamp": start / self._fps,
            f"{self._about}/to_timestamp": reel.frames / self._fps,
        }

    def close(self) -> None:
        """Close the file that is open."""
        if self._reel is not None:
            self._reel.close()
            self._reel = None


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
