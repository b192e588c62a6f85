"""Meta-World's scripted experts, which see the full state."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from proctor.errors import UsageError
from proctor.installation import missing_package
from proctor.policies.protocol import Actions, Memory, Policy, PolicySpec, Window
from proctor.types import BenchmarkSpec, Task

_STATE = "observation.environment_state"


class ExpertPolicy(Policy):
    """One script per task, shipped with Meta-World. An episode's memory is its script."""

    light = True

    @classmethod
    def check_installed(cls) -> None:
        """Say how to get Meta-World's scripts."""
        if importlib.util.find_spec("metaworld") is None:
            raise missing_package("--policy.type=expert", "metaworld", "metaworld")

    @classmethod
    def from_settings(cls, settings: Any, benchmark: BenchmarkSpec) -> ExpertPolicy:
        """Build it. The scripts are imported with the first episode."""
        if benchmark.name != "metaworld":
            raise UsageError(f"--policy.type=expert: {benchmark.name} has no scripted experts; metaworld has.")
        return cls()

    @property
    def spec(self) -> PolicySpec:
        """It looks at the 39 numbers of the raw state at every step."""
        return PolicySpec(
            observation_keys=(_STATE,), action_size=4, action_steps=1, fingerprint="metaworld-expert-1"
        )

    def begin(self, task: Task) -> Memory:
        """Return a fresh script for the task: some keep state."""
        # Scripts warn whenever a response exceeds 1; the simulator clips it, as for any policy.
        warnings.filterwarnings("ignore", message=r"Constant\(s\) may be too high")
        scripts = importlib.import_module("metaworld.policies").ENV_POLICY_MAP
        return scripts[task.name]()

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        """Ask each episode's script."""
        chunks = [
            np.asarray(script.get_action(window[-1][_STATE]))[None]
            for window, script in zip(windows, memories, strict=True)
        ]
        return Actions(chunks, memories)
