"""Demonstrations as the trainer takes them: a LeRobotDataset v3, read whole into memory with pyarrow alone."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.errors import UsageError
from proctor.files import as_written_by_proctor, clip, read_json
from proctor.policies.compact.tensor_files import Tensors

ORIGINS = "meta/proctor.json"


@dataclass(frozen=True)
class Demonstrations:
    """Every step of a dataset, in order.

    Attributes:
        features: the shape of every observation; pictures are (height, width, 3).
        observations: an array per observation, a row per step.
        actions: the labels, a row per step.
        tasks: the number of the task of each step.
        ends: the last step of the episode that a step belongs to.
        names: the tasks, by their names where the dataset says them, else by their prompts.
        statistics: of the dataset, as `KEY.mean` and so on.
        benchmark: where it was recorded, if that is known.
    """

    features: dict[str, tuple[int, ...]]
    observations: dict[str, NDArray[Any]]
    actions: NDArray[np.float32]
    tasks: NDArray[np.int64]
    ends: NDArray[np.int64]
    names: tuple[str, ...]
    statistics: Tensors
    benchmark: str


def read_demonstrations(root: Path) -> Demonstrations:
    """Read a dataset. Raises `UsageError` if there is none, `StoreError` if it is not what it should be."""
    if not (root / "meta/info.json").is_file():
        raise UsageError(f"--dataset.root={root}: there is no LeRobotDataset here (no meta/info.json).")
    with as_written_by_proctor(root):
        return _read(root, read_json(root / "meta/info.json"))


def _read(root: Path, info: Mapping[str, Any]) -> Demonstrations:
    import pyarrow.parquet as pq

    if not str(info["codebase_version"]).startswith("v3."):
        raise ValueError(f"it is of version {clip(info['codebase_version'], 20)}, not v3")
    observed = {key: f for key, f in info["features"].items() if key.startswith("observation.")}
    videos = [key for key, feature in observed.items() if feature["dtype"] == "video"]
    columns = [key for key in observed if key not in videos]
    files = sorted((root / "data").glob("*/*.parquet"))
    tables = [pq.read_table(file, columns=[*columns, "action", "episode_index", "task_index"]) for file in files]
    described = sorted((root / "meta/episodes").glob("*/*.parquet"))
    episode_rows = [row for file in described for row in pq.read_table(file).to_pylist()]

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([_rows(table.column(name)) for table in tables])

    episodes = column("episode_index")
    first, counts = np.unique(episodes, return_index=True, return_counts=True)[1:]
    if not (np.diff(episodes) >= 0).all():
        raise ValueError("its episodes are not in order")
    names, of_episodes = _tasks(root, episode_rows)
    observations = {key: column(key) for key in columns}
    for key in videos:
        observations[key] = _frames(root, key, episode_rows, info)
    statistics = {
        f"{key}.{name}": np.asarray(values, np.float64).reshape(-1)
        for key, stats in read_json(root / "meta/stats.json").items()
        if key in (*columns, "action")
        for name, values in stats.items()
        if name in ("mean", "std", "min", "max") and observed.get(key, {}).get("dtype") != "image"
    }
    for key, array in (*observations.items(), ("action", column("action"))):
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"'{key}' has NaN or infinity")
    return Demonstrations(
        features={key: tuple(array.shape[1:]) for key, array in observations.items()},
        observations=observations,
        actions=column("action").astype(np.float32),
        tasks=np.repeat(np.asarray(of_episodes), counts),
        ends=np.repeat(first + counts - 1, counts),
        names=names,
        statistics=statistics,
        benchmark=str(info.get("robot_type") or ""),
    )


def _tasks(root: Path, episodes: list[dict[str, Any]]) -> tuple[tuple[str, ...], list[int]]:
    """Return the tasks in the order of their first episodes, and each episode's."""
    if (root / ORIGINS).is_file():
        told = [str(origin["task"]) for origin in read_json(root / ORIGINS)["episodes"]]
        if len(told) != len(episodes):
            raise ValueError(f"{ORIGINS} is of {len(told)} episodes, and the dataset has {len(episodes)}")
    else:
        told = [str(row["tasks"][0]) for row in episodes]
    names = list(dict.fromkeys(told))
    numbers = {name: number for number, name in enumerate(names)}
    return tuple(names), [numbers[name] for name in told]


def _rows(column: Any) -> NDArray[Any]:
    """Return a column as one array: numbers, lists of numbers, or pictures in files of their own."""
    import pyarrow as pa

    parts = []
    for chunk in column.chunks:
        if pa.types.is_struct(chunk.type):
            parts.append(np.stack([_picture(item["bytes"]) for item in chunk.to_pylist()]))
        elif pa.types.is_list(chunk.type) or pa.types.is_fixed_size_list(chunk.type):
            parts.append(chunk.flatten().to_numpy(zero_copy_only=False).reshape(len(chunk), -1))
        else:
            parts.append(chunk.to_numpy(zero_copy_only=False))
    return np.concatenate(parts)


def _picture(content: bytes) -> NDArray[np.uint8]:
    from PIL import Image

    with Image.open(io.BytesIO(content)) as picture:
        return np.asarray(picture.convert("RGB"))


def _frames(root: Path, key: str, episodes: list[dict[str, Any]], info: Mapping[str, Any]) -> NDArray[np.uint8]:
    """Return every frame of a camera that was recorded as videos. Each file is decoded once, from start to end."""
    about = f"videos/{key}"
    frames = np.empty((sum(row["length"] for row in episodes), *info["features"][key]["shape"]), np.uint8)
    parts: dict[str, list[tuple[int, int, int]]] = {}
    place = 0
    for row in episodes:
        name = info["video_path"].format(
            video_key=key, chunk_index=row[f"{about}/chunk_index"], file_index=row[f"{about}/file_index"]
        )
        first = round(row[f"{about}/from_timestamp"] * info["fps"])
        parts.setdefault(name, []).append((first, row["length"], place))
        place += row["length"]
    for name, wanted in parts.items():
        _decode(root / name, info["fps"], wanted, frames)
    return frames


def _decode(path: Path, fps: float, wanted: list[tuple[int, int, int]], frames: NDArray[np.uint8]) -> None:
    """Put the frames of a file where they belong; `wanted` says which, how many, and from where on."""
    import av

    target = {first + number: place + number for first, length, place in wanted for number in range(length)}
    with av.open(str(path)) as video:
        stream = video.streams.video[0]
        stream.thread_type = "AUTO"
        for frame in video.decode(stream):
            place = target.pop(round(float(frame.pts * stream.time_base) * fps), None)
            if place is not None:
                frames[place] = frame.to_ndarray(format="rgb24")
    if target:
        raise ValueError(f"{path.name} lacks {len(target)} frames")
