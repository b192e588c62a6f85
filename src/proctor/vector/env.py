"""One task as a `gymnasium.Env`, and how it is made: here, or in a worker process.

Making it touches no GL and no simulator: the first reset does.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from proctor.benchmarks.processors import make_simulator
from proctor.benchmarks.protocol import Benchmark, Simulator
from proctor.benchmarks.rendering import GlContext, choose_gl_here
from proctor.config.registry import load_object
from proctor.config.settings import MOST_EPISODES
from proctor.engine.rollout import check_array
from proctor.errors import ProctorError, SimulatorError, UsageError
from proctor.files import clip
from proctor.types import BenchmarkSpec, Episode, Look, Outcome, Task
from proctor.vector.spaces import action_space, arranged, checked_action, observation_space, places

NEW_ROLLOUT = "lerobot_new_rollout"
"""LeRobot's rollout resets with this option. An environment whose episode is over then stands still: that loop
steps all of them until the last is done, and reads nothing of those that are."""

_TURNS = threading.RLock()
"""Simulators of one process are called one at a time, from whatever threads: some keep state that all of them
share, as LIBERO does in NumPy's global generator."""

Step = tuple[dict[str, Any], float, bool, bool, dict[str, Any]]


class SimulatorEnv(gymnasium.Env):  # type: ignore[misc]
    """A benchmark's task, stepped and observed in full at every step.

    Args:
        benchmark: builds the simulator, at the first reset.
        spec: what is seen behind the benchmark's own processors, known beforehand.
        task: what to play.
        place: which of the environments that share the task's episodes this is.
        stride: how many those are. Environment i of n plays episodes i, i + n, i + 2n, ...
    """

    render_mode = "rgb_array"

    def __init__(
        self, benchmark: Benchmark, spec: BenchmarkSpec, task: Task, place: int = 0, stride: int = 1
    ) -> None:
        self.metadata = metadata_of(benchmark)
        self.observation_space, self.action_space = observation_space(spec), action_space(spec)
        self.task, self.task_description, self.task_id = task.name, task.prompt, task.task_id
        self._max_episode_steps = task.max_steps  # by this name LeRobot asks for it
        self._benchmark, self._spec, self._task = benchmark, spec, task
        self._look: Look = frozenset(spec.features)
        self._where = places(spec.features)
        self._place, self._stride = place, stride
        self._count = EpisodeCount(place, stride)
        self._gl = GlContext()
        self._simulator: Simulator | None = None
        self._steps, self._success, self._over = 0, False, True
        self._stands_still = False
        self._last: Step | None = None

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode; see `EpisodeCount` for which. `options["episode_index"]` chooses another.

        A vector environment's automatic reset gives no options at all, one that its user asks for always some.
        """
        if self._last is not None and seed is None and options is None:
            return self._last[0], self._last[4]
        options = options or {}
        super().reset(seed=None if seed is None else int(seed))
        wanted = self._wanted_index(options)
        index, episode_seed = self._count.next(
            None if seed is None else int(seed), wanted, lambda: int(self.np_random.integers(2**31))
        )
        self._last, self._stands_still = None, bool(options.get(NEW_ROLLOUT))
        self._over = True  # should this reset fail, no step may follow
        simulator = self._open()
        with self._calling("reset"):
            simulator.reset(Episode(self._task, index, episode_seed), self._look)
            observation = self._observe(simulator)
        self._steps, self._success, self._over = 0, False, False
        return observation, {**self._info(), "episode_index": index, "seed": episode_seed}

    def step(self, action: NDArray[Any]) -> Step:
        """Apply one action and look at everything."""
        action = checked_action(action, self.action_space)
        if self._last is not None:
            return self._last
        if self._simulator is None or self._over:
            raise ResetNeeded(f"{self.task}: no episode is running. Call reset() first.")
        with self._calling("step"):
            outcome = self._simulator.step(action, self._look)
            observation = self._observe(self._simulator)
        self._steps += 1
        self._success = self._success or bool(outcome.success)
        terminated = bool(outcome.terminated)
        truncated = bool(outcome.truncated or (self._steps >= self._task.max_steps and not terminated))
        self._over = terminated or truncated
        step = (observation, float(outcome.reward), terminated, truncated, self._info(outcome))
        if self._over and self._stands_still:
            self._last = (observation, 0.0, *step[2:])
        return step

    def render(self) -> NDArray[np.uint8]:
        """Return the current state as a frame (height, width, 3)."""
        if self._simulator is None:
            raise ResetNeeded(f"{self.task}: there is nothing to draw yet. Call reset() first.")
        with self._calling("render"):
            return np.asarray(self._simulator.render())

    def close(self) -> None:
        """Free the simulator. A later reset builds another."""
        simulator, self._simulator = self._simulator, None
        self._last, self._over = None, True
        if simulator is not None:
            context, self._gl = self._gl, GlContext()
            with _TURNS, context:
                simulator.close()

    def _open(self) -> Simulator:
        if self._simulator is None:
            with _TURNS:
                choose_gl_here(self._benchmark, self._spec)
                with self._calling("build"):
                    steps = self._benchmark.get_env_processors()
                    self._simulator = make_simulator(self._benchmark, self._task, steps)
        return self._simulator

    @contextlib.contextmanager
    def _calling(self, what: str) -> Iterator[None]:
        """Call the simulator in its GL context. One that raises is dropped: nobody knows what state it is in."""
        try:
            with _TURNS, self._gl:
                yield
        except BaseException as error:
            with contextlib.suppress(Exception):
                self.close()
            if isinstance(error, ProctorError) or not isinstance(error, Exception):
                raise
            # As plain text: it may have to cross to another process, which knows less than this one.
            raise SimulatorError(f"{self.task}: {what} raised {type(error).__name__}: {error}") from error

    def _observe(self, simulator: Simulator) -> dict[str, Any]:
        seen = simulator.observe()
        for key, feature in self._spec.features.items():
            check_array(key, seen.get(key), feature.shape, np.dtype(feature.dtype))
        return arranged(seen, self._where)

    def _info(self, outcome: Outcome | None = None) -> dict[str, Any]:
        info: dict[str, Any] = {"task": self.task, "is_success": self._success}
        if outcome is not None:
            info["metrics"] = {name: float(value) for name, value in outcome.metrics.items()}
            if self._over:
                info["final_info"] = {"task": self.task, "is_success": self._success}
        return info

    def _wanted_index(self, options: Mapping[str, Any]) -> int | None:
        asked = options.get("episode_index")
        if asked is None:
            return None
        spread = (
            range(asked, asked + self._stride) if isinstance(asked, int | np.integer) else asked
        )  # as a seed is
        if not isinstance(spread, Sequence | np.ndarray) or len(spread) != self._stride:
            raise UsageError(f"options['episode_index']={asked}: must be a number, or one for each environment.")
        index = spread[self._place]
        if not isinstance(index, int | np.integer) or not 0 <= index < MOST_EPISODES:
            raise UsageError(
                f"options['episode_index']={clip(asked)}: must be 0 or more, up to {MOST_EPISODES - 1}."
            )
        return int(index)


def metadata_of(benchmark: Benchmark) -> dict[str, Any]:
    """Return a benchmark's metadata as Gymnasium has it."""
    return {"render_modes": ["rgb_array"], "render_fps": benchmark.fps}


