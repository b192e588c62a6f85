"""Their config: `hides` names what a policy keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lerobot.configs import NormalizationMode, PreTrainedConfig


@PreTrainedConfig.register_subclass("hidden")
@dataclass
class HiddenConfig(PreTrainedConfig):  # type: ignore[misc]
    hides: str = "nothing"
    n_action_steps: int = 4
    backbone: str | None = None
    normalization_mapping: dict[str, NormalizationMode] = field(
        default_factory=lambda: {"STATE": NormalizationMode.MEAN_STD, "ACTION": NormalizationMode.MEAN_STD}
    )

    @property
    def observation_delta_indices(self) -> None:
        return None

    @property
    def action_delta_indices(self) -> list[int]:
        return list(range(self.n_action_steps))

    @property
    def reward_delta_indices(self) -> None:
        return None

    def get_optimizer_preset(self) -> Any:
        raise NotImplementedError

    def get_scheduler_preset(self) -> None:
        return None

    def validate_features(self) -> None:
        return None
