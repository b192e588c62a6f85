"""What the trainer of compact policies is told: a JSON file, checked here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from proctor.config.settings import comma_list
from proctor.errors import UsageError, did_you_mean
from proctor.files import clip, read_json, reason
from proctor.policies.compact.checkpoint import CompactConfig


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """`--policy.*` of a training: the network, and how its weights are found."""

    inputs: Annotated[str, "comma list of the dataset's observations that it looks at [all]"] = ""
    chunk_size: Annotated[int, "actions that it predicts at once"] = 10
    n_action_steps: Annotated[int, "how many of them are executed before it looks again"] = 5
    width: Annotated[int, "numbers between two layers"] = 512
    blocks: Annotated[int, "residual blocks of two layers each"] = 3
    task_width: Annotated[int, "numbers that stand for a task"] = 32
    image_channels: Annotated[str, "of the convolutions, each of which halves a picture"] = "32,64,64,96"
    image_width: Annotated[int, "numbers that stand for a picture"] = 256
    dtype: Annotated[str, "of the weights in a checkpoint, float16 or float32; training is in float32"] = "float16"
    optimizer_lr: Annotated[float, "the largest learning rate"] = 1e-3
    optimizer_weight_decay: Annotated[float, "of AdamW"] = 1e-4
    image_shift: Annotated[int, "pixels by which pictures are moved at random; places are not learnt by heart"] = 4

    def __post_init__(self) -> None:
        if self.dtype not in ("float16", "float32"):
            raise UsageError(f"--policy.dtype={clip(self.dtype)}: float16 or float32.")
        for name in ("optimizer_lr", "optimizer_weight_decay", "image_shift"):
            if not 0 <= getattr(self, name) < 1000:
                raise UsageError(f"--policy.{name}={getattr(self, name)}: must be from 0 to 1000.")

    def config(
        self, features: Mapping[str, tuple[int, ...]], action_size: int, tasks: tuple[str, ...], benchmark: str
    ) -> CompactConfig:
        """Return the network for a dataset that has these features and tasks."""
        wanted = comma_list(self.inputs) or list(features)
        for key in wanted:
            if key not in features:
                raise UsageError(
                    f"--policy.inputs={clip(self.inputs)}: the dataset has no '{clip(key)}'."
                    f"{did_you_mean(key, features)} It has {', '.join(features)}."
                )
        try:
            return CompactConfig(
                inputs={key: features[key] for key in wanted},
                action_size=action_size,
                tasks=tasks,
                benchmark=benchmark,
                chunk_size=self.chunk_size,
                n_action_steps=self.n_action_steps,
                width=self.width,
                blocks=self.blocks,
                task_width=self.task_width,
                image_channels=tuple(map(int, comma_list(self.image_channels))),
                image_width=self.image_width,
            )
        except ValueError as error:
            raise UsageError(f"--policy.*: {error}.") from None


@dataclass(frozen=True, kw_only=True)
class TrainerSettings:
    """All that a training depends on."""

    dataset_root: str
    output_dir: str
    steps: int = 20_000
    batch_size: int = 1024
    save_freq: int = 5_000
    log_freq: int = 200
    seed: int = 1000
    device: str | None = None
    policy: NetworkSettings = field(default_factory=NetworkSettings)

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "save_freq", "log_freq"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name}={getattr(self, name)}: must be 1 or more.")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"--seed={self.seed}: must be from 0 to {2**63 - 1}.")

    @classmethod
    def read(cls, path: Path) -> TrainerSettings:
        """Read them from a file. Raises `UsageError` for what is unknown or of another type."""
        try:
            return cls.from_json(dict(read_json(path)))
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"{path}: {reason(error)}.") from None

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> TrainerSettings:
        """Check values, which may be the texts of flags. Raises `UsageError` likewise."""
        network = _checked(NetworkSettings, dict(told.pop("policy", None) or {}), "policy.")
        settings: TrainerSettings = _checked(cls, {**told, "policy": network}, "")
        return settings


def _checked(kind: Any, given: dict[str, Any], prefix: str) -> Any:
    fields, hints = {field.name for field in dataclasses.fields(kind)}, get_type_hints(kind)
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in fields:
            raise UsageError(f"--{prefix}{clip(name)}: no such setting.{did_you_mean(name, fields)}")
        values[name] = _as(hints[name], value, f"--{prefix}{name}")
    missing = [name for name in ("dataset_root", "output_dir") if name in fields and not values.get(name)]
    if missing:
        raise UsageError(f"--{missing[0]} is missing.")
    return kind(**values)


def _as(kind: Any, value: Any, flag: str) -> Any:
    """Return a value, which may be a flag's text, as the type that a setting has."""
    if dataclasses.is_dataclass(value) or (value is None and kind not in (int, float, str)):
        return value
    try:
        if kind in (int, float) and not isinstance(value, bool):
            number = float(value)
            if kind is float or number == int(number):
                return kind(number)
        elif kind not in (int, float) and isinstance(value, str | int | float):
            return str(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise UsageError(f"{flag}={clip(value)}: expected {'a number' if kind in (int, float) else 'a text'}.")
