"""The advice: measure, play the choices through, try the best one, and say it all."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from proctor.config.settings import Settings
from proctor.engine.interrupts import Interrupts
from proctor.engine.workforce import Placement
from proctor.machine.gpus import spread_over
from proctor.tuning.choose import Forecast, forecasts, ranked
from proctor.tuning.measure import Measured, Session
from proctor.tuning.probe import Stretch


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

    measured: Measured
    shards: int
    best: Forecast
    others: Sequence[Forecast]
    modelled: float
    trial: Stretch
    correction: float
    episodes: int
    flags: dict[str, str]
    environment: dict[str, str]


def make_advice(
    settings: Settings, logs: Path, stack: ExitStack, interrupts: Interrupts, tell: Callable[[str], None]
) -> Advice:
    """Measure for about a minute; `stack` ends what is started."""
    session = Session(settings, logs, stack, interrupts, tell)
    measured = session.measure()
    episodes = settings.eval.n_episodes * len(session.tasks)
    max_steps = sum(task.max_steps for task in session.tasks) / len(session.tasks)
    tell("playing the choices through")
    shards = _shards(measured, getattr(settings.policy, "device", None))
    found = forecasts(_part(measured, shards), math.ceil(episodes / shards), max_steps)
    # The policy is loaded at one batch size and in one place; the trial corrects the model there.
    first = ranked(found)[0].choice
    placement: Placement = "worker" if measured.brain.in_worker else "central"
    tried = first._replace(rows=measured.brain.spec.batch, placement=placement)
    modelled = {forecast.choice: forecast.steps_per_second for forecast in found}
    trial = session.trial(measured.sights[tried.sight].renderer, tried.workers)
    correction = trial.asks_per_second * trial.chunk / modelled[tried]
    best, *others = ranked([_corrected(forecast, correction, shards) for forecast in found])
    renderer = measured.sights[best.choice.sight].renderer
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
        environment={"MUJOCO_GL": renderer.backend} if renderer is not None and best.choice.sight else {},
    )


def _shards(measured: Measured, device: str | None) -> int:
    """Return a process per GPU where the policy uses one: each then draws and answers for itself."""
    spread = spread_over(measured.machine.gpus, measured.brain.spec.on_gpu, device)
    return max(1, min(len(spread), measured.machine.cores))


def _part(measured: Measured, shards: int) -> Measured:
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


def _flags(best: Forecast, measured: Measured) -> dict[str, str]:
    flags = {"eval.batch_size": str(best.choice.workers)}
    if measured.brain.passes and measured.brain.spec.on_gpu:
        flags["policy.batch_size"] = str(best.choice.rows)
    if not measured.brain.in_worker:
        flags["policy.placement"] = best.choice.placement
    return flags
