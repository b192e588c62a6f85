"""A LeRobot checkpoint as a policy: `--policy.path=DIRECTORY` or a hub id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from proctor.config.settings import AtLeast, PolicySettings
from proctor.policies.protocol import Policy


@dataclass(frozen=True, kw_only=True)
class LeRobotSettings(PolicySettings):
    """`--policy.*` of a LeRobot checkpoint; every other name is a field of the checkpoint's own config."""

    OPEN: ClassVar[str | None] = "overrides"

    device: Annotated[str | None, "cpu, cuda, cuda:0, or a comma list for one host each [the checkpoint's]"] = None
    batch_size: Annotated[
        int, AtLeast(0), "rows in one forward pass, part of the result; 0: 1 on a CPU, 8 on a GPU"
    ] = 0
    overrides: Annotated[
        dict[str, Any], "any field of the checkpoint's config, also as --policy.FIELD=value: n_action_steps, ..."
    ] = field(default_factory=dict)


class LeRobotPolicy(Policy):
    """A LeRobot checkpoint."""

    Settings = LeRobotSettings
