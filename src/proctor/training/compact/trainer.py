"""Behaviour cloning: chunks of demonstrated actions from what was observed before them.

Every task has the same share of a batch. The loss is the mean absolute error of scaled actions. The learning rate
rises for a twentieth of the steps and falls to zero along a cosine. A checkpoint has all that the next step
depends on, so a training that was stopped comes to the same weights, on one machine and CPU bit for bit.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from proctor.config.lerobot_fields import PRETRAINED_MODEL, TRAIN_CONFIG
from proctor.errors import RunError, UsageError
from proctor.files import clip
from proctor.policies.compact.checkpoint import CompactCheckpoint, CompactConfig, Scaling
from proctor.training.checkpoints import CHECKPOINTS, LAST, STATE, Checkpoints
from proctor.training.compact.demonstrations import Demonstrations
from proctor.training.compact.network import TorchCompactNetwork
from proctor.training.compact.settings import TrainerSettings

_WARM_UP = 0.05


class Batches:
    """Draws batches of demonstrations, which lie on the device as a whole.

    Args:
        demonstrations: all of them.
        config: of the network.
        settings: of the training.
        device: where to compute.
    """

    def __init__(
        self, demonstrations: Demonstrations, config: CompactConfig, settings: TrainerSettings, device: Any
    ) -> None:
        self._config, self._size, self._device = config, settings.batch_size, device
        self._shift = settings.policy.image_shift
        scaling = Scaling.of(config, demonstrations.statistics)
        steps = len(demonstrations.actions)
        numbers = [np.asarray(demonstrations.observations[key], np.float64) for key in config.numbers]
        seen = np.concatenate(numbers, axis=1) if numbers else np.zeros((steps, 0))
        self._numbers = self._tensor(((seen - scaling.mean) / scaling.spread).astype(np.float32))
        self._pictures = [
            self._tensor(demonstrations.observations[key]).permute(0, 3, 1, 2) for key in config.images
        ]
        self._actions = self._tensor(
            ((demonstrations.actions - scaling.middle) / scaling.reach).astype(np.float32)
        )
        self._tasks, self._ends = self._tensor(demonstrations.tasks), self._tensor(demonstrations.ends)
        # A task's steps together weigh as much as another's.
        counts = torch.bincount(self._tasks, minlength=len(config.tasks))
        self._shares = torch.cumsum(1.0 / counts[self._tasks].double(), 0)
        self._chunk = torch.arange(config.chunk_size, device=device)
        self.generator = torch.Generator(device)
        self.generator.manual_seed(settings.seed)

    def draw(self) -> tuple[Any, list[Any], Any, Any]:
        """Return scaled numbers, pictures, tasks, and the chunks to predict."""
        drawn = torch.rand(self._size, dtype=torch.double, device=self._device, generator=self.generator)
        rows = torch.searchsorted(self._shares, drawn * self._shares[-1]).clamp_max(len(self._tasks) - 1)
        # An episode's last action goes on beyond its end.
        ahead = torch.minimum(rows[:, None] + self._chunk, self._ends[rows][:, None])
        pictures = [self._shifted(pixels[rows]) for pixels in self._pictures]
        return self._numbers[rows], pictures, self._tasks[rows], self._actions[ahead]

    def _shifted(self, pixels: Any) -> Any:
        """Return pictures as the network takes them, each moved by a few pixels."""
        maps, most = pixels.float() / 255.0 - 0.5, self._shift
        if not most:
            return maps
        height, width = maps.shape[2:]
        bordered = functional.pad(maps, (most, most, most, most), mode="replicate")
        down, right = (
            torch.randint(0, 2 * most + 1, (len(maps), 1), device=self._device, generator=self.generator)
            + torch.arange(size, device=self._device)
            for size in (height, width)
        )
        which = torch.arange(len(maps), device=self._device)[:, None, None]
        return bordered[which, :, down[:, :, None], right[:, None, :]].permute(0, 3, 1, 2)

    def _tensor(self, array: Any) -> Any:
        return torch.as_tensor(np.ascontiguousarray(array), device=self._device)


class Trainer:
    """Trains a network on demonstrations, from its last checkpoint on where there is one.

    Args:
        settings: of the training.
        demonstrations: what is learnt from.
        tell: who is told how it goes, a line at a time.
    """

    def __init__(
        self, settings: TrainerSettings, demonstrations: Demonstrations, tell: Callable[[str], None]
    ) -> None:
        self._settings, self._tell = settings, tell
        self._device = _device(settings.device)
        torch.set_float32_matmul_precision("high")
        network = settings.policy
        self._config = network.config(
            demonstrations.features,
            demonstrations.actions.shape[1],
            demonstrations.names,
            demonstrations.benchmark,
        )
        self._statistics = {
            name: values
            for name, values in demonstrations.statistics.items()
            if name.rpartition(".")[0] in (*self._config.numbers, "action")
        }
        torch.manual_seed(settings.seed)
        self._network = TorchCompactNetwork(self._config).to(self._device)
        self._batches = Batches(demonstrations, self._config, settings, self._device)
        self._optimizer = torch.optim.AdamW(
            self._network.parameters(), network.optimizer_lr, weight_decay=network.optimizer_weight_decay
        )
        self._checkpoints = Path(settings.output_dir) / CHECKPOINTS
        self._step = 0

    def train(self) -> None:
        """Train to the last step."""
        settings = self._settings
        self._resume()
        weights = sum(parameter.numel() for parameter in self._network.parameters())
        self._tell(
            f"{weights:,} weights on {self._device}, {settings.steps - self._step:,} of {settings.steps:,} steps"
        )
        since, before = time.monotonic(), self._step
        for loss in self._steps():
            if self._step % settings.log_freq == 0 or self._step == settings.steps:
                if not math.isfinite(float(loss)):
                    raise RunError(
                        f"the loss is {float(loss)} at step {self._step:,}. Lower --policy.optimizer_lr."
                    )
                pace = (self._step - before) / max(time.monotonic() - since, 1e-9)
                self._tell(f"step {self._step:,}: loss {float(loss):.4f}, {pace:.0f} steps/s")
            if self._step % settings.save_freq == 0 or self._step == settings.steps:
                self._save()

    def _steps(self) -> Iterator[Any]:
        while self._step < self._settings.steps:
            for group in self._optimizer.param_groups:
                group["lr"] = self._settings.policy.optimizer_lr * _rate(self._step / self._settings.steps)
            numbers, pictures, tasks, chunks = self._batches.draw()
            loss = functional.l1_loss(self._network(numbers, pictures, tasks), chunks)
            self._optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self._network.parameters(), 1.0)
            self._optimizer.step()
            self._step += 1
            yield loss.detach()

    def checkpoint(self) -> CompactCheckpoint:
        """Return the policy as it is now."""
        dtype = np.dtype(self._settings.policy.dtype)
        weights = {
            name: value.detach().cpu().numpy().astype(dtype) for name, value in self._network.state_dict().items()
        }
        return CompactCheckpoint(self._config, weights, self._statistics)

    def _save(self) -> None:
        """Write a checkpoint under its name when it is whole, and only then call it the last one."""
        whole = self._checkpoints / f"{self._step:06d}"
        part = whole.with_name(f".{whole.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        for folder in (PRETRAINED_MODEL, STATE):
            (part / folder).mkdir(parents=True)
        self.checkpoint().write(part / PRETRAINED_MODEL)
        settings = self._settings
        told = {"steps": settings.steps, "seed": settings.seed, "dataset": {"root": settings.dataset_root}}
        (part / PRETRAINED_MODEL / TRAIN_CONFIG).write_text(json.dumps(told, indent=2) + "\n")
        torch.save(
            {
                "step": self._step,
                "network": self._network.state_dict(),
                "optimizer": self._optimizer.state_dict(),
                "generator": self._batches.generator.get_state(),
            },
            part / STATE / "state.pt",
        )
        for path in (*part.rglob("*"), part):
            _sync(path)
        shutil.rmtree(whole, ignore_errors=True)
        part.rename(whole)
        link = self._checkpoints / f".{LAST}.part"
        link.unlink(missing_ok=True)
        link.symlink_to(whole.name)
        if not (self._checkpoints / LAST).is_symlink():  # somebody has copied the folder without links
            shutil.rmtree(self._checkpoints / LAST, ignore_errors=True)
        link.replace(self._checkpoints / LAST)
        _sync(self._checkpoints)

    def _resume(self) -> None:
        last = Checkpoints(Path(self._settings.output_dir)).last()
        if last is None:
            return
        file = last.path / STATE / "state.pt"
        try:
            state = torch.load(file, map_location="cpu", weights_only=True)
            network, optimizer, generator = state["network"], state["optimizer"], state["generator"]
            step = int(state["step"])
        except Exception as error:  # torch has many for a file that is damaged or not there
            raise UsageError(
                f"{file} cannot be read ({type(error).__name__}). Delete {last.path} to go on from the one before."
            ) from None
        try:
            self._network.load_state_dict(network)
        except RuntimeError:
            raise UsageError(
                f"{last.path} is of another network than these settings make. Choose another --output_dir."
            ) from None
        self._optimizer.load_state_dict(optimizer)
        self._batches.generator.set_state(generator)
        self._step = step


def _device(name: str | None) -> Any:
    """Return where to compute. Raises `UsageError` for a device that is not there."""
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UsageError(f"--policy.device={clip(name, 60)}: {clip(str(error).partition(chr(10))[0])}") from None
    return device


def _rate(progress: float) -> float:
    """Return the share of the learning rate at this share of the steps."""
    if progress < _WARM_UP:
        return (progress + 1e-3) / _WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (progress - _WARM_UP) / (1 - _WARM_UP)))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
