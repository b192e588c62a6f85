"""The process that plays: it does what it is told, as a worker would, and sends back what it saw.

It compares nothing and judges nothing that takes two episodes.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from numpy.typing import NDArray

from proctor.benchmarks.processors import processors_for, spec_behind
from proctor.benchmarks.protocol import Benchmark
from proctor.config.plain_values import to_plain
from proctor.config.registry import load_object
from proctor.conformance.leaks import count_leaks
from proctor.conformance.schedule import Play, actions, episode_of, wild_actions
from proctor.conformance.self_report import introduce
from proctor.conformance.trace import Trace
from proctor.conformance.tracer import DrawingCounter, HandedArray, TracingSimulator
from proctor.engine.messages import Channel, Message, keep_end
from proctor.engine.meter import Meter
from proctor.engine.rollout import LocalActor, PolicyView, run_episode
from proctor.engine.worker import SimulatorCache
from proctor.errors import ProctorError, UsageError
from proctor.policies.protocol import Policy
from proctor.types import NO_LOOK, Episode, Look, Task

_ATTEMPTS = 3
"""Episodes in which a policy may try to reach success."""


@dataclass(frozen=True)
class PlayerBoot:
    """What a player is told at its start; `tasks` are those that were chosen."""

    benchmark: str
    env: dict[str, Any]
    tasks: list[dict[str, Any]]
    seed: int
    policy: str | None = None
    policy_settings: dict[str, Any] | None = None


def run_player(channel: Channel, boot: Message, descriptors: list[int]) -> None:
    """Report on the benchmark, then play what is asked for until told to stop."""
    settings = PlayerBoot(**boot)
    try:
        benchmark, self_report = introduce(settings.benchmark, settings.env)
    except Exception as error:
        print(traceback.format_exc(), flush=True)  # noqa: T201 - goes to this player's log
        channel.send({"type": "unable", "reason": _words(error), "usage": isinstance(error, ProctorError)})
        return
    channel.send({"type": "answer", "value": to_plain(self_report)})
    player = Player(benchmark, settings)
    while True:
        order, _ = channel.receive()
        if order["type"] == "stop":
            player.stage.close()
            return
        leaks = order["type"] == "holdings"
        answer = player.holdings(order["rounds"]) if leaks else to_plain(player.play(Play(**order["play"])))
        channel.send({"type": "answer", "value": answer})


def _words(error: BaseException) -> str:
    return keep_end(f"{type(error).__name__}: {' '.join(str(error).split())}", 400)


class Player:
    """Plays episodes as a worker does: one simulator at a time, kept while the task stays the same."""

    def __init__(self, benchmark: Benchmark, settings: PlayerBoot) -> None:
        self._benchmark, self._settings = benchmark, settings
        # What is checked is what a policy meets: the simulator behind the benchmark's own processors.
        self._steps = processors_for(benchmark, None)
        self._spec = spec_behind(self._steps, benchmark.spec)
        self._tasks = [Task(**task) for task in settings.tasks]
        self._films = not benchmark.no_frames
        self._counter = DrawingCounter()
        self._given: list[HandedArray] = []
        self.stage = SimulatorCache(benchmark, self._steps, Meter())

    def holdings(self, rounds: int) -> dict[str, Any]:
        """Build and close a simulator many times."""
        try:
            found = count_leaks(self._benchmark, self._tasks[0], self._settings.seed, rounds)
        except Exception as error:
            print(traceback.format_exc(), flush=True)  # noqa: T201 - goes to this player's log
            return {"error": _words(error), "rounds": []}
        return {"error": "", "rounds": to_plain(found)}

    def play(self, play: Play) -> Trace:
        """Play an episode; whatever it raises is part of the trace."""
        tracer: TracingSimulator | None = None
        trace = Trace()
        doing = "close"
        try:
            if play.rebuild:
                self.stage.close()
            doing = "building its simulator"
            episode = episode_of(play, self._tasks[play.task], self._settings.seed)
            tracer = TracingSimulator(self.stage.simulator_for(episode), self._spec, self._counter)
            trace = tracer.trace
            if play.by_policy:
                return self._try_to_succeed(episode, tracer)
            self._perform(play, episode, tracer)
            self._given = tracer.settle(self._given)
        except Exception as error:
            print(traceback.format_exc(), flush=True)  # noqa: T201 - goes to this player's log
            trace.error = f"{tracer.doing if tracer is not None else doing} raised {_words(error)}"
            self.stage = SimulatorCache(self._benchmark, self._steps, Meter())  # its state is unknown now
        if play.looks == "none":
            trace.results.clear()  # too many to send, and nobody compares them
        return trace

    def _perform(self, play: Play, episode: Episode, tracer: TracingSimulator) -> None:
        """Drive the simulator as the engine's loop does: observe where it was told to look, then film."""
        task, trace = episode.task, tracer.trace
        look = self._look(play, 0)
        tracer.reset(episode, look)
        if look:
            tracer.observe()
        if self._films and play.films(0):
            tracer.render()
        steps = min(play.steps, task.max_steps)
        for step, action in enumerate(islice(self._actions(play), steps), 1):
            look = self._look(play, step)
            outcome = tracer.step(action, look)
            trace.ended = (
                "terminated"
                if outcome.terminated
                else "truncated"
                if outcome.truncated
                else "step limit"
                if step == task.max_steps
                else ""
            )
            if look and not trace.ended:
                tracer.observe()
            if self._films and (play.films(step) or (play.film and trace.ended)):
                tracer.render()
            if trace.ended:
                return

    def _actions(self, play: Play) -> Iterator[NDArray[Any]]:
        key = self._settings.seed, play.index
        if play.actions == "valid":
            return actions(self._spec, key)
        wild = wild_actions(self._spec, key)
        return map(self._spec.executed, wild) if play.actions == "clipped" else wild

    def _look(self, play: Play, step: int) -> Look:
        keys = sorted(self._spec.every)
        if not play.looks_at(step) or not keys:
            return NO_LOOK
        return frozenset([keys[step % len(keys)]]) if play.looks == "one key" else frozenset(keys)

    def _try_to_succeed(self, episode: Episode, tracer: TracingSimulator) -> Trace:
        """Let the policy do the task, by the engine's own loop, in as many episodes as it may take."""
        assert self._settings.policy is not None
        policy_class: type[Policy] = load_object(self._settings.policy)
        settings = policy_class.Settings(**(self._settings.policy_settings or {}))
        policy = policy_class.from_settings(settings, self._spec)
        if policy.spec.env_processors is not None:
            raise UsageError("a policy with processors of its own does not play behind the benchmark's")
        actor, view = LocalActor(policy, self._spec.action_size), PolicyView.of(policy.spec, self._spec)
        for attempt in range(_ATTEMPTS):
            moved = Episode(episode.task, episode.index + attempt, episode.seed + attempt)
            run_episode(tracer, moved, actor, view, Meter())
            if tracer.trace.success:
                tracer.trace.ended = "terminated" if tracer.trace.results[-1].terminated else "step limit"
                break
        tracer.trace.results.clear()
        tracer.trace.arrays.clear()
        return tracer.trace
