"""Rules that end a run before its plan does.

They are fed the finished prefix of the plan, in the plan's order, never the episodes that happen to have finished:
of those too many are quick successes. So a run stops at the same episode for any number of workers, every task has
had equally many, and what had ended beyond that place is kept but not counted.

Where a run stops is a function of its plan's stored records and of nothing else. An error is no outcome and may be
tried again: a session that does so waits for it at its place of the plan, and decides with what came of it. So it
makes no difference when, or in how many sessions, an episode was finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from proctor.config.combinations import rival, wanted_precision
from proctor.config.content_hashes import by_content
from proctor.config.settings import Settings
from proctor.errors import StoreError, UsageError
from proctor.files import as_written_by_proctor
from proctor.plan import Plan
from proctor.stats.intervals import CONFIDENCE
from proctor.stats.sequential import BetterRule, PrecisionRule, anytime, at_the_stop
from proctor.store.outcomes import ERROR, FAILURE, SUCCESS, UNKNOWN, Outcomes, state_of
from proctor.store.run_directory import RunDirectory
from proctor.store.schema import EpisodeRecord
from proctor.store.stored_run import StoredRun
from proctor.types import Episode


class Stop(NamedTuple):
    """Where and why a run ended: after so many episodes of the plan, by which rule, and what is known by it."""

    episodes: int
    rule: str
    found: dict[str, Any]

    def to_meta(self) -> dict[str, Any]:
        """Return plain values for the table and for `eval_info.json`."""
        return {"episodes": self.episodes, "rule": self.rule, **self.found}


class Rule(Protocol):
    """Takes the plan's episodes one by one; says what it found when it is time to stop."""

    text: str

    def add(self, episode: Episode, success: bool | None) -> dict[str, Any] | None:
        """Take the next episode; `None` for an error."""


class Precise:
    """`--eval.stop_when=ci<=X`."""

    def __init__(self, bound: float, tasks: int, alone: bool) -> None:
        self.text = f"ci<={bound:g}"
        # Beside another rule the run may end for a reason that this one does not know.
        self._method = "at_the_stop" if alone else "anytime"
        self._rule = PrecisionRule(bound, tasks, CONFIDENCE, at_the_stop if alone else anytime)

    def add(self, episode: Episode, success: bool | None) -> dict[str, Any] | None:
        """Stop when the rate is known to within the bound."""
        if not self._rule.add(success):
            return None
        rate = self._rule.rate
        return {
            "decision": "precise",
            "interval": {
                "method": self._method,
                "confidence": CONFIDENCE,
                "successes": rate.successes,
                "n_episodes": rate.episodes,
                "low": rate.low,
                "high": rate.high,
            },
        }


class Better:
    """`--eval.until_better_than=RUN`."""

    def __init__(self, name: str, theirs: Outcomes, tasks: int) -> None:
        self.text = f"better than {name}"
        self._theirs = theirs
        self._chances = int(theirs.counts[FAILURE])
        self._rule = BetterRule(tasks)

    def add(self, episode: Episode, success: bool | None) -> dict[str, Any] | None:
        """Stop when it is shown who succeeds more often, or when that can no longer be shown."""
        theirs = _SUCCESS[self._theirs.state(episode.key)]
        self._chances -= theirs is False
        decision = self._rule.add(success, theirs, self._chances)
        if decision is None:
            return None
        evidence = self._rule.evidence
        return {
            "decision": decision,
            "wins": evidence.wins,
            "losses": evidence.losses,
            "e_value_better": evidence.better,
            "e_value_worse": evidence.worse,
        }


def _outcomes(directory: Path, env_type: str, plan: Plan) -> Outcomes:
    """Return how the rival ended the episodes that both have: the same task, index and seed."""
    run = RunDirectory(directory.expanduser())
    shared = Outcomes(plan)
    try:
        if not run.holds_a_run():
            raise UsageError(f"--eval.until_better_than={directory}: there is no run there.")
        with as_written_by_proctor(run.path):
            stored = StoredRun(run.path)
            # As in a comparison: nothing beyond the place where a rule stopped it, or where an episode is missing.
            counted = stored.ended.first(stored.ended.prefix)
            for number in counted.at().tolist():
                theirs = counted.plan[number]
                place = plan.place_of(theirs.key)
                ours = None if place is None else plan[place]
                if ours is not None and (theirs.task.name, theirs.seed) == (ours.task.name, ours.seed):
                    shared["state"][place] = counted["state"][number]
            _check_rival(directory, stored, env_type, plan)
    except StoreError as error:
        raise UsageError(f"--eval.until_better_than={directory}: {error.__cause__ or error}") from error
    if not len(shared.at(SUCCESS, FAILURE)):
        raise UsageError(
            f"--eval.until_better_than={directory} shares no finished episode with this plan: "
            "use its tasks and its --seed."
        )
    return shared


