"""How the tests read a recorded dataset, and what it must hold: the episodes played again, without the engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness import SUPPORT
from proctor.types import Episode, Task
from tiny import IMAGE, STATE, TinySettings, TinySimulator

ROUNDED = {"path": f"{SUPPORT / 'tiny_policies.py'}:Rounded"}
"""A policy whose actions are exact in float32: playing what was recorded again gives the very episode."""


class Played(NamedTuple):
    """An episode, step by step."""

    states: NDArray[np.float32]
    images: NDArray[np.uint8]
    rewards: NDArray[np.float32]
    successes: list[bool]
    done: list[bool]


def play_again(origin: dict[str, Any], actions: NDArray[np.float32], max_steps: int = 40) -> Played:
    """Apply actions to the tiny simulator itself; says what is seen before each and what comes of it."""
    name = origin["task"]
    task = Task(group=name, task_id=0, name=name, prompt=f"do {name}", max_steps=max_steps)
    simulator = TinySimulator(task, TinySettings())
    look = frozenset({STATE, IMAGE})
    simulator.reset(Episode(task, origin["episode_index"], origin["seed"]), look)
    states, images, rewards, successes, done = [], [], [], [], []
    for number, action in enumerate(actions):
        seen = simulator.observe()
        outcome = simulator.step(action, look)
        states.append(seen[STATE])
        images.append(seen[IMAGE])
        rewards.append(outcome.reward)
        successes.append(bool(outcome.success))
        done.append(outcome.terminated or number + 1 == max_steps)
    return Played(
        np.asarray(states, np.float32), np.asarray(images), np.asarray(rewards, np.float32), successes, done
    )


def origins(dataset: Path) -> list[dict[str, Any]]:
    """Return which episode of the run each of the dataset's is."""
    found: list[dict[str, Any]] = json.loads((dataset / "meta" / "proctor.json").read_text())["episodes"]
    return found


def rows(dataset: Path) -> Iterator[dict[str, Any]]:
    """Return the steps of each episode as arrays."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.concat_tables(pq.read_table(file) for file in sorted(dataset.glob("data/*/*.parquet")))
    columns = {name: np.asarray(table.column(name).to_pylist()) for name in table.column_names}
    for number in range(len(origins(dataset))):
        here = columns["episode_index"] == number
        yield {name: values[here] for name, values in columns.items()}


def frames(dataset: Path, name: str = IMAGE) -> list[NDArray[np.uint8]]:
    """Return all frames of a camera, in order."""
    files = sorted((dataset / "videos" / name).glob("*/*.mp4"))
    return [frame for file in files for frame in frames_of(file)]


def frames_of(file: Path) -> list[NDArray[np.uint8]]:
    """Return a video's frames."""
    import av

    with av.open(str(file)) as video:
        return [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]


def content(folder: Path) -> dict[str, bytes]:
    """Return every file's bytes."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
