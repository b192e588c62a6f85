"""A compact policy's checkpoint, in LeRobot's layout: `config.json`, `model.safetensors`, and the statistics that
inputs and actions are scaled with, `stats.safetensors`."""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.config.plain_values import to_plain
from proctor.config.registry import COMPACT
from proctor.errors import UsageError
from proctor.files import clip, read_json, reason
from proctor.policies.compact.tensor_files import Tensors, read_tensors, write_tensors

CONFIG, MODEL, STATISTICS = "config.json", "model.safetensors", "stats.safetensors"

_NORMALIZATION = {"VISUAL": "IDENTITY", "STATE": "MEAN_STD", "ENV": "MEAN_STD", "ACTION": "MIN_MAX"}

_LEAST_SPREAD = 1e-2
"""An input that hardly changes is not blown up: what differs there at evaluation is noise."""

_LARGEST = 1 << 16
"""Of any size in a config: far more than such a policy has, and no product of them fills a memory."""


@dataclass(frozen=True, kw_only=True)
class CompactConfig:
    """What a compact network is made of.

    Attributes:
        inputs: the shape of every observation that it looks at, by its key; pictures are (height, width, 3).
        action_size: numbers in one action.
        tasks: the tasks that it was trained on, by their names or prompts. It knows no others.
        benchmark: where it was trained, if that is known.
        chunk_size: actions that it predicts at once.
        n_action_steps: how many of them are executed before it looks again.
        width: numbers between two layers.
        blocks: residual blocks of two layers each.
        task_width: numbers that stand for a task.
        image_channels: of the convolutions, each of which halves a picture.
        image_width: numbers that stand for a picture.
    """

    inputs: dict[str, tuple[int, ...]]
    action_size: int
    tasks: tuple[str, ...]
    benchmark: str = ""
    chunk_size: int = 10
    n_action_steps: int = 5
    width: int = 512
    blocks: int = 3
    task_width: int = 32
    image_channels: tuple[int, ...] = (32, 64, 64, 96)
    image_width: int = 256

    def __post_init__(self) -> None:
        sizes = {
            "action_size": self.action_size,
            "chunk_size": self.chunk_size,
            "n_action_steps": self.n_action_steps,
            "width": self.width,
            "blocks": self.blocks,
            "task_width": self.task_width,
            "image_width": self.image_width,
            **{f"image_channels[{place}]": size for place, size in enumerate(self.image_channels)},
            **{f"{key}[{place}]": size for key, shape in self.inputs.items() for place, size in enumerate(shape)},
        }
        for name, size in sizes.items():
            if type(size) is not int or not 1 <= size <= _LARGEST:
                raise ValueError(f"{name} is {clip(size, 40)}; it must be from 1 to {_LARGEST}")
        if self.n_action_steps > self.chunk_size:
            raise ValueError(
                f"n_action_steps is {self.n_action_steps}, more than the {self.chunk_size} of chunk_size"
            )
        for what, values in (
            ("inputs", self.inputs),
            ("tasks", self.tasks),
            ("convolutions", self.image_channels),
        ):
            if not values:
                raise ValueError(f"it has no {what}")
        if len(set(self.tasks)) < len(self.tasks):
            raise ValueError("it names a task twice")

    @property
    def images(self) -> list[str]:
        """The inputs that are pictures."""
        return [key for key, shape in self.inputs.items() if len(shape) == 3]

    @property
    def numbers(self) -> list[str]:
        """The inputs that are numbers."""
        return [key for key, shape in self.inputs.items() if len(shape) == 1]

    @property
    def numbers_size(self) -> int:
        """How many numbers they are altogether."""
        return sum(self.inputs[key][0] for key in self.numbers)

    @property
    def features_size(self) -> int:
        """How many numbers enter the first layer: what is observed, what stands for pictures, and for the task."""
        return self.numbers_size + len(self.images) * self.image_width + self.task_width

    def halved(self, shape: tuple[int, ...]) -> int:
        """Return how many places of a picture are left behind the convolutions."""
        height, width = shape[:2]
        for _ in self.image_channels:
            height, width = (height + 1) // 2, (width + 1) // 2
        return height * width

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every weight."""
        shapes: dict[str, tuple[int, ...]] = {"task.weight": (len(self.tasks), self.task_width)}

        def layer(name: str, inputs: tuple[int, ...], outputs: int) -> None:
            shapes.update({f"{name}.weight": (outputs, *inputs), f"{name}.bias": (outputs,)})

        def norm(name: str, size: int) -> None:
            shapes.update({f"{name}.weight": (size,), f"{name}.bias": (size,)})

        if self.images:
            channels = (3, *self.image_channels)
            for number, (before, behind) in enumerate(itertools.pairwise(channels)):
                layer(f"convolutions.{number}", (before, 3, 3), behind)
            layer("picture", (channels[-1] * self.halved(self.inputs[self.images[0]]),), self.image_width)
            norm("picture_norm", self.image_width)
        layer("first", (self.features_size,), self.width)
        for number in range(self.blocks):
            norm(f"blocks.{number}.norm", self.width)
            layer(f"blocks.{number}.widen", (self.width,), self.width)
            layer(f"blocks.{number}.back", (self.width,), self.width)
        norm("norm", self.width)
        layer("last", (self.width,), self.chunk_size * self.action_size)
        return shapes

    def to_json(self) -> dict[str, Any]:
        """Return it as `config.json` holds it: features as LeRobot writes them."""
        plain: dict[str, Any] = to_plain(self)
        del plain["inputs"], plain["action_size"]
        return {
            "type": COMPACT,
            "input_features": {key: _feature(key, shape) for key, shape in self.inputs.items()},
            "output_features": {"action": {"type": "ACTION", "shape": [self.action_size]}},
            "normalization_mapping": _NORMALIZATION,
            **plain,
        }

    @classmethod
    def from_json(cls, told: Any) -> CompactConfig:
        """Rebuild it. Raises `ValueError`, `TypeError`, `LookupError` or `AttributeError` if it is none."""
        given = {name: told[name] for name in cls.__dataclass_fields__ if name in told}
        for name in ("tasks", "image_channels"):
            if name in given:
                given[name] = tuple(given[name])
        if not all(isinstance(task, str) for task in given.get("tasks", ())):
            raise ValueError("a task's name is no text")
        return cls(
            **{
                **given,
                "inputs": {key: _shape(feature) for key, feature in told["input_features"].items()},
                "action_size": told["output_features"]["action"]["shape"][0],
            }
        )


def _feature(key: str, shape: tuple[int, ...]) -> dict[str, Any]:
    if len(shape) == 3:
        height, width, channels = shape
        return {"type": "VISUAL", "shape": [channels, height, width]}
    return {"type": "ENV" if key.endswith("environment_state") else "STATE", "shape": list(shape)}


def _shape(feature: Any) -> tuple[int, ...]:
    shape = tuple(feature["shape"])
    if feature["type"] == "VISUAL":
        channels, height, width = shape
        if channels != 3:
            raise ValueError(f"a picture has {clip(channels, 40)} channels, not 3")
        return height, width, channels
    if len(shape) != 1:
        raise ValueError(f"an input has shape {clip(shape, 60)}")
    return shape


@dataclass(frozen=True)
class Scaling:
    """How inputs and actions are scaled: by mean and spread, and between the least and the largest."""

    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    middle: NDArray[np.float64]
    reach: NDArray[np.float64]

    @classmethod
    def of(cls, config: CompactConfig, statistics: Tensors) -> Scaling:
        """Return it for a config's inputs, in their order."""

        def joined(keys: list[str], stat: str) -> NDArray[np.float64]:
            found = [np.asarray(statistics[f"{key}.{stat}"], np.float64).reshape(-1) for key in keys]
            return np.concatenate(found) if found else np.zeros(0)

        low, high = joined(["action"], "min"), joined(["action"], "max")
        reach = (high - low) / 2
        scaling = cls(
            joined(config.numbers, "mean"),
            np.maximum(joined(config.numbers, "std"), _LEAST_SPREAD),
            (low + high) / 2,
            np.where(reach > 0, reach, 1.0),
        )
        sizes = len(scaling.mean), len(scaling.spread), len(low), len(high)
        if sizes != (config.numbers_size, config.numbers_size, config.action_size, config.action_size):
            raise ValueError(f"{STATISTICS} does not fit the features of {CONFIG}")
        return scaling


