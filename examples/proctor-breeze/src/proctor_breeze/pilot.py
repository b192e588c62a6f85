"""A scripted policy for Breeze. It sees the whole world, as no learned policy does."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from proctor import Actions, BenchmarkSpec, MoreThan, Policy, PolicySettings, PolicySpec, Task, UsageError
from proctor_breeze.benchmark import WORLD


@dataclass(frozen=True, kw_only=True)
class PilotSettings(PolicySettings):
    """The flags `--policy.*` of the pilot."""

    gain: Annotated[float, MoreThan(0), "how hard it steers"] = 4.0


class BreezePilot(Policy):
    """Flies to the flag, or behind the puck and through it."""

    Settings = PilotSettings
    light = True  # costs nothing, so it may run inside the workers

    def __init__(self, gain: float) -> None:
        self._gain = gain

    @classmethod
    def from_settings(cls, settings: Any, benchmark: BenchmarkSpec) -> "BreezePilot":
        """Build it, for Breeze only."""
        if benchmark.name != "breeze":
            raise UsageError(f"--policy.type=breeze-pilot flies breeze, not {benchmark.name}.")
        return cls(settings.gain)

    @property
    def spec(self) -> PolicySpec:
        """It looks at the world at every step; the fingerprint changes whenever its behaviour does."""
        fingerprint = f"breeze-pilot-1-{self._gain}"
        return PolicySpec(observation_keys=(WORLD,), action_size=2, action_steps=1, fingerprint=fingerprint)

    def begin(self, task: Task) -> str:
        """Remember what the episode is about."""
        return task.group

    def act(
        self, windows: Sequence[Any], memories: Sequence[str], generators: Sequence[np.random.Generator]
    ) -> Actions:
        """Steer each episode by its newest observation."""
        chunks = [
            self._steer(window[-1][WORLD], group)[None] for window, group in zip(windows, memories, strict=True)
        ]
        return Actions(chunks, memories)

    def _steer(self, world: NDArray[np.float64], group: str) -> NDArray[np.float64]:
        disc, velocity, puck, flag = world.reshape(4, 2)
        aim = _push_from(disc, puck, flag) if group == "push" else flag
        return np.clip(self._gain * (aim - disc) - velocity, -1, 1)


def _push_from(disc: NDArray[Any], puck: NDArray[Any], flag: NDArray[Any]) -> NDArray[Any]:
    """Return where to fly: around the puck, behind it, or through it towards the flag."""
    way = (flag - puck) / (np.linalg.norm(flag - puck) + 1e-9)
    side = np.array([-way[1], way[0]])
    along, across = (disc - puck) @ way, (disc - puck) @ side
    if along > -0.1:
        aim = puck - 0.25 * way + 0.3 * side * np.copysign(1, across)
    else:
        aim = puck + 0.1 * way if abs(across) < 0.06 else puck - 0.25 * way
    return np.asarray(aim)
