"""What a comparison came to, and the same as plain values for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from proctor.comparison.pairing import RunSample
from proctor.stats.intervals import Estimate, Rate
from proctor.stats.paired import Pairs

Verdict = Literal["better", "worse", "cannot tell"]
Kind = Literal["task", "group", "overall"]


@dataclass(frozen=True)
class ComparisonRow:
    """Two policies on one task, one group of tasks, or all.

    Attributes:
        kind: what the row is about.
        name: the task or group; "all" for the whole.
        group: the task's group; that of a group is itself.
        tasks: how many tasks it holds.
        first: the first policy's rate on the episodes that are compared.
        second: the second policy's.
        pairs: how they did on each shared episode; `None` where seeds do not match.
        difference: second minus first, with its interval for this row alone.
        p_value: of the exact test, for this row alone.
        adjusted: the same by Holm, for all rows of its kind together. The verdict goes by it.
        verdict: whether the second is better or worse than the first, or that cannot be told.
        needed: episodes of each policy that would tell a difference as large as the one seen, with a chance of
            80 %; `None` where it is told already, or none was seen.
        elsewhere: the difference averaged over tasks, with an interval for tasks that were not run.
    """

    kind: Kind
    name: str
    group: str
    tasks: int
    first: Rate
    second: Rate
    pairs: Pairs | None
    difference: Estimate
    p_value: float
    adjusted: float = 1.0
    verdict: Verdict = "cannot tell"
    needed: int | None = None
    elsewhere: Estimate | None = None

    @property
    def episodes(self) -> int:
        """Episodes of the policy that has fewer."""
        return min(self.first.episodes, self.second.episodes)

    @property
    def more(self) -> int | None:
        """Episodes of each policy that are missing."""
        return None if self.needed is None else max(1, self.needed - self.episodes)


class Circumstance(NamedTuple):
    """Something that is not the same in two runs, as text."""

    name: str
    first: str
    second: str


@dataclass(frozen=True)
class Disagreement:
    """A seed on which exactly one of two policies succeeded."""

    task: str
    episode_index: int
    seed: int
    winner: Literal["first", "second"]
    first_video: Path | None
    second_video: Path | None


@dataclass(frozen=True)
class Comparison:
    """The second run against the first.

    Attributes:
        first: the baseline.
        second: the run that may be better or worse.
        paired: whether the test goes by shared seeds.
        rows: tasks, then groups of more than one task, then `overall`.
        disagreements: the shared seeds on which exactly one succeeded, as many as are listed one by one.
        left_out: shared episodes that one of them could not run.
        circumstances: in what the runs differ besides the policies.
        notes: what a reader should know of the episodes that were compared.
        alpha: how often equal policies may be called different.
    """

    first: RunSample
    second: RunSample
    paired: bool
    rows: Sequence[ComparisonRow]
    disagreements: Sequence[Disagreement]
    left_out: int
    circumstances: Sequence[Circumstance]
    notes: Sequence[str]
    alpha: float

    @property
    def n_disagreements(self) -> int:
        """On how many shared seeds exactly one succeeded."""
        pairs = self.overall.pairs
        return 0 if pairs is None else pairs.first + pairs.second

    @property
    def overall(self) -> ComparisonRow:
        """All tasks together."""
        return next(row for row in self.rows if row.kind == "overall")

    @property
    def verdict(self) -> Verdict:
        """Whether the second is better or worse than the first over all tasks, or that cannot be told."""
        return self.overall.verdict

    def per_task(self) -> dict[str, ComparisonRow]:
        """Return the row of each task."""
        return {row.name: row for row in self.rows if row.kind == "task"}

    def __str__(self) -> str:
        row, points = self.overall, [100 * end for end in self.overall.difference]
        return (
            f"{self.verdict}: {points[0]:+.1f} points ({points[1]:+.1f} to {points[2]:+.1f}), "
            f"p = {row.adjusted:.3g}, {row.episodes} {'pairs' if self.paired else 'episodes each'}"
        )


@dataclass(frozen=True)
class Comparisons:
    """Several runs, each against the first, or each against each. `letters` are in the order of `runs`."""

    runs: Sequence[RunSample]
    comparisons: Sequence[Comparison]
    letters: Sequence[str] | None
    alpha: float


def as_document(found: Comparisons) -> dict[str, Any]:
    """Return everything, as docs/compare.md describes it."""
    places = {id(run): place for place, run in enumerate(found.runs)}
    return {
        "alpha": found.alpha,
        "runs": [
            _run(run, found.alpha) | {"letters": None if found.letters is None else found.letters[place]}
            for place, run in enumerate(found.runs)
        ],
        "comparisons": [
            {"first": places[id(one.first)], "second": places[id(one.second)]} | _comparison(one)
            for one in found.comparisons
        ],
    }


def _run(run: RunSample, alpha: float) -> dict[str, Any]:
    return {
        "path": run.shown,
        "policy": run.policy,
        "seed": run.identity["seed"],
        "complete": run.complete,
        "stopped": run.stopped,
        "n_planned": run.planned,
        "n_ended": run.ended,
        "n_used": run.used.ended,
        "n_errors": run.errors,
        "rate": _plain_rate(run.rate(1 - alpha)),
    }


def _comparison(one: Comparison) -> dict[str, Any]:
    return {
        "method": "paired" if one.paired else "unpaired",
        "test": "mcnemar" if one.paired else "barnard",
        "interval": "tango" if one.paired else "newcombe",
        "verdict": one.verdict,
        "rows": [_row(row) for row in one.rows],
        "n_disagreements": one.n_disagreements,
        "disagreements": [_disagreement(found) for found in one.disagreements],
        "n_left_out": one.left_out,
        "circumstances": [found._asdict() for found in one.circumstances],
        "notes": list(one.notes),
    }


def _row(row: ComparisonRow) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "name": row.name,
        "group": row.group or None,
        "n_tasks": row.tasks,
        "n_episodes": row.episodes,
        "first": _plain_rate(row.first),
        "second": _plain_rate(row.second),
        "pairs": None if row.pairs is None else row.pairs._asdict(),
        "difference": row.difference._asdict(),
        "p_value": row.p_value,
        "p_adjusted": row.adjusted,
        "verdict": row.verdict,
        "n_needed": row.needed,
        "n_more": row.more,
        "elsewhere": None if row.elsewhere is None else row.elsewhere._asdict(),
    }


def _disagreement(found: Disagreement) -> dict[str, Any]:
    return {
        "task": found.task,
        "episode_index": found.episode_index,
        "seed": found.seed,
        "winner": found.winner,
        "first_video": None if found.first_video is None else str(found.first_video),
        "second_video": None if found.second_video is None else str(found.second_video),
    }


def _plain_rate(rate: Rate) -> dict[str, Any]:
    return {"value": rate.value, **rate._asdict()}
