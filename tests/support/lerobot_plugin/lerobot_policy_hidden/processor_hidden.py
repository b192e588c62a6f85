"""Their processors: LeRobot's own, and a step of the plugin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lerobot.policies.act.processor_act import make_act_pre_post_processors
from lerobot.processor import IdentityProcessorStep


@dataclass
class PluginStep(IdentityProcessorStep):  # type: ignore[misc]
    """Does nothing; a checkpoint names it by its class."""

    def get_config(self) -> dict[str, Any]:
        return {}


def make_hidden_pre_post_processors(config: Any, dataset_stats: Any = None) -> Any:
    return make_act_pre_post_processors(config, dataset_stats=dataset_stats)
