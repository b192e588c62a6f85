"""A LeRobot checkpoint as a policy: `--policy.path=DIRECTORY` or a hub id."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from proctor.config.settings import EXECUTION, DevicePolicySettings, Locates
from proctor.errors import UsageError
from proctor.policies.names import LIVE
from proctor.policies.protocol import Actions, Cost, Generators, Memory, Pass, Policy, PolicySpec, Window
from proctor.types import BenchmarkSpec, Task

if TYPE_CHECKING:
    from proctor.policies.lerobot.checkpoint import LoadedCheckpoint
    from proctor.policies.lerobot.trial import Conclusions, PolicyTrial


_KNOWN: dict[str, Conclusions] = {}
"""What the last trial of this process has found: other weights of the same network need no other."""


@dataclass(frozen=True, kw_only=True)
class LeRobotSettings(DevicePolicySettings):
    """`--policy.*` of a LeRobot checkpoint; every other name is a field of the checkpoint's own config."""

    OPEN: ClassVar[str | None] = "overrides"

    # Not identity as they are written: what these come to is in the policy's spec (the kind of device, the rows of
    # a batch) and in its fingerprint (the config with every override, by content where one is a path).
    path: Annotated[str | None, Locates("checkpoint"), EXECUTION, "directory or hub id of a checkpoint"] = None
    overrides: Annotated[
        dict[str, Any],
        Locates("values"),
        EXECUTION,
        "any field of the checkpoint's config, also as --policy.FIELD=value: n_action_steps, ...",
    ] = field(default_factory=dict)
    trust_remote_code: Annotated[bool, EXECUTION, "as --trust_remote_code"] = False