@dataclass(frozen=True)
class CompactCheckpoint:
    """A checkpoint that is whole: every weight has the shape that the config says."""

    config: CompactConfig
    weights: Tensors
    statistics: Tensors

    @property
    def fingerprint(self) -> str:
        """A hash of all that decides what the policy does."""
        digest = hashlib.sha256(json.dumps(self.config.to_json(), sort_keys=True).encode())
        for tensors in (self.weights, self.statistics):
            for name, tensor in sorted(tensors.items()):
                digest.update(f"{name} {tensor.dtype.str} {tensor.shape}\n".encode())
                digest.update(np.ascontiguousarray(tensor).tobytes())
        return digest.hexdigest()

    def executing(self, steps: int | None) -> CompactCheckpoint:
        """Return it with another number of executed actions. Raises `ValueError` for one that it does not have."""
        if steps is None:
            return self
        return replace(self, config=replace(self.config, n_action_steps=steps))

    def write(self, folder: Path) -> None:
        """Write it into a folder that is there."""
        (folder / CONFIG).write_text(json.dumps(self.config.to_json(), indent=2) + "\n", encoding="utf-8")
        write_tensors(folder / MODEL, self.weights)
        write_tensors(folder / STATISTICS, self.statistics)


def open_checkpoint(directory: Path) -> CompactCheckpoint:
    """Read a checkpoint. Raises `UsageError` if it is none, not whole, or damaged."""
    try:
        told = read_json(directory / CONFIG)
        if told.get("type") != COMPACT:
            raise ValueError(f"its {CONFIG} says that it is of type {clip(told.get('type'), 60)}, not {COMPACT}")
        config = CompactConfig.from_json(told)
        checkpoint = CompactCheckpoint(
            config, read_tensors(directory / MODEL), read_tensors(directory / STATISTICS)
        )
        _check_whole(checkpoint)
        return checkpoint
    except OSError as error:
        inner = directory / "pretrained_model"
        hint = f" Use --policy.path={inner}" if (inner / CONFIG).is_file() else ""
        file = f"{Path(error.filename).name}: " if isinstance(error.filename, str) else ""
        raise UsageError(
            f"--policy.path={directory} is no {COMPACT} checkpoint: {file}{reason(error)}.{hint}"
        ) from None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise UsageError(f"--policy.path={directory} is no {COMPACT} checkpoint: {clip(str(error))}.") from None


def _check_whole(checkpoint: CompactCheckpoint) -> None:
    expected = checkpoint.config.tensor_shapes()
    for name in sorted(expected.keys() ^ checkpoint.weights.keys()):
        what = "has no weight" if name in expected else "has a weight too many,"
        raise ValueError(f"{MODEL} {what} '{clip(name, 80)}'")
    for name, shape in expected.items():
        tensor = checkpoint.weights[name]
        if tensor.shape != shape or not np.isfinite(tensor).all():
            raise ValueError(f"the weight '{name}' in {MODEL} has another shape than {shape}, or NaN or infinity")
    scaling = Scaling.of(checkpoint.config, checkpoint.statistics)
    if not all(
        np.isfinite(values).all() for values in (scaling.mean, scaling.spread, scaling.middle, scaling.reach)
    ):
        raise ValueError(f"{STATISTICS} has NaN or infinity")
