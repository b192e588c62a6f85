"""Benchmarks that are broken on purpose, in one way each."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor import BenchmarkSpec, Episode, Look, Observation, Outcome, Simulator, Task
from sound_benchmark import IMAGE, STATE, Sound, SoundSimulator

_GENERATOR = np.random.default_rng(0)


class IgnoresItsSeed(Sound):
    class simulator(SoundSimulator):
        def reset(self, episode: Episode, look: Look) -> None:
            super().reset(episode, look)
            self.state = np.random.default_rng().normal(size=3)


class SharesAGenerator(Sound):
    class simulator(SoundSimulator):
        def reset(self, episode: Episode, look: Look) -> None:
            super().reset(episode, look)
            self.state = self.state + _GENERATOR.normal(size=3)


class RemembersTheLastEpisode(Sound):
    class simulator(SoundSimulator):
        state = np.zeros(3)

        def reset(self, episode: Episode, look: Look) -> None:
            before = self.state
            super().reset(episode, look)
            self.state = self.state + 1e-9 * before


class ShowsAnOldPicture(Sound):
    """Draws the state of the step before, if that was not looked at."""

    class simulator(SoundSimulator):
        def reset(self, episode: Episode, look: Look) -> None:
            super().reset(episode, look)
            self.shown = self.state

        def step(self, action: NDArray[Any], look: Look) -> Outcome:
            before, seen = self.state, bool(self.look)
            outcome = super().step(action, look)
            self.shown = self.state if seen else before
            return outcome

        def draw(self) -> NDArray[np.uint8]:
            state, self.state = self.state, self.shown
            image = super().draw()
            self.state = state
            return image


class DrawingMovesTheWorld(Sound):
    class simulator(SoundSimulator):
        def observe(self) -> Observation:
            observation = super().observe()
            if IMAGE in observation:
                self.random.normal()
            return observation


class GivesFloat32(Sound):
    class simulator(SoundSimulator):
        def observe(self) -> Observation:
            return {key: a.astype(np.float32) if key == STATE else a for key, a in super().observe().items()}


class GivesAnotherShape(Sound):
    class simulator(SoundSimulator):
        def observe(self) -> Observation:
            return {key: a.transpose(1, 0, 2) if key == IMAGE else a for key, a in super().observe().items()}


class GivesNaN(Sound):
    class simulator(SoundSimulator):
        def observe(self) -> Observation:
            return {key: a if key == IMAGE else np.append(a[:2], np.nan) for key, a in super().observe().items()}


class GivesEverything(Sound):
    class simulator(SoundSimulator):
        def observe(self) -> Observation:
            self.look = frozenset({STATE, IMAGE})
            return super().observe()


class GivesItsBuffer(Sound):
    class simulator(SoundSimulator):
        buffer = np.zeros(3)

        def observe(self) -> Observation:
            self.buffer[:] = self.state
            return {key: a if key == IMAGE else self.buffer for key, a in super().observe().items()}


class ChangesTheAction(Sound):
    class simulator(SoundSimulator):
        def step(self, action: NDArray[Any], look: Look) -> Outcome:
            np.clip(action, -0.5, 0.5, out=action)
            return super().step(action, look)


class OnlySaysThatItClips(Sound):
    @property
    def spec(self) -> BenchmarkSpec:
        return replace(super().spec, clips_actions=True)


class SaysZeroForFalse(Sound):
    class simulator(SoundSimulator):
        def step(self, action: NDArray[Any], look: Look) -> Outcome:
            no: Any = 0
            return super().step(action, look)._replace(success=no)


class HasWordsForMetrics(Sound):
    class simulator(SoundSimulator):
        def step(self, action: NDArray[Any], look: Look) -> Outcome:
            metrics: Any = {"phase": "reaching"}
            return super().step(action, look)._replace(metrics=metrics)


class LeaksAFile(Sound):
    class simulator(SoundSimulator):
        def __init__(self, task: Task) -> None:
            super().__init__(task)
            os.open(os.devnull, os.O_RDONLY)


class LeaksAThread(Sound):
    class simulator(SoundSimulator):
        def __init__(self, task: Task) -> None:
            super().__init__(task)
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()


class LeaksAProcess(Sound):
    class simulator(SoundSimulator):
        def __init__(self, task: Task) -> None:
            super().__init__(task)
            self.helper = subprocess.Popen(["sleep", "600"])


class StumblesAfterSuccess(Sound):
    class simulator(SoundSimulator):
        def reset(self, episode: Episode, look: Look) -> None:
            super().reset(episode, look)
            self.state = self.state + (1e-6 if self.succeeded else 0.0)


class StumblesAfterTheEnd(Sound):
    class simulator(SoundSimulator):
        def reset(self, episode: Episode, look: Look) -> None:
            if self.ended:
                raise RuntimeError("the episode is over")
            super().reset(episode, look)


class FilmsAtRandom(Sound):
    class simulator(SoundSimulator):
        def render(self) -> NDArray[np.uint8]:
            self.random.normal()
            return super().render()


class FilmsInFloats(Sound):
    class simulator(SoundSimulator):
        def render(self) -> NDArray[Any]:
            return super().render() / 255.0


class MixesUpTasks(Sound):
    last = ""

    def make_simulator(self, task: Task) -> Simulator:
        simulator = MixedUp(task)
        simulator.after_another = MixesUpTasks.last not in ("", task.name)
        MixesUpTasks.last = task.name
        return simulator


class MixedUp(SoundSimulator):
    after_another = False

    def draw(self) -> NDArray[np.uint8]:
        return super().draw() + np.uint8(self.after_another)


class CannotBeBuiltTwice(Sound):
    built = 0

    def make_simulator(self, task: Task) -> Simulator:
        CannotBeBuiltTwice.built += 1
        if CannotBeBuiltTwice.built > 1:
            raise RuntimeError("only one window can be open")
        return super().make_simulator(task)


class OtherWordsEveryTime(Sound):
    def tasks(self) -> Sequence[Task]:
        return [Task(task.group, 0, task.name, f"do it, {os.getpid()}", 200) for task in super().tasks()]


class CountsAllTasksAsOne(Sound):
    def tasks(self) -> Sequence[Task]:
        return [Task("all", 0, task.name, task.prompt, 200) for task in super().tasks()]


class Crashes(Sound):
    class simulator(SoundSimulator):
        def step(self, action: NDArray[Any], look: Look) -> Outcome:
            os.kill(os.getpid(), signal.SIGSEGV)
            return super().step(action, look)
