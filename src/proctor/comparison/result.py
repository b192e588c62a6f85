"""What a comparison came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from proctor.comparison.circumstances import Circumstance
from proctor.comparison.runs import StoredRun
from proctor.stats.intervals import Estimate, Rate
from proctor.stats.paired import Pairs

Verdict = Literal["better", "worse", "cannot tell"]
Kind = Literal["task", "group", "overall"]


@dataclass(frozen=True)
class Row:
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

    first: StoredRun
    second: StoredRun
    paired: bool
    rows: Sequence[Row]
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
    def overall(self) -> Row:
        """All tasks together."""
        return next(row for row in self.rows if row.kind == "overall")

    @property
    def verdict(self) -> Verdict:
        """Whether the second is better or worse than the first over all tasks, or that cannot be told."""
        return self.overall.verdict

    def per_task(self) -> dict[str, Row]:
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

    runs: Sequence[StoredRun]
    comparisons: Sequence[Comparison]
    letters: Sequence[str] | None
    alpha: float