class EpisodeCount:
    """Counts the episodes of environment `place` of `stride`.

    The first seed decides where episode 0 is. A seed that comes later means the episode that has it, so the same
    seed gives the same episode again; one from before the beginning begins a new count.
    """

    def __init__(self, place: int = 0, stride: int = 1) -> None:
        self._place, self._stride = place, stride
        self._first: int | None = None
        self._index: int | None = None

    def next(self, seed: int | None, index: int | None, draw: Callable[[], int]) -> tuple[int, int]:
        """Return index and seed of the episode that a reset begins; without a first seed, `draw` gives one."""
        if seed is not None:
            if index is not None:
                self._first = seed - index
            elif self._first is None or seed < self._first + self._place:
                self._first = seed - self._place
            index = seed - self._first
        else:
            if self._first is None:
                self._first = draw()
            if index is None:
                index = self._place if self._index is None else self._index + self._stride
        self._index = index
        return index, self._first + index


@dataclass(frozen=True)
class EnvFactory:
    """Makes environment `place` of `stride`. `environment` is what a worker adds to its environment variables."""

    benchmark: str
    settings: dict[str, Any]
    spec: BenchmarkSpec
    task: Task
    place: int
    stride: int
    environment: dict[str, str] = field(default_factory=dict)
    maker: int = field(default_factory=os.getpid)

    def __call__(self) -> SimulatorEnv:
        """Make the environment, in a worker after becoming a good one."""
        if os.getpid() != self.maker:
            self._become_worker()
        return SimulatorEnv(self.load(), self.spec, self.task, self.place, self.stride)

    def load(self) -> Benchmark:
        """Return the benchmark."""
        kind: type[Benchmark] = load_object(self.benchmark)
        return kind(kind.Settings(**self.settings))

    def _become_worker(self) -> None:
        os.environ.update(self.environment)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever steps decides what Ctrl-C means
        threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # A worker that waits for its parent notices its end; one whose simulator hangs would outlive it.
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)
