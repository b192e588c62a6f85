"""From measurements to settings: every sensible choice is played through, the quickest is taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from proctor.engine.workforce import CROSSING, MOST_PER_CORE, Placement
from proctor.policies.protocol import Pass
from proctor.tuning.measure import Measured, Sight
from proctor.tuning.model import Round, Service, asks_per_second

_ALIKE = 0.03
"""Choices within this share of the quickest count as equal: fewer workers and smaller batches are then better."""

_SATURATED = 1.3
"""A drawing that takes so much longer beside others than alone waits for the GPU."""


class Choice(NamedTuple):
    """Settings that a run can be given."""

    workers: int
    rows: int
    placement: Placement
    sight: int
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


def forecasts(measured: Measured, episodes: int, max_steps: float) -> list[Forecast]:
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


def _choices(measured: Measured, episodes: int) -> Iterator[Choice]:
    machine, brain = measured.machine, measured.brain
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
    batches = sorted({brain.spec.batch, *[one.rows for one in brain.passes]})
    for workers in sorted({min(count, episodes, room) for count in counts if count > 0}):
        for sight in range(len(measured.sights)):
            if brain.in_worker:
                yield Choice(workers, brain.spec.batch, "worker", sight)
                continue
            for rows in batches:
                yield Choice(workers, rows, "central", sight)
            copies = brain.cost.memory * workers if brain.cost is not None else machine.memory
            if brain.cost is not None and copies < machine.memory * 0.5:
                yield Choice(workers, brain.spec.batch, "worker", sight)


def _forecast(measured: Measured, choice: Choice, episodes: int, max_steps: float) -> Forecast:
    m, brain, cores = measured, measured.brain, measured.machine.cores
    chunk = m.alone.chunk
    sight = m.sights[choice.sight]

    def rate(workers: int) -> float:
        own, service = _demands(m, choice, workers)
        return asks_per_second(own, service, workers, cores)

    asks = rate(choice.workers)
    rounds, rest = divmod(episodes, choice.workers)
    per_episode = max_steps / chunk
    work = rounds * per_episode * choice.workers / asks + (rest * per_episode / rate(rest) if rest else 0.0)
    starts = m.worker_start * max(1.0, choice.workers / cores)
    copies = 0.0
    if choice.placement == "worker" and brain.cost is not None:
        copies = brain.cost.load * choice.workers / min(choice.workers, cores)
    own, service = _demands(m, choice, choice.workers)
    return Forecast(
        choice,
        steps_per_second=asks * chunk,
        startup=brain.load + starts + copies,
        work=work,
        shares=_shares(sight, own, service, asks, cores, choice),
    )


def _demands(m: Measured, choice: Choice, workers: int) -> tuple[Round, Service | None]:
    own = _round(m, m.sights[choice.sight], workers)
    brain = m.brain
    if brain.in_worker:
        return Round(own.core + m.alone.wait, own.gpu, own.delay), None
    taken = _pass(m, choice.rows)
    if choice.placement == "worker":
        assert brain.cost is not None
        return Round(
            own.core + brain.cost.act * brain.spec.lanes / brain.cost.side_by_side, own.gpu, own.delay
        ), None
    crossing = max(0.0, m.alone.wait - taken.alone) if brain.passes else CROSSING
    own = Round(own.core + min(crossing, own.core), own.gpu, own.delay)
    lanes = brain.spec.lanes
    if brain.spec.on_gpu:
        return own, Service(taken.rows, lanes, gpu=taken.busy, delay=max(0.0, taken.alone - taken.busy))
    if brain.passes:
        return own, Service(taken.rows, lanes, core=taken.busy * lanes)
    core = min(brain.core, m.alone.wait)
    return own, Service(taken.rows, lanes, core=core, delay=m.alone.wait - core)


def _pass(m: Measured, rows: int) -> Pass:
    """Return what a pass takes; of one that was not timed, what one worker waited for it."""
    return next((one for one in m.brain.passes if one.rows == rows), Pass(rows, m.alone.wait, m.alone.wait))


def _round(m: Measured, sight: Sight, workers: int) -> Round:
    """Return what a worker does between two answers when that many run."""
    cores = m.machine.cores
    crowd = min(1.0, (workers - 1) / (cores - 1)) if cores > 1 else 0.0
    alone, together = sight.alone, sight.together
    if sight.renderer is None or sight.renderer.software:
        # All of it is work for a core, and slows down a little when its neighbours work too.
        return Round(alone.round + crowd * (together.round - alone.round))
    step = alone.step + crowd * (together.step - alone.step)
    if together.draw > _SATURATED * alone.draw:
        gpu = 1.0 / together.frames_per_second
    else:
        gpu = alone.draw / together.workers
    return Round(step * together.chunk, gpu * together.draws, max(0.0, alone.draw - gpu) * together.draws)


def _shares(
    sight: Sight, own: Round, service: Service | None, asks: float, cores: int, choice: Choice
) -> list[tuple[str, str, float]]:
    shares = []
    software = sight.renderer is None or sight.renderer.software
    draw = sight.together.draw * sight.together.draws if software else 0.0
    simulate = sight.together.step * sight.together.chunk
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
