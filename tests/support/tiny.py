"""A benchmark small enough to run thousands of episodes in a test, and able to misbehave on request.

Its physics depend on everything they may depend on (seed, index, task, actions) and on nothing else. `mischief`
is an execution setting: it says how often what goes wrong where, without changing what a good run yields.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.protocol import Benchmark, Simulator
from proctor.config.settings import EXECUTION, EnvSettings
from proctor.types import NO_LOOK, BenchmarkSpec, Episode, Feature, Look, Observation, Outcome, Task

STATE, IMAGE = "observation.state", "observation.image"


@dataclass(frozen=True, kw_only=True)
class TinySettings(EnvSettings):
    max_steps: int = 40
    initial_states: int | None = None
    delay: Annotated[float, EXECUTION, "seconds a step takes"] = 0.0
    mischief: Annotated[str, EXECUTION, "kind:task:index:step, separated by spaces; kind! happens once only"] = ""
    scratch: Annotated[str, EXECUTION, "where one-time mischief is remembered"] = ""


class Tiny(Benchmark):
    Settings = TinySettings
    fps = 30
    settings: TinySettings

    @property
    def spec(self) -> BenchmarkSpec:
        return BenchmarkSpec(
            name="tiny",
            features={STATE: Feature((3,), "float64"), IMAGE: Feature((8, 6, 3), "uint8", drawn=True)},
            action_size=2,
        )

    def tasks(self) -> Sequence[Task]:
        return [
            Task(name, 0, name, f"do {name}", self.settings.max_steps, self.settings.initial_states)
            for name in self.settings.task.split(",")
        ]

    def distributions(self) -> Sequence[str]:
        return ("numpy",)

    def make_simulator(self, task: Task) -> Simulator:
        simulator = TinySimulator(task, self.settings)
        simulator.misbehave("build", -1)
        return simulator


class TinySimulator:
    def __init__(self, task: Task, settings: TinySettings) -> None:
        self._settings, self._task = settings, task
        self._bias = float(sum(task.name.encode()) % 7) / 7
        self._episode: Episode | None = None
        self._look: Look = NO_LOOK
        self._poison = False

    def reset(self, episode: Episode, look: Look) -> None:
        self._episode, self._look, self._step, self._poison = episode, look, 0, False
        self._rng = np.random.default_rng([episode.seed, episode.index])
        self._state = self._rng.normal(size=3)
        self.misbehave("reset", 0)

    def layout(self) -> dict[str, float]:
        return {"x": self._state[0], "y": self._state[1]}

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        if self._settings.delay:
            time.sleep(self._settings.delay)
        self._step += 1
        self.misbehave("step", self._step)
        push = np.r_[np.asarray(action, np.float64), self._bias]
        self._state = 0.9 * self._state + 0.1 * np.tanh(push) + 0.05 * self._rng.normal(size=3)
        self._look = look
        success = bool(self._state[0] > 0.35)
        return Outcome(float(self._state.sum()), success, False, success, {"height": float(self._state[2])})

    def observe(self) -> Observation:
        self.misbehave("observe", self._step)
        state = np.full(3, np.nan) if self._poison else self._state.copy()
        return {key: self.render() if key == IMAGE else state for key in self._look}

    def render(self) -> NDArray[np.uint8]:
        ramp = np.arange(8 * 6 * 3, dtype=np.float64).reshape(8, 6, 3)
        image: NDArray[np.uint8] = ((np.sin(ramp * self._state.sum()) + 1) * 127).astype(np.uint8)
        return image

    def close(self) -> None:
        pass

    def misbehave(self, phase: str, step: int) -> None:
        index = self._episode.index if self._episode is not None else -1
        for number, entry in enumerate(self._settings.mischief.split()):
            kind, task, wanted_index, wanted_step = entry.split(":")
            where, _, deed = kind.rstrip("!").partition(".")
            here = where == phase and task in ("*", self._task.name)
            here = here and wanted_index in ("*", str(index)) and wanted_step in ("*", str(step))
            if here and (not kind.endswith("!") or self._first_time(number)):
                self._do(deed)

    def _first_time(self, number: int) -> bool:
        try:
            (Path(self._settings.scratch) / f"mischief-{number}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _do(self, deed: str) -> None:
        match deed:
            case "raise":
                raise RuntimeError("the simulator fell over")
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "regicide":
                os.kill(os.getppid(), signal.SIGKILL)  # the coordinator, which takes this process along
                time.sleep(60)
            case "segfault":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "exit":
                os._exit(7)
            case "twin":
                os.fork()  # and both go on
            case "offspring":
                if os.fork() == 0:
                    raise RuntimeError("a child that fails")
            case "surrogate":
                raise RuntimeError("no file caf\udce9")
            case "sysexit":
                sys.exit(0)
            case "hang":
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
                time.sleep(3600)
            case "nan":
                self._poison = True
            case "orphan":
                if os.fork() == 0:
                    time.sleep(3600)
            case "nothing":
                pass
            case "print":
                print("a simulator says hello", flush=True)  # noqa: T201
            case _:
                raise AssertionError(f"unknown mischief {deed}")
