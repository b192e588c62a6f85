"""A simulator that keeps a trace of all inputs and outputs, and checks each of them on its own."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.protocol import Simulator
from proctor.conformance.trace import ArrayDigest, StepResult, Trace
from proctor.engine.policy_session import all_finite
from proctor.types import NO_LOOK, BenchmarkSpec, Episode, Feature, Look, Observation, Outcome

_FUNCTIONS = (
    ("mujoco", "mjr_render"),
    ("mujoco._render", "mjr_render"),
    ("pygame.surfarray", "array3d"),
    ("pygame.surfarray", "pixels3d"),
)
"""Module and name; whoever draws calls exactly one of them a frame, through its module."""


class DrawingCounter:
    """Counts calls of drawing functions, from the moment their library is imported."""

    def __init__(self) -> None:
        self.calls = 0
        self._watched: set[tuple[str, str]] = set()

    def watch(self) -> None:
        """Watch every known library that has been imported by now."""
        for place in _FUNCTIONS:
            module = sys.modules.get(place[0])
            function = getattr(module, place[1], None)
            if function is not None and place not in self._watched:
                setattr(module, place[1], self._counting(function))
                self._watched.add(place)

    @property
    def watching(self) -> bool:
        """Whether any drawing could have been counted."""
        return bool(self._watched)

    def _counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def counted(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            return function(*arguments, **named)

        return counted


_NUMBERS = (int, float, np.integer, np.floating)


class HandedArray(NamedTuple):
    """An array that was given away, and what it looked like then."""

    key: str
    step: int
    array: NDArray[Any]
    then: ArrayDigest


class TracingSimulator:
    """Wraps a simulator; itself one, so that the engine's own loop can drive it."""

    def __init__(self, simulator: Simulator, spec: BenchmarkSpec, counter: DrawingCounter) -> None:
        self._simulator, self._spec, self._counter = simulator, spec, counter
        counter.watch()  # its library is there now
        self.trace = Trace()
        self.doing = ""
        self._look: Look = NO_LOOK
        self._step = 0
        self._held: list[HandedArray] = []
        self._reports_success = True

    def reset(self, episode: Episode, look: Look) -> None:
        """Start an episode; the trace goes on if there was one."""
        self.doing, self._look, self._step = "reset", look, 0
        self._reports_success = episode.task.reports_success
        self._simulator.reset(episode, look)

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        """Step, and see what it yields and what it takes."""
        self.doing, self._look, self._step = f"step {self._step + 1}", look, self._step + 1
        before, drawn, begun = action.tobytes(), self._counter.calls, time.process_time()
        outcome = self._simulator.step(action, look)
        if not look:
            self.trace.blind_steps += 1
            self.trace.blind_draws += self._counter.calls - drawn
            self.trace.blind_seconds += time.process_time() - begun
        else:
            self.trace.look_draws += self._counter.calls - drawn
        if action.tobytes() != before:
            self.trace.blame("actions", f"{self.doing} changed the action that it was given")
        self._take(outcome)
        return outcome

    def observe(self) -> Observation:
        """Observe, and compare what comes with the spec."""
        self.doing = f"observe after step {self._step}"
        drawn, begun = self._counter.calls, time.process_time()
        observation = self._simulator.observe()
        self.trace.looks += 1
        self.trace.look_draws += self._counter.calls - drawn
        self.trace.look_seconds += time.process_time() - begun
        self._check_keys(observation)
        arrays = self.trace.arrays.setdefault(str(self._step), {})
        for key in sorted(self._look):
            array = observation.get(key)
            feature = self._spec.every.get(key)
            if isinstance(array, np.ndarray):
                arrays[key] = ArrayDigest.of(array)
                self._held.append(HandedArray(key, self._step, array, arrays[key]))
            if feature is not None:
                self._check_array(key, array, feature)
        return observation

    def render(self) -> NDArray[np.uint8]:
        """Ask for a frame."""
        self.doing = f"render after step {self._step}"
        frame = self._simulator.render()
        where = f"step {self._step}: render() gave"
        if not isinstance(frame, np.ndarray):
            self.trace.blame("frames", f"{where} {type(frame).__name__} and no array")
        elif frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
            self.trace.blame("frames", f"{where} {frame.dtype}{frame.shape}, not uint8(height, width, 3)")
        return frame

    def close(self) -> None:
        """Close it."""
        self.doing = "close"
        self._simulator.close()

    def settle(self, before: list[HandedArray]) -> list[HandedArray]:
        """Look whether arrays that were given away have been changed since, here or in the play before.

        Returns:
            The arrays of this play, for the one that follows.
        """
        for held, whose in ((self._held, ""), (before, " of the episode before")):
            for key, step, array, then in held:
                if ArrayDigest.of(array).digest != then.digest:
                    self.trace.blame("arrays", f"{key} of step {step}{whose} was changed later")
        return self._held

    def _take(self, outcome: Outcome) -> None:
        where = self.doing
        if not isinstance(outcome.reward, _NUMBERS) or not np.isfinite(outcome.reward):
            self.trace.blame("outcomes", f"{where}: reward is {outcome.reward!r}, not a finite number")
        for name in ("terminated", "truncated", "success"):
            value = getattr(outcome, name)
            untold = name == "success" and value is None
            if not untold and not isinstance(value, (bool, np.bool_)):
                self.trace.blame("outcomes", f"{where}: {name} is {value!r}, not True or False")
        if outcome.success is not None and not self._reports_success:
            self.trace.blame("outcomes", f"{where}: success is {outcome.success!r}, of a task that reports none")
        metrics = outcome.metrics if isinstance(outcome.metrics, Mapping) else {}
        if metrics is not outcome.metrics:
            self.trace.blame("outcomes", f"{where}: metrics are no dict but {type(outcome.metrics).__name__}")
        for name, value in metrics.items():
            if not isinstance(name, str) or not isinstance(value, (*_NUMBERS, bool, np.bool_)):
                self.trace.blame("outcomes", f"{where}: metric {name!r} is {value!r}, not a number")
            elif not np.isfinite(value):
                self.trace.blame("outcomes", f"{where}: metric {name!r} is {value}")
        self.trace.success |= bool(outcome.success)
        self.trace.results.append(
            StepResult(
                _number(outcome.reward),
                bool(outcome.terminated),
                bool(outcome.truncated),
                bool(outcome.success),
                {str(name): _number(value) for name, value in metrics.items()},
            )
        )

    def _check_keys(self, observation: Observation) -> None:
        given = set(observation) - {"task"}
        for what, keys in (
            ("did not give", self._look - given),
            ("gave, though nobody looked,", given - self._look),
        ):
            if keys:
                self.trace.blame("observations", f"{self.doing} {what} {', '.join(sorted(keys))}")

    def _check_array(self, key: str, array: Any, feature: Feature) -> None:
        if not isinstance(array, np.ndarray):
            if array is not None:
                self.trace.blame("observations", f"{self.doing}: {key} is {type(array).__name__}, no array")
            return
        if array.shape != feature.shape or array.dtype != np.dtype(feature.dtype):
            self.trace.blame(
                "observations",
                f"{self.doing}: {key} is {array.dtype}{array.shape}, the spec says {feature.dtype}{feature.shape}",
            )
        elif array.dtype.kind == "f" and not all_finite(array):
            self.trace.blame("observations", f"{self.doing}: {key} has NaN or infinity")


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
