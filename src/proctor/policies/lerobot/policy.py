"""A LeRobot checkpoint as a policy: `--policy.path=DIRECTORY` or a hub id."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from proctor.benchmarks.protocol import BenchmarkSpec, Task
from proctor.config.settings import EXECUTION, AtLeast, Locates, PolicySettings
from proctor.errors import UsageError
from proctor.policies.protocol import Actions, Cost, Memory, Pass, Policy, PolicySpec, Window

if TYPE_CHECKING:
    from proctor.policies.lerobot.rehearsal import Found


@dataclass(frozen=True, kw_only=True)
class LeRobotSettings(PolicySettings):
    """`--policy.*` of a LeRobot checkpoint; every other name is a field of the checkpoint's own config."""

    OPEN: ClassVar[str | None] = "overrides"

    device: Annotated[str | None, "cpu, cuda, cuda:0, or a comma list for one host each [the checkpoint's]"] = None
    batch_size: Annotated[
        int, AtLeast(0), "rows in one forward pass, part of the result; 0: 1 on a CPU, 16 on a GPU"
    ] = 0
    overrides: Annotated[
        dict[str, Any],
        Locates("values"),
        "any field of the checkpoint's config, also as --policy.FIELD=value: n_action_steps, ...",
    ] = field(default_factory=dict)
    trust_remote_code: Annotated[bool, EXECUTION, "as --trust_remote_code"] = False


class LeRobotPolicy(Policy):
    """One copy of the weights; every episode in flight asks it."""

    Settings = LeRobotSettings

    def __init__(self, found: Found, spec: PolicySpec) -> None:
        self._found, self._spec = found, spec
        self._stochastic = found.forward.draws != "none"

    @classmethod
    def check_installed(cls) -> None:
        """Say how to get a lerobot that works, if there is none."""
        from proctor.policies.lerobot.checkpoint import check_lerobot

        check_lerobot()

    @classmethod
    def from_settings(cls, settings: LeRobotSettings, benchmark: BenchmarkSpec) -> LeRobotPolicy:
        """Load the checkpoint, refuse it if it is not whole or does not fit, and rehearse."""
        # Here, not above: the coordinator, which may have no torch, reads the settings' class.
        from proctor.policies.lerobot.checkpoint import check_lerobot, load, open_checkpoint
        from proctor.policies.lerobot.fit import match_inputs

        started = time.monotonic()
        if not settings.path:
            raise UsageError("--policy.type=lerobot needs --policy.path=DIRECTORY or a hub id.")
        check_lerobot()
        from proctor.policies.lerobot.kit import environment_processors
        from proctor.policies.lerobot.numerics import check_device, identity_of, make_deterministic
        from proctor.policies.lerobot.rehearsal import rehearse

        check_device(settings.device)
        checkpoint = open_checkpoint(settings.path, settings.overrides, settings.device)
        config = checkpoint.config
        make_deterministic(config.device)
        keep_renames = not benchmark.sources
        keys, remarks = match_inputs(config, benchmark, checkpoint.own_renames if keep_renames else {})
        action_size = config.action_feature.shape[0]
        if action_size != benchmark.action_size:
            raise UsageError(
                f"the checkpoint returns actions of {action_size} numbers, "
                f"{benchmark.name} takes {benchmark.action_size}."
            )
        loaded = load(
            checkpoint,
            keep_renames=keep_renames,
            fixed_prompts=(settings.batch_size or 2 * (str(config.device) != "cpu")) > 1,
            trust_remote_code=settings.trust_remote_code,
        )
        environment = environment_processors(benchmark.name, config)
        found = rehearse(loaded, environment, benchmark, keys, settings.batch_size, started)
        way = found.forward.way
        spec = PolicySpec(
            observation_keys=keys,
            action_size=action_size,
            observation_offsets=way.offsets,
            action_steps=way.steps,
            stochastic=found.forward.draws != "none",
            batch=found.forward.rows,
            fingerprint=checkpoint.fingerprint(),
            lanes=found.lanes,
            identity={**identity_of(loaded), **_overridden(settings.overrides)},
            notes=(*remarks, *found.notes),
        )
        return cls(found, spec)

    @property
    def spec(self) -> PolicySpec:
        """What the rehearsal found."""
        return self._spec

    @property
    def cost(self) -> Cost | None:
        """What the rehearsal measured."""
        return self._found.cost

    def passes(self, sizes: Sequence[int]) -> list[Pass]:
        """Rehearse other batch sizes; on a CPU one row is the rule, whatever is asked."""
        from proctor.policies.lerobot.rehearsal import measure_passes

        return measure_passes(self._found, sizes)

    def begin(self, task: Task) -> Memory:
        """Return an episode's memory before its first step."""
        from proctor.policies.lerobot.forward import Row

        return Row(self._found.forward.way.begin())

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        """Answer up to a batch of episodes in one forward pass."""
        if self._stochastic:
            from proctor.policies.lerobot.randomness import EpisodeRandomness

            for memory, generator in zip(memories, generators, strict=True):
                if memory.randomness is None:
                    memory.randomness = EpisodeRandomness(int(generator.integers(2**63)))
        return Actions(self._found.forward(windows, memories), memories)


def _overridden(overrides: dict[str, Any]) -> dict[str, str]:
    """Return the overrides by name: a resume that differs in one is told in which, not only that hashes differ."""
    return {f"override {name}": str(value) for name, value in overrides.items()}