def _check_rival(directory: Path, stored: StoredRun, env_type: str, plan: Plan) -> None:
    """Refuse a rival that had other chances: another benchmark, or other step limits. A rule could not tell."""
    benchmark = stored.identity.get("env", {}).get("type")
    if benchmark != by_content(env_type):
        raise UsageError(
            f"--eval.until_better_than={directory} is of another benchmark, or of one that has changed."
        )
    limits = {task.name: task.max_steps for task in stored.tasks}
    for task in plan.tasks:
        if limits.get(task.name, task.max_steps) != task.max_steps:
            raise UsageError(
                f"--eval.until_better_than={directory}: {task.name} had {limits[task.name]} steps there and has "
                f"{task.max_steps} here. Use the same step limit."
            )


class StopRules:
    """Feeds rules the finished prefix of a plan, whatever the order in which episodes end.

    Args:
        plan: the whole plan.
        make: makes the rules, which know nothing yet.
    """

    def __init__(self, plan: Plan, make: Callable[[], Sequence[Rule]]) -> None:
        self._plan, self._make = plan, make
        self._states = bytearray(len(plan))
        self._start_over()

    def _start_over(self) -> None:
        self._rules = self._make()
        self._length = 0
        self.stop: Stop | None = None

    def begin(self, before: Outcomes) -> None:
        """Take what earlier sessions stored. An error has not ended yet: this session will try it again."""
        states = before["state"]
        self._states[:] = np.where(states == ERROR, 0, states).tobytes()
        self._look()

    def add(self, records: Iterable[EpisodeRecord]) -> None:
        """Take what has ended; sets `stop` once a rule says so. If a record replaces another, all is read anew."""
        for record in records:
            place = self._plan.place_of(record.key)
            if place is None:
                continue
            state = state_of(record.status, record.success)
            if place < self._length and _SUCCESS[state] != _SUCCESS[self._states[place]]:
                self._start_over()
            self._states[place] = state
        self._look()

    def decide(self, ended: Outcomes) -> Stop | None:
        """Return where a run in which these have ended stops."""
        fresh = StopRules(self._plan, self._make)
        fresh._states[:] = ended["state"].tobytes()
        fresh._look()
        return fresh.stop

    def _look(self) -> None:
        if self.stop is not None:
            return
        for episode, success in self._news():
            for rule in self._rules:
                found = rule.add(episode, success)
                if found is not None and self.stop is None:
                    self.stop = Stop(self._length, rule.text, found)
            if self.stop is not None:
                return

    def _news(self) -> Iterator[tuple[Episode, bool | None]]:
        while self._length < len(self._plan) and self._states[self._length]:
            place = self._length
            self._length += 1
            yield self._plan[place], _SUCCESS[self._states[place]]


_SUCCESS: Mapping[int, bool | None] = {0: None, ERROR: None, UNKNOWN: None, FAILURE: False, SUCCESS: True}
"""What a state says to a rule: an error, and a task that does not report success, say nothing."""


def rules_for(settings: Settings, plan: Plan) -> StopRules | None:
    """Return the rules of a run, if it has any. Raises `UsageError` if its rival cannot be compared with it."""
    bound, other = wanted_precision(settings), rival(settings)
    asked = [settings.min_success, bound, other]
    if any(one is not None for one in asked) and not any(task.reports_success for task in plan.tasks):
        raise UsageError(
            "--min_success, --eval.stop_when and --eval.until_better_than need a success rate, and this benchmark "
            "reports no success flag. If it has one, name its entry in info: --env.success_key=NAME."
        )
    if bound is None and other is None:
        return None
    tasks = len(plan.tasks)
    # Once: the rival may change while this run goes on.
    directory = None if other is None else Path(other)
    theirs = None if directory is None else _outcomes(directory, settings.env.type, plan)

    def make() -> list[Rule]:
        rules: list[Rule] = []
        if bound is not None:
            rules.append(Precise(bound, tasks, alone=theirs is None))
        if theirs is not None:
            rules.append(Better(str(directory), theirs, tasks))
        return rules

    return StopRules(plan, make)
