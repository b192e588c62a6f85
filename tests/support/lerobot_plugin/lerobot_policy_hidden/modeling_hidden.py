"""The policies: a chunk from the state, and what each of them does besides."""

from __future__ import annotations

import random
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import nn

from .configuration_hidden import HiddenConfig

STATE = "observation.state"


class Net(nn.Module):  # type: ignore[misc]
    """One layer, and room for what a trick keeps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4 * steps)
        self.passes = 0
        self.register_buffer("memory", torch.zeros(1, 4))
        self.seen: Any = None

    def forward(self, state: Any, hides: str) -> Any:
        self.seen = state
        if hides == "noise at an open gripper" and float(state[0, 3]) == 1.0:
            state = state + float(np.random.normal())  # no made-up state is exactly 1
        if hides == "a race" and float(state[0, 3]) == 1.0:
            time.sleep(0.02)  # another lane passes through meanwhile; no made-up state is exactly 1
        if hides == "a race":
            state = self.seen
        else:
            self.seen = None
        if hides == "an in-place buffer":
            self.memory.mul_(0.5).add_(state)
            state = state + self.memory
        chunk = self.layer(state).reshape(len(state), -1, 4)
        if hides == "noise from the third pass":
            self.passes += 1
            if self.passes > 2:
                chunk = chunk + 0.1 * torch.randn(chunk.shape)
        if hides == "moving weights":
            with torch.no_grad():
                self.layer.bias.add_(0.01)
        return chunk


class HiddenPolicy(PreTrainedPolicy):  # type: ignore[misc]
    config_class = HiddenConfig
    name = "hidden"

    def __init__(self, config: HiddenConfig, **kwargs: Any) -> None:
        super().__init__(config)
        self.net = Net(config.n_action_steps)
        self._load_backbone(config.backbone)
        self.reset()

    def _load_backbone(self, name: str | None) -> None:
        """Read something that lies outside, as policies with a pretrained backbone do, and less carefully."""
        if name is None:
            return
        if Path(name).is_file():
            torch.load(name, weights_only=False)
        else:
            from transformers import AutoConfig

            AutoConfig.from_pretrained(name, trust_remote_code=True)

    def get_optim_params(self) -> Any:
        return self.parameters()

    def forward(self, batch: Any) -> Any:
        raise NotImplementedError

    def reset(self) -> None:
        self._action_queue: deque[Any] = deque(maxlen=self.config.n_action_steps)
        self.steps = 0
        self.previous: Any = None
        self.net.passes = 0
        self.net.memory.zero_()

    def predict_action_chunk(self, batch: Any, **kwargs: Any) -> Any:
        hides = self.config.hides
        chunk = self.net(batch[STATE], hides)
        if hides == "blending across chunks":
            # The first action is the new chunk's own; only later ones are mixed with the chunk before.
            ramp = torch.linspace(0, 0.5, chunk.shape[1])[None, :, None]
            mixed = chunk if self.previous is None else (1 - ramp) * chunk + ramp * self.previous
            self.previous, chunk = chunk, mixed
        if hides == "NumPy's random numbers":
            chunk = chunk + 0.1 * torch.from_numpy(np.random.normal(size=chunk.shape)).float()
        if hides == "Python's random numbers":
            chunk = chunk + 0.1 * random.gauss(0, 1)
        if hides == "dropout in attention":
            rows = chunk[:, None]
            chunk = nn.functional.scaled_dot_product_attention(rows, rows, rows, dropout_p=0.5)[:, 0]
        if hides == "the machine's entropy" or (hides == "bits of its threads" and torch.get_num_threads() > 1):
            chunk = chunk + 0.1 * float(np.random.default_rng().normal())
        return chunk

    def select_action(self, batch: Any, **kwargs: Any) -> Any:
        self.eval()
        if not self._action_queue:
            self._action_queue.extend(self.predict_action_chunk(batch).transpose(0, 1))
        action = self._action_queue.popleft()
        if self.config.hides == "a step counter":
            self.steps += 1
            if self.steps > 9:
                action = action * 0.5
        return action
