"""What a random sample of a run's episodes proves of all of them: how it is drawn, and what is said of it."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from proctor.plan import Plan
from proctor.replay.replayer import Replay
from proctor.report.console import count
from proctor.results import ScoredRun
from proctor.stats.intervals import success_rate
from proctor.stats.sampling import most_bad
from proctor.store.outcomes import ERROR, FAILURE, SUCCESS, UNKNOWN

CONFIDENCE = 0.95

NOT_REPLAYED = "could not be replayed"


def new_seed() -> int:
    """Return a seed that nobody can have known when the run was made: the system's own randomness."""
    return secrets.randbits(63)


def draw(plan: Plan, size: int, seed: int) -> Plan:
    """Return a random sample of a plan's episodes, each as likely as any other; all if there are no more."""
    if size >= len(plan):
        return plan
    places = np.random.default_rng(seed).choice(len(plan), size, replace=False)
    return plan.at(np.sort(places).astype(np.int64))


@dataclass(frozen=True)
class Sample:
    """What came of looking at a random sample of episodes.

    Attributes:
        size: how many were drawn.
        population: from how many.
        differing: how many are not what is stored.
        unproved: how many nobody could look at, by why. Whoever forges an episode may see to it that it is one of
            these, so they stay in the sample, and the bound is what it would be if each of them differed.
        cut_off: how many were not come to, because it was stopped. Quick episodes come first, so what was seen
            until then is no random sample, and bounds nothing.
    """

    size: int
    population: int
    differing: int
    unproved: Mapping[str, int] = field(default_factory=dict)
    cut_off: int = 0

    @property
    def doubtful(self) -> int:
        """How many differ, or may for all that is known."""
        return self.differing + sum(self.unproved.values())

    @property
    def most(self) -> int | None:
        """How many of the population differ at most, with that confidence; `None`: it was cut off."""
        return None if self.cut_off else most_bad(self.doubtful, self.size, self.population, CONFIDENCE)

    def statement(self, verb: str = "differ") -> str:
        """Say what the sample proves of all episodes, and no more.

        >>> Sample(59, 500, 0).statement()
        '0 of 59 differ: with 95 % confidence fewer than 4.8 % of 500 episodes do'
        >>> Sample(12, 12, 0).statement()
        '0 of 12 differ: these are all episodes'
        """
        seen = f"{self.differing} of {self.size - self.cut_off} {verb}"
        unsure = [f"{number} {why}" for why, number in self.unproved.items() if number]
        if unsure:
            seen += f", {' and '.join(unsure)} (counted as different)"
        if (most := self.most) is None:
            return f"{seen}; {self.cut_off} more were not come to, so this says nothing of all {self.population}"
        if self.size == self.population:
            return f"{seen}: these are all episodes"
        if most == self.population - self.size + self.doubtful:
            return f"{seen}: too few to say anything of the other {self.population - self.size}"
        share = math.ceil(1000 * (most + 1) / self.population) / 10  # rounded up, or it would say too much
        return (
            f"{seen}: with {100 * CONFIDENCE:.0f} % confidence fewer than {share:.1f} % "
            f"of {self.population} episodes do"
        )


def sample_of(replay: Replay, population: int) -> Sample:
    """Return what the replay of a sample came to."""
    failed, differing = len(replay.failed), len(replay.differing)
    cut_off = replay.asked - replay.same - differing - failed
    return Sample(replay.asked, population, differing, {NOT_REPLAYED: failed}, cut_off)


def result_in_question(run: ScoredRun, whole: Plan) -> str:
    """Return the number that a sample is drawn for: over the finished episodes that keep their actions."""
    states = run.ended["state"][run.plan.places_of(whole)]
    rewards = run.ended["sum_reward"][run.plan.places_of(whole)]
    successes, failures = int((states == SUCCESS).sum()), int((states == FAILURE).sum())
    if not successes + failures:
        return f"mean sum of rewards {np.nanmean(rewards):.4g} over {len(whole)} episodes"
    rate, own = success_rate(successes, successes + failures), run.results.overall
    if (rate.successes, rate.episodes) == (own.successes, own.episodes):
        return f"success {own}"
    return f"success {rate}; the run's own is {own}, of which the rest is not covered"


def not_covered(run: ScoredRun, whole: Plan, with_policy: bool) -> list[str]:
    """Say of what a sample drawn from the episodes that keep their actions proves nothing."""
    states = run.ended["state"]
    finished = int(np.isin(states, (FAILURE, SUCCESS, UNKNOWN)).sum())
    parts = {
        "finished without stored actions": finished - len(whole),
        "ended in an error": int((states == ERROR).sum()),
        "not ended": len(run.plan) - run.ended.ended,
    }
    found = [f"{count(number, 'episode')} {words}" for words, number in parts.items() if number]
    return found if with_policy else [*found, "who acted (give --policy.path)"]
