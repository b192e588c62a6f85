"""Our side of a live comparison: our simulator, given their actions, and our policy, given their observations.

So every stage is compared on the same input. One fault is then one difference, and does not hide the next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.processors import make_simulator, processors_for
from proctor.benchmarks.protocol import Benchmark, Simulator, layout_of
from proctor.diff.harness import Arrays, Moment
from proctor.engine.policy_session import PolicySession, answer, looked_at
from proctor.engine.randomness import episode_generator
from proctor.policies.protocol import Policy
from proctor.types import BenchmarkSpec, Episode, Task

Execute = Callable[[NDArray[Any], Arrays], NDArray[Any]]
"""What is executed for an action, in view of the numbers that the simulator showed last."""


@dataclass(frozen=True)
class Circumstances:
    """How an episode is played other than our plan says.

    Attributes:
        seed: in place of the episode's own.
        settling: an action that is executed so often before the episode.
        repeats: how often every action is executed.
        sums: whether the rewards of repeated actions are added up; else the last counts.
        execute: what is executed for an action.
    """

    seed: int | None = None
    settling: tuple[NDArray[Any], int] | None = None
    repeats: int = 1
    sums: bool = False
    execute: Execute = field(default=lambda action, seen: action)


AS_PLANNED = Circumstances()


class OurSimulators:
    """The simulator of a run's task, one at a time: two that draw in a process disturb each other.

    Args:
        benchmark: with the run's settings.
        task: the task.
        processors: the names of those that the policy wants; `None`: the benchmark's own.
    """

    def __init__(self, benchmark: Benchmark, task: Task, processors: Sequence[str] | None) -> None:
        self._benchmark, self._task, self._processors = benchmark, task, processors
        self._open: tuple[Any, Simulator] | None = None

    def play(
        self,
        episode: Episode,
        actions: Sequence[NDArray[Any]],
        look: frozenset[str],
        circumstances: Circumstances = AS_PLANNED,
        settings: Any = None,
    ) -> Iterator[tuple[Moment, dict[str, float]]]:
        """Play actions from an episode's beginning; yield every state with where it began, until it ends.

        Args:
            episode: the episode.
            actions: the actions.
            look: what is observed after every step.
            circumstances: what is done otherwise.
            settings: other settings of the benchmark.
        """
        how = circumstances
        if how.seed is not None:
            episode = dataclasses.replace(episode, seed=how.seed)
        simulator = self._simulator(settings or self._benchmark.settings)
        simulator.reset(episode, look)
        layout = layout_of(simulator)
        for _ in range(how.settling[1] if how.settling else 0):
            assert how.settling is not None
            simulator.step(how.settling[0].copy(), look)
        seen = simulator.observe() if look else {}
        yield Moment({key: np.asarray(array).copy() for key, array in seen.items()}), layout
        for step, action in enumerate(actions):
            executed = how.execute(action, seen)
            rewards = []
            for _ in range(how.repeats):
                outcome = simulator.step(executed.copy(), look)
                rewards.append(float(outcome.reward))
                if outcome.terminated or outcome.truncated:
                    break
            seen = simulator.observe() if look else {}
            limited = step + 1 >= self._task.max_steps
            yield (
                Moment(
                    {key: np.asarray(array).copy() for key, array in seen.items()},
                    sum(rewards) if how.sums else rewards[-1],
                    bool(outcome.terminated),
                    bool(outcome.truncated) or limited,
                    outcome.success,
                ),
                layout,
            )
            if outcome.terminated or outcome.truncated or limited:
                return

    def resized(self, height: int, width: int) -> Any:
        """Return the benchmark's settings for pictures of another size; `None` if it has no such settings."""
        names = {one.name for one in dataclasses.fields(self._benchmark.settings)}
        if not {"observation_height", "observation_width"} <= names:
            return None
        return dataclasses.replace(self._benchmark.settings, observation_height=height, observation_width=width)

    def close(self) -> None:
        """Free the simulator that is open."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _simulator(self, settings: Any) -> Simulator:
        if self._open is None or self._open[0] != settings:
            self.close()
            benchmark = type(self._benchmark)(settings)
            steps = processors_for(benchmark, self._processors)
            self._open = settings, make_simulator(benchmark, self._task, steps)
        return self._open[1]


class OurPolicy:
    """Our policy on another harness's observations; of a LeRobot policy, stage by stage.

    Args:
        policy: the policy.
        spec: what the benchmark gives it.
    """

    def __init__(self, policy: Policy, spec: BenchmarkSpec) -> None:
        self.policy, self._spec = policy, spec
        self.keys = {spec.sources.get(key, key): key for key in looked_at(policy.spec, spec)}
        """What it looks at: the simulator's names, and its own."""
        self.stages: Any = None
        if any(kind.__name__ == "LeRobotPolicy" for kind in type(policy).__mro__):
            from proctor.policies.lerobot.policy import LeRobotPolicy
            from proctor.policies.lerobot.stages import PolicyStages

            assert isinstance(policy, LeRobotPolicy)
            self.stages = PolicyStages(policy)

    def begin(self, episode: Episode) -> None:
        """Begin an episode."""
        self._session = PolicySession(self.policy, episode)
        if self.stages is not None:
            self.stages.begin(episode_generator(episode))

    def shown(self, seen: Mapping[str, NDArray[Any]]) -> Arrays | None:
        """Return an observation as our policy takes it; `None` if something is missing or of another kind."""
        found = {}
        for source, key in self.keys.items():
            feature, array = self._spec.every[key], seen.get(source)
            if array is None or array.ndim != len(feature.shape):
                return None
            if feature.drawn and array.dtype != np.uint8:
                return None
            found[key] = array.astype(feature.dtype)
        return found

    def ask(self, window: Sequence[Arrays], prompt: str) -> NDArray[Any]:
        """Return our chunk for a window of observations: the robot's actions."""
        self._session.prompt = prompt
        return answer(self.policy, self._spec.action_size, [self._session], [window])[0]


@contextmanager
def closing(simulators: OurSimulators) -> Iterator[OurSimulators]:
    """Close the simulator in the end."""
    try:
        yield simulators
    finally:
        simulators.close()
