"""The advice: measure, play the choices through, try the best one, and say it all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from proctor.config.settings import Settings
from proctor.engine.interrupts import Interrupts
from proctor.tuning.choose import Forecast, forecasts
from proctor.tuning.measure import Measured, Session
from proctor.tuning.probe import Stretch


@dataclass(frozen=True)
class Advice:
    """What was found.

    Attributes:
        measured: the measurements.
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
    ranked = forecasts(measured, episodes, max_steps)
    best = ranked[0]
    # The policy is loaded at one batch size and in one place; the trial corrects the model there.
    loaded = best.choice._replace(
        rows=measured.brain.spec.batch, placement="worker" if measured.brain.in_worker else "central"
    )
    reference = next(forecast for forecast in ranked if forecast.choice == loaded)
    trial = session.trial(measured.sights[loaded.sight].renderer, loaded.workers)
    correction = trial.asks_per_second * trial.chunk / reference.steps_per_second
    corrected = [_corrected(forecast, correction, measured) for forecast in ranked]
    renderer = measured.sights[best.choice.sight].renderer
    return Advice(
        measured=measured,
        best=corrected[0],
        others=corrected[1:],
        modelled=best.steps_per_second,
        trial=trial,
        correction=correction,
        episodes=episodes,
        flags=_flags(best, measured),
        environment={"MUJOCO_GL": renderer.backend} if renderer is not None and best.choice.sight else {},
    )


def _corrected(forecast: Forecast, correction: float, measured: Measured) -> Forecast:
    waiting = measured.brain.load + measured.worker_start
    return dataclasses.replace(
        forecast,
        steps_per_second=forecast.steps_per_second * correction,
        seconds=waiting + max(0.0, forecast.seconds - waiting) / correction,
    )


def _flags(best: Forecast, measured: Measured) -> dict[str, str]:
    flags = {"eval.batch_size": str(best.choice.workers)}
    if measured.brain.passes and measured.brain.spec.on_gpu:
        flags["policy.batch_size"] = str(best.choice.rows)
    if not measured.brain.in_worker:
        flags["policy.placement"] = best.choice.placement
    return flags
