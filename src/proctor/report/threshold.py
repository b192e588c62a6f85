"""Whether a run reaches the success rate that was asked of it (`--min_success`), in one line.

An episode that ended in an error says nothing about the policy. So a run passes if it would with every error a
failure, fails if it would with every error a success, and is not decided in between. A run that is not complete is
never decided, whatever its episodes came to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from proctor.errors import EXIT_BELOW, EXIT_EPISODE_ERRORS, EXIT_OK
from proctor.report.console import count
from proctor.results import ScoredRun
from proctor.stats.intervals import Rate, success_rate

Decision = Literal["passed", "failed", "not decided"]


@dataclass(frozen=True)
class Threshold:
    """A success rate that a run is to reach, by its rate or by the lower end of the interval."""

    least: float
    by: Literal["rate", "lower"] = "rate"

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Threshold | None:
        """Return what the settings of a stored run ask of it, if they ask something."""
        least, by = settings.get("min_success"), settings.get("min_success_by")
        if not isinstance(least, float | int) or not 0 < least <= 1:
            return None
        return cls(float(least), "lower" if by == "lower" else "rate")

    def is_reached_by(self, rate: Rate) -> bool:
        """Whether a rate is enough; one of no episode is not."""
        value = rate.low if self.by == "lower" else rate.value
        return rate.episodes > 0 and value is not None and value >= self.least

    def __str__(self) -> str:
        return f"{100 * self.least:g} %"


class ThresholdResult(NamedTuple):
    """What came of it, and why, in one line."""

    decision: Decision
    why: str

    @property
    def exit_status(self) -> int:
        """The status of a command whose run has no other."""
        return {"passed": EXIT_OK, "failed": EXIT_BELOW, "not decided": EXIT_EPISODE_ERRORS}[self.decision]

    def __str__(self) -> str:
        return f"min_success {self.decision}: {self.why}"


def judge(run: ScoredRun, threshold: Threshold) -> ThresholdResult:
    """Return whether a run reaches what was asked of it."""
    results = run.results
    if run.directory.shard is not None:
        return ThresholdResult("not decided", "this is one shard of a run; merge them first")
    if not run.complete or not len(run.plan):
        left = len(run.plan) - run.ended.ended
        return ThresholdResult("not decided", f"{left} of {count(len(run.plan), 'episode')} have not ended")
    if not results.reporting:
        return ThresholdResult("not decided", "no task reports success, so there is no rate")
    rate, worst = results.overall, results.result.if_errors_failed
    errors = worst.episodes - rate.episodes
    best = success_rate(rate.successes + errors, worst.episodes) if errors else rate
    # A rule's interval, where one has ended the run, is the wider one.
    worst = worst._replace(low=min(worst.low, rate.low)) if errors else rate
    what = "the lower end of the interval" if threshold.by == "lower" else "the rate"
    silent = len(results.tasks) - len(results.reporting)
    whose = (
        f", over the {len(results.reporting)} of {len(results.tasks)} tasks that report success" if silent else ""
    )
    stopped = run.stopped is not None
    after = f", stopped by a rule after {count(len(run.plan), 'episode')}" if stopped else ""
    asked = f"{what} must reach {threshold}; success {rate}{whose}{after}"
    if errors:
        asked += f"; with {count(errors, 'error')} as failures {worst}, as successes {best}"
    if threshold.is_reached_by(worst):
        return ThresholdResult("passed", asked)
    return ThresholdResult("not decided" if threshold.is_reached_by(best) else "failed", asked)
