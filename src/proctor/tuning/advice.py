"""The advice: every sensible choice is played through with what was measured, the best one is tried."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from proctor.config.settings import Settings, chosen_device
from proctor.engine.interrupts import Interrupts
from proctor.engine.workforce import CROSSING, MOST_PER_CORE, Placement
from proctor.machine.gpus import spread_over
from proctor.policies.protocol import Pass
from proctor.tuning.measure import Measurements, MeasuringSession, RenderProfile
from proctor.tuning.model import Round, Service, asks_per_second
from proctor.tuning.probe import TimedSpan

_ALIKE = 0.03
"""Choices within this share of the quickest count as equal: fewer workers and smaller batches are then better."""

_SATURATED = 1.3
"""A drawing that takes so much longer beside others than alone waits for the GPU."""


class Choice(NamedTuple):
    """Settings that a run can be given."""

    workers: int
    rows: int
    placement: Placement
    renderer: int
    """Which of the measured renderers."""


@dataclass(frozen=True)
class Forecast:
    """What a choice comes to.

    Attributes:
        choice: the settings.
        steps_per_second: of all workers together, once all are running.
        startup: seconds until then.
        work: seconds after that, if every episode lasts to its step limit.
        shares: how much of the cores and of the GPU is in use, and by what: (resource, use, share).
    """

    choice: Choice
    steps_per_second: float
    startup: float
    work: float
    shares: Sequence[tuple[str, str, float]]

    @property
    def seconds(self) -> float:
        """The whole run."""
        return self.startup + self.work

    @property
    def limit(self) -> str:
        """What keeps the run from being quicker."""
        totals: dict[str, float] = {}
        for resource, _, share in self.shares:
            totals[resource] = totals.get(resource, 0.0) + share
        return max(totals, key=lambda resource: totals[resource])


def forecasts(measured: Measurements, episodes: int, max_steps: float) -> list[Forecast]:
    """Return every choice with what it comes to.

    Args:
        measured: what the machine does.
        episodes: how many are to run.
        max_steps: steps of an episode.
    """
    return [_forecast(measured, choice, episodes, max_steps) for choice in _choices(measured, episodes)]


def ranked(found: Sequence[Forecast]) -> list[Forecast]:
    """Return forecasts with the best one first: the quickest, or what is as good with fewer workers."""
    quickest = min(forecast.seconds for forecast in found)

    def rank(forecast: Forecast) -> tuple[bool, float, float]:
        choice, alike = forecast.choice, forecast.seconds <= quickest * (1 + _ALIKE)
        return not alike, (choice.workers if alike else forecast.seconds), choice.rows

    return sorted(found, key=rank)


def _choices(measured: Measurements, episodes: int) -> Iterator[Choice]:
    machine, policy = measured.machine, measured.policy
    cores = machine.cores
    room = max(1, int(machine.memory * 0.8 / max(1, measured.worker_memory)))
    counts = {
        1,
        cores // 2,
        cores - 1,
        cores,
        cores + 1,
        cores * 3 // 2,
        2 * cores,
        3 * cores,
        MOST_PER_CORE * cores,
    }
    batches = sorted({policy.spec.batch, *[one.rows for one in policy.passes]})
    for workers in sorted({min(count, episodes, room) for count in counts if count > 0}):
        for render in range(len(measured.renders)):
            if policy.in_worker:
                yield Choice(workers, policy.spec.batch, "worker", render)
                continue
            for rows in batches:
                yield Choice(workers, rows, "central", render)
            copies = policy.cost.memory * workers if policy.cost is not None else machine.memory
            if policy.cost is not None and copies < machine.memory * 0.5:
                yield Choice(workers, policy.spec.batch, "worker", render)


def _forecast(measured: Measurements, choice: Choice, episodes: int, max_steps: float) -> Forecast:
    m, policy, cores = measured, measured.policy, measured.machine.cores
    chunk = m.alone.chunk
    render = m.renders[choice.renderer]

    def rate(workers: int) -> float:
        own, service = _demands(m, choice, workers)
        return asks_per_second(own, service, workers, cores)

    asks = rate(choice.workers)
    rounds, rest = divmod(episodes, choice.workers)
    per_episode = max_steps / chunk
    work = rounds * per_episode * choice.workers / asks + (rest * per_episode / rate(rest) if rest else 0.0)
    starts = m.worker_start * max(1.0, choice.workers / cores)
    copies = 0.0
    if choice.placement == "worker" and policy.cost is not None:
        copies = policy.cost.load * choice.workers / min(choice.workers, cores)
    own, service = _demands(m, choice, choice.workers)
    return Forecast(
        choice,
        steps_per_second=asks * chunk,
        startup=policy.load + starts + copies,
        work=work,
        shares=_shares(render, own, service, asks, cores, choice),
    )


def _demands(m: Measurements, choice: Choice, workers: int) -> tuple[Round, Service | None]:
    own = _round(m, m.renders[choice.renderer], workers)
    policy = m.policy
    if policy.in_worker:
        return own.with_more(m.alone.wait), None
    taken = _pass(m, choice.rows)
    if choice.placement == "worker":
        assert policy.cost is not None
        return own.with_more(policy.cost.act * policy.spec.lanes / policy.cost.side_by_side), None
    crossing = max(0.0, m.alone.wait - taken.alone) if policy.passes else CROSSING
    own = own.with_more(min(crossing, own.core))
    lanes = policy.spec.lanes
    if policy.spec.on_gpu:
        return own, Service(taken.rows, lanes, gpu=taken.busy, delay=max(0.0, taken.alone - taken.busy))
    if policy.passes:
        return own, Service(taken.rows, lanes, core=taken.busy * lanes)
    core = min(policy.core, m.alone.wait)
    return own, Service(taken.rows, lanes, core=core, delay=m.alone.wait - core)


def _pass(m: Measurements, rows: int) -> Pass:
    """Return what a pass takes; of one that was not timed, what one worker waited for it."""
    return next((one for one in m.policy.passes if one.rows == rows), Pass(rows, m.alone.wait, m.alone.wait))


def _round(m: Measurements, render: RenderProfile, workers: int) -> Round:
    """Return what a worker does between two answers when that many run."""
    cores = m.machine.cores
    crowd = min(1.0, (workers - 1) / (cores - 1)) if cores > 1 else 0.0
    alone, together = render.alone, render.together
    if render.renderer is None or render.renderer.software:
        # All of it is work for a core, and slows down a little when its neighbours work too.
        return Round(alone.round + crowd * (together.round - alone.round))
    step = alone.step + crowd * (together.step - alone.step)
    if together.draw > _SATURATED * alone.draw:
        gpu = 1.0 / together.frames_per_second
    else:
        gpu = alone.draw / together.workers
    return Round(step * together.chunk, gpu * together.draws, max(0.0, alone.draw - gpu) * together.draws)


def _shares(
    render: RenderProfile, own: Round, service: Service | None, asks: float, cores: int, choice: Choice
) -> list[tuple[str, str, float]]:
    shares = []
    software = render.renderer is None or render.renderer.software
    draw = render.together.draw * render.together.draws if software else 0.0
    simulate = render.together.step * render.together.chunk
    shares.append(("cores", "simulate", asks * simulate / cores))
    if draw:
        shares.append(("cores", "draw", asks * draw / cores))
    rest = own.core - simulate - draw + (service.core / service.rows if service is not None else 0.0)
    if rest > 0:
        shares.append(("cores", "policy", asks * rest / cores))
    if own.gpu:
        shares.append(("GPU", "draw", asks * own.gpu))
    if service is not None and service.gpu:
        shares.append(("GPU", "policy", asks * service.gpu / min(service.rows, choice.workers)))
    if service is not None and service.delay and not service.gpu:
        shares.append(("policy's answers", "wait", asks * service.delay / (service.rows * service.lanes)))
    return shares


@dataclass(frozen=True)
class Advice:
    """What was found.

    Attributes:
        measured: the measurements.
        shards: in how many processes the run is best split, each with a GPU of its own; figures are of all.
        best: the forecast of the recommended settings, corrected by the trial.
        others: the other choices, as the model sees them, corrected likewise.
        modelled: steps a second of the recommended settings as the model alone predicts them.
        trial: what a short trial of them came to, at the batch that was loaded.
        correction: trial over model, at that batch.
        episodes: how many the run has.
        flags: the settings, as flags of `proctor eval` without their dashes.
        environment: what has to be in the environment besides.
    """

    measured: Measurements
    shards: int
    best: Forecast
    others: Sequence[Forecast]
    modelled: float
    trial: TimedSpan
    correction: float
    episodes: int
    flags: dict[str, str]
    environment: dict[str, str]

    @property
    def best_unchanged(self) -> Forecast:
        """The best choice that leaves batch and renderer, which are part of a result, as a run finds them."""
        batch = self.measured.policy.spec.batch
        found = (one for one in (self.best, *self.others) if (one.choice.rows, one.choice.renderer) == (batch, 0))
        return next(found, self.best)


def make_advice(
    settings: Settings, logs: Path, stack: ExitStack, interrupts: Interrupts, tell: Callable[[str], None]
) -> Advice:
    """Measure for about a minute; `stack` ends what is started."""
    session = MeasuringSession(settings, logs, stack, interrupts, tell)
    measured = session.measure()
    episodes = settings.eval.n_episodes * len(session.tasks)
    max_steps = sum(task.max_steps for task in session.tasks) / len(session.tasks)
    tell("playing the choices through")
    shards = _shards(measured, chosen_device(settings.policy))
    found = forecasts(_part(measured, shards), math.ceil(episodes / shards), max_steps)
    # The policy is loaded at one batch size and in one place; the trial corrects the model there.
    first = ranked(found)[0].choice
    placement: Placement = "worker" if measured.policy.in_worker else "central"
    tried = first._replace(rows=measured.policy.spec.batch, placement=placement)
    modelled = {forecast.choice: forecast.steps_per_second for forecast in found}
    trial = session.trial(measured.renders[tried.renderer].renderer, tried.workers)
    correction = trial.asks_per_second * trial.chunk / modelled[tried]
    best, *others = ranked([_corrected(forecast, correction, shards) for forecast in found])
    renderer = measured.renders[best.choice.renderer].renderer
    return Advice(
        measured=measured,
        shards=shards,
        best=best,
        others=others,
        modelled=modelled[best.choice] * shards,
        trial=trial,
        correction=correction,
        episodes=episodes,
        flags=_flags(best, measured),
        environment={"MUJOCO_GL": renderer.backend} if renderer is not None and best.choice.renderer else {},
    )


def _shards(measured: Measurements, device: str | None) -> int:
    """Return a process per GPU where the policy uses one: each then draws and answers for itself."""
    spread = spread_over(measured.machine.gpus, measured.policy.spec.on_gpu, device)
    return max(1, min(len(spread), measured.machine.cores))


def _part(measured: Measurements, shards: int) -> Measurements:
    """Return the measurements as one of several processes finds them."""
    whole = measured.machine
    part = dataclasses.replace(whole, cores=whole.cores // shards, memory=whole.memory // shards)
    return dataclasses.replace(measured, machine=part)


def _corrected(forecast: Forecast, correction: float, shards: int) -> Forecast:
    return dataclasses.replace(
        forecast,
        steps_per_second=forecast.steps_per_second * correction * shards,
        work=forecast.work / correction,
    )


def _flags(best: Forecast, measured: Measurements) -> dict[str, str]:
    flags = {"eval.batch_size": str(best.choice.workers)}
    if measured.policy.passes and measured.policy.spec.on_gpu:
        flags["policy.batch_size"] = str(best.choice.rows)
    if not measured.policy.in_worker:
        flags["policy.placement"] = best.choice.placement
    return flags