class LeRobotPolicy(Policy):
    """One copy of the weights; every episode in flight asks it."""

    Settings = LeRobotSettings

    def __init__(self, trial: PolicyTrial, spec: PolicySpec) -> None:
        self._trial, self._spec = trial, spec

    @classmethod
    def check_installed(cls) -> None:
        """Say how to get a lerobot that works, if there is none."""
        from proctor.policies.lerobot.checkpoint import check_lerobot

        check_lerobot()

    @classmethod
    def from_settings(cls, settings: LeRobotSettings, benchmark: BenchmarkSpec) -> LeRobotPolicy:
        """Load the checkpoint, refuse it if it is not whole or does not fit, and run_trial."""
        # Here, not above: the coordinator, which may have no torch, reads the settings' class.
        from proctor.policies.lerobot.checkpoint import check_lerobot, load, open_checkpoint
        from proctor.policies.lerobot.fingerprint import file_hashes, identify
        from proctor.policies.lerobot.fit import match_inputs
        from proctor.policies.lerobot.imports import quick_imports

        started = time.monotonic()
        if not settings.path:
            kind = settings.overrides.get("type", "lerobot")  # LeRobot's name of a network, if one was given
            raise UsageError(f"--policy.type={kind} needs --policy.path=DIRECTORY or a hub id.")
        if settings.path.startswith(LIVE):
            raise UsageError(
                "this run's policy was a live object: go on with what was saved of it, --policy.path=CHECKPOINT."
            )
        check_lerobot()
        with quick_imports():
            from proctor.policies.lerobot.numerics import (
                check_device,
                device_notes,
                identity_of,
                make_deterministic,
            )

            check_device(settings.device)
            trusted = settings.trust_remote_code
            checkpoint = open_checkpoint(settings.path, settings.overrides, settings.device, trusted)
        config = checkpoint.config
        check_device(config.device, whose=f"{settings.path}: device")
        make_deterministic(config.device)
        keep_renames = not benchmark.sources
        keys, remarks = match_inputs(config, benchmark, checkpoint.own_renames if keep_renames else {})
        if settings.device is None:
            remarks += device_notes(checkpoint.declared_device, config.device)
        action_size = config.action_feature.shape[0]
        if action_size != benchmark.action_size:
            raise UsageError(
                f"the checkpoint returns actions of {action_size} numbers, "
                f"{benchmark.name} takes {benchmark.action_size}."
            )
        several_rows = (settings.batch_size or 2 * (str(config.device) != "cpu")) > 1
        loading = partial(load, checkpoint, keep_renames=keep_renames, fixed_prompts=several_rows)
        with ThreadPoolExecutor(1) as pool:
            files = pool.submit(file_hashes, checkpoint.directory)
            with checkpoint.guard.watch():
                loaded, trial = cls._tried(loading, settings.batch_size, benchmark, keys, started)
            forward, known = trial.forward, identify(checkpoint, loaded, settings.overrides, files.result)
        spec = PolicySpec(
            observation_keys=keys,
            action_size=action_size,
            observation_offsets=forward.strategy.offsets,
            action_steps=forward.strategy.steps,
            stochastic=forward.draws != "none",
            batch=forward.rows,
            fingerprint=known.fingerprint,
            lanes=trial.lanes,
            reproducible=trial.reproducible,
            # By name: a resume that differs in one override is told in which, not only that hashes differ.
            identity={
                **identity_of(loaded),
                **{f"override {name}": value for name, value in known.overrides.items()},
            },
            notes=(*remarks, *trial.notes, *known.notes),
        )
        return cls(trial, spec)

    @classmethod
    def may_end_at_once(cls, settings: LeRobotSettings) -> bool:
        """LeRobot's own code leaves nothing open; of a plugin's, or a checkpoint's, nobody knows."""
        plugins = any(name.startswith("lerobot_") for name in sys.modules)
        return not settings.trust_remote_code and not plugins

    @classmethod
    def reloads(cls, settings: LeRobotSettings) -> bool:
        """Weights, configs and statistics are read from the checkpoint; code that comes with one is imported."""
        return not settings.trust_remote_code

    @staticmethod
    def _tried(
        load: Callable[[], LoadedCheckpoint],
        batch_size: int,
        benchmark: BenchmarkSpec,
        keys: Sequence[str],
        started: float,
    ) -> tuple[LoadedCheckpoint, PolicyTrial]:
        from proctor.policies.lerobot.fingerprint import network_of
        from proctor.policies.lerobot.imports import quick_imports
        from proctor.policies.lerobot.lane_resources import environment_processors
        from proctor.policies.lerobot.trial import Conclusions, WeightWrite, run_trial

        with quick_imports():
            loaded = load()
            environment = environment_processors(benchmark.name, loaded.policy.config)
        network = repr((network_of(loaded), benchmark.to_wire(), keys, batch_size, loaded.device))
        if (known := _KNOWN.get(network)) is not None:
            return loaded, known.for_weights(loaded, environment)
        _KNOWN.clear()
        try:
            trial = run_trial(loaded, environment, benchmark, keys, batch_size, started)
            if (conclusions := Conclusions.of(trial)) is not None:
                _KNOWN[network] = conclusions
            return loaded, trial
        except WeightWrite as found:
            # They are not what was saved any more.
            loaded = load()
            return loaded, run_trial(loaded, environment, benchmark, keys, 1, started, found.names)

    @property
    def spec(self) -> PolicySpec:
        """What the trial found."""
        return self._spec

    @property
    def cost(self) -> Cost | None:
        """What the trial measured."""
        return self._trial.cost

    def passes(self, sizes: Sequence[int]) -> list[Pass]:
        """Rehearse other batch sizes; on a CPU one row is the rule, whatever is asked."""
        from proctor.policies.lerobot.trial import measure_passes

        return measure_passes(self._trial, sizes)

    def begin(self, task: Task) -> Memory:
        """Return an episode's memory before its first step."""
        return self._trial.forward.begin()

    def act(self, windows: Sequence[Window], memories: Sequence[Memory], generators: Generators) -> Actions:
        """Answer up to a batch of episodes in one forward pass."""
        if self._spec.stochastic:
            from proctor.policies.lerobot.randomness import EpisodeRandomness

            for memory, generator in zip(memories, generators, strict=True):
                if memory.randomness is None:
                    memory.randomness = EpisodeRandomness(int(generator.integers(2**63)))
        return Actions(self._trial.forward(windows, memories), memories)
