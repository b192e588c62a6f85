"""Success over training steps: one point for every checkpoint that was evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from proctor.results import Evaluation
from proctor.stats.intervals import Rate


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """What the evaluation of one checkpoint came to.

    Attributes:
        step: of the training.
        successes: k of the success rate.
        episodes: n of it: those that ended, of tasks that report success.
        low: the lower end of its interval.
        high: the upper end.
        errors: episodes that could not be run, and are not counted.
        mean_reward: the mean sum of rewards.
        run: the folder of the evaluation, relative to that of the training.
    """

    step: int
    successes: int
    episodes: int
    low: float
    high: float
    errors: int
    mean_reward: float | None
    run: str

    @classmethod
    def of(cls, step: int, evaluation: Evaluation, run: str) -> CurvePoint:
        """Return it for an evaluation that has ended."""
        rate, result = evaluation.results.overall, evaluation.results.result
        return cls(
            step=step,
            successes=rate.successes,
            episodes=rate.episodes,
            low=rate.low,
            high=rate.high,
            errors=result.errors,
            mean_reward=result.reward,
            run=run,
        )

    @property
    def rate(self) -> Rate:
        """The success rate; without a value where no task reports success."""
        return Rate(self.successes, self.episodes, self.low, self.high)


@dataclass(frozen=True)
class Curve:
    """The points of a training, in the order of their steps."""

    points: tuple[CurvePoint, ...] = ()

    @property
    def best(self) -> CurvePoint | None:
        """The checkpoint whose interval begins highest; of several the earliest."""
        rated = [point for point in self.points if point.episodes]
        return max(rated, key=lambda point: (point.low, -point.step), default=None)

    def at(self, step: int) -> CurvePoint | None:
        """Return the point of a step, if it was evaluated."""
        return next((point for point in self.points if point.step == step), None)

    def with_point(self, point: CurvePoint) -> Curve:
        """Return the curve with one more point, or another for its step."""
        others = [one for one in self.points if one.step != point.step]
        return replace(self, points=tuple(sorted([*others, point], key=lambda one: one.step)))

    def to_json(self) -> list[dict[str, Any]]:
        """Return it as `training.json` holds it, every rate in per cent beside its counts."""
        return [
            {**asdict(point), "pc_success": None if point.rate.value is None else 100 * point.rate.value}
            for point in self.points
        ]

    @classmethod
    def from_json(cls, told: Sequence[Mapping[str, Any]]) -> Curve:
        """Rebuild it. Raises `TypeError`, `ValueError` or `LookupError` if it is none."""
        return cls(tuple(_point(one) for one in told))


def _point(told: Mapping[str, Any]) -> CurvePoint:
    reward = told["mean_reward"]
    return CurvePoint(
        step=int(told["step"]),
        successes=int(told["successes"]),
        episodes=int(told["episodes"]),
        low=float(told["low"]),
        high=float(told["high"]),
        errors=int(told["errors"]),
        mean_reward=None if reward is None else float(reward),
        run=str(told["run"]),
    )
