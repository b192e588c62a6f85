"""The cheapest simulator and policy there can be: whatever time is left is the engine's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.protocol import Benchmark, Simulator
from proctor.config.settings import EnvSettings
from proctor.policies.protocol import Actions, Memory, Policy, PolicySpec, Window
from proctor.types import BenchmarkSpec, Episode, Feature, Look, Observation, Outcome, Task

KEY = "observation.state"
SIZE = 16
ACTION_SIZE = 4
LENGTH = 1000


class World:
    """The physics that both sides step."""

    def __init__(self) -> None:
        self.state = np.zeros(SIZE, np.float32)

    def reset(self, seed: int) -> None:
        self.state = np.full(SIZE, seed % 97, np.float32)

    def step(self, action: NDArray[Any]) -> float:
        self.state = self.state * np.float32(0.99)
        self.state[:ACTION_SIZE] += action
        return float(self.state[0])


@dataclass(frozen=True, kw_only=True)
class TrivialSettings(EnvSettings):
    length: int = LENGTH


class Trivial(Benchmark):
    Settings = TrivialSettings
    settings: TrivialSettings

    @property
    def spec(self) -> BenchmarkSpec:
        return BenchmarkSpec("trivial", {KEY: Feature((SIZE,), "float32")}, action_size=ACTION_SIZE)

    def tasks(self) -> Sequence[Task]:
        return [Task("trivial", 0, "trivial", "", self.settings.length)]

    def make_simulator(self, task: Task) -> Simulator:
        return TrivialSimulator()


class TrivialSimulator:
    def __init__(self) -> None:
        self._world = World()

    def reset(self, episode: Episode, look: Look) -> None:
        self._world.reset(episode.seed)

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        return Outcome(self._world.step(action), False, False, False)

    def observe(self) -> Observation:
        return {KEY: self._world.state.copy()}

    def render(self) -> NDArray[np.uint8]:
        return np.zeros((8, 8, 3), np.uint8)

    def close(self) -> None:
        pass


def decide(states: NDArray[np.float32]) -> NDArray[np.float32]:
    """The policy that both sides run, on a batch of states."""
    return np.tanh(states[:, :ACTION_SIZE])


class TrivialPolicy(Policy):
    def __init__(self, chunk: int = 1, batch: int = 64) -> None:
        self._chunk, self._batch = chunk, batch

    @property
    def spec(self) -> PolicySpec:
        return PolicySpec((KEY,), ACTION_SIZE, action_steps=self._chunk, batch=self._batch, fingerprint="trivial")

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        actions = decide(np.array([window[-1][KEY] for window in windows]))
        return Actions(actions[:, None].repeat(self._chunk, 1), memories)  # type: ignore[arg-type]


class TrivialEnv(gymnasium.Env):  # type: ignore[misc]
    """The same world behind Gymnasium's interface, for its `AsyncVectorEnv`."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (SIZE,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (ACTION_SIZE,), np.float32)

    def __init__(self) -> None:
        self._world = World()
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[np.float32], dict[str, Any]]:
        self._world.reset(seed or 0)
        self._steps = 0
        return self._world.state.copy(), {}

    def step(self, action: NDArray[Any]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        reward = self._world.step(action)
        self._steps += 1
        return self._world.state.copy(), reward, False, self._steps >= LENGTH, {}
