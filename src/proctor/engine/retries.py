"""When what failed is tried again, and when an episode, a process or a run is given up.

docs/failures.md has the rules in words.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum, auto
from typing import NamedTuple

from proctor.types import EpisodeKey

HOPELESS = 12
"""Failed attempts, at least, after which a run that has not ended a single episode may be given up."""


class Cause(Enum):
    """What failed when an attempt at an episode came to nothing."""

    SIMULATOR = auto()
    POLICY = auto()
    NODE = auto()


class Failure(NamedTuple):
    """An attempt that came to nothing.

    Attributes:
        cause: what failed.
        reason: why, in words that may follow a colon.
        worker: who was at it; -1: nobody knows.
        lasted: seconds that the attempt had been under way.
        told: whether the user has read of it already.
    """

    cause: Cause
    reason: str
    worker: int = -1
    lasted: float = 0.0
    told: bool = False


class Restarts:
    """When something that serves many episodes is not started again: a policy's host, a shard, a node.

    Args:
        most: how often each may die without an episode ending in between.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._deaths: Counter[str] = Counter()

    def died(self, name: str = "") -> int:
        """Note a death; returns how many there were in a row."""
        self._deaths[name] += 1
        return self._deaths[name]

    def is_given_up(self, name: str = "") -> bool:
        """Whether it is not to be started again."""
        return self._deaths[name] >= self._most

    def progressed(self, name: str = "") -> None:
        """Note that an episode has ended there."""
        self._deaths.pop(name, None)


class Attempts:
    """The attempts at each episode that came to nothing, and what follows from them.

    Args:
        most: how many an episode has.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._numbers: Counter[EpisodeKey] = Counter()  # of all, whoever is to blame
        self._charged: Counter[EpisodeKey] = Counter()  # of those that use up the episode's own
        self._charged_before: dict[EpisodeKey, int] = {}  # when it was handed out
        self._failures, self._longest_failure = 0, 0.0

    def set(self, key: EpisodeKey, attempts: int) -> None:
        """Note that so many attempts at an episode came to nothing elsewhere."""
        self._numbers[key] = self._charged[key] = attempts

    def handed_out(self, key: EpisodeKey) -> None:
        """Note that an episode is about to be tried."""
        self._charged_before[key] = self._charged[key]

    def forgive(self, key: EpisodeKey) -> None:
        """Let what failed since the episode was handed out not count: whoever had it is to blame."""
        self._charged[key] = self._charged_before[key]

    def failed(self, key: EpisodeKey) -> int:
        """Note an attempt that came to nothing; returns its number, which no other attempt at the episode has."""
        self._numbers[key] += 1
        self._charged[key] += 1
        return self._numbers[key]

    def number(self, key: EpisodeKey) -> int:
        """Return how many attempts at an episode came to nothing, whoever is to blame."""
        return self._numbers[key]

    def used(self, key: EpisodeKey) -> int:
        """Return how many of its attempts an episode has used up."""
        return self._charged[key]

    def may_try_again(self, key: EpisodeKey) -> bool:
        """Whether an episode has attempts left."""
        return self._charged[key] < self.most

    def find_hopeless(self, failure: Failure, workers: int, eldest: float) -> int:
        """Take a simulator's failure in a run in which nothing has ended; returns the failures if they are enough.

        They are if every worker has failed twice and nobody got further than they: an episode that has been under
        way for longer than any that failed (`eldest`, in seconds) may be a healthy one.
        """
        self._failures += 1
        self._longest_failure = max(self._longest_failure, failure.lasted)
        enough = self._failures >= max(HOPELESS, 2 * workers) and eldest <= self._longest_failure
        return self._failures if enough else 0
