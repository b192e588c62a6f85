"""The compact network in PyTorch, with the names and sizes that the checkpoint has."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn

from proctor.policies.compact.checkpoint import CompactConfig
from proctor.policies.compact.network import NORM_EPSILON


class _Block(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, NORM_EPSILON)
        self.widen, self.back = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, hidden: Any) -> Any:
        return hidden + self.back(torch.relu(self.widen(self.norm(hidden))))


class TorchCompactNetwork(nn.Module):  # type: ignore[misc]
    """The network of `proctor.policies.compact.network`, for batches and with gradients."""

    def __init__(self, config: CompactConfig) -> None:
        super().__init__()
        self._chunk = config.chunk_size, config.action_size
        self.task = nn.Embedding(len(config.tasks), config.task_width)
        if config.images:
            channels = (3, *config.image_channels)
            self.convolutions = nn.ModuleList(
                nn.Conv2d(before, behind, 3, stride=2, padding=1)
                for before, behind in itertools.pairwise(channels)
            )
            places = config.halved(config.inputs[config.images[0]])
            self.picture = nn.Linear(channels[-1] * places, config.image_width)
            self.picture_norm = nn.LayerNorm(config.image_width, NORM_EPSILON)
        self.first = nn.Linear(config.features_size, config.width)
        self.blocks = nn.ModuleList(_Block(config.width) for _ in range(config.blocks))
        self.norm = nn.LayerNorm(config.width, NORM_EPSILON)
        self.last = nn.Linear(config.width, config.chunk_size * config.action_size)

    def forward(self, numbers: Any, pictures: list[Any], tasks: Any) -> Any:
        """Return scaled chunks for scaled numbers, pictures between -0.5 and 0.5 and the numbers of tasks."""
        features = [numbers, *(self._encoded(picture) for picture in pictures), self.task(tasks)]
        hidden = self.first(torch.cat(features, dim=-1))
        for block in self.blocks:
            hidden = block(hidden)
        return self.last(self.norm(hidden)).view(-1, *self._chunk)

    def _encoded(self, maps: Any) -> Any:
        for convolution in self.convolutions:
            maps = torch.relu(convolution(maps))
        return self.picture_norm(self.picture(maps.flatten(1)))
