"""Rules that end a run before its plan does.

They are fed the finished prefix of the plan, in the plan's order, never the episodes that happen to have finished:
of those too many are quick successes. So a run stops at the same episode for any number of workers, every task has
had equally many, and what had ended beyond that place is kept but not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from proctor.benchmarks.protocol import Episode, EpisodeKey
from proctor.config.settings import Settings
from proctor.config.stopping import rival, wanted_precision
from proctor.engine.interrupts import Interrupts
from proctor.engine.job import Ledger
from proctor.errors import StoreError, UsageError
from proctor.files import as_written_by_proctor
from proctor.stats.intervals import CONFIDENCE
from proctor.stats.sequential import BetterRule, PrecisionRule, anytime, at_the_stop
from proctor.store.episodes import EpisodeTable
from proctor.store.records import Attempt, EpisodeRecord
from proctor.store.run_directory import DATABASE, RunDirectory


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

    def __init__(self, directory: Path, plan: Sequence[Episode], tasks: int) -> None:
        self.text = f"better than {directory}"
        self._theirs = _outcomes(directory, plan)
        if not any(outcome is not None for outcome in self._theirs.values()):
            raise UsageError(
                f"--eval.until_better_than={directory} shares no finished episode with this plan: "
                "use its tasks and its --seed."
            )
        self._chances = sum(outcome is False for outcome in self._theirs.values())
        self._rule = BetterRule(tasks)

    def add(self, episode: Episode, success: bool | None) -> dict[str, Any] | None:
        """Stop when it is shown who succeeds more often, or when that can no longer be shown."""
        theirs = self._theirs.get(episode.key)
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


def _outcomes(directory: Path, plan: Sequence[Episode]) -> dict[EpisodeKey, bool | None]:
    """Return how the rival ended the episodes that both have: the same task, index and seed."""
    run = RunDirectory(directory.expanduser())
    try:
        if not run.holds_a_run():
            raise UsageError(f"--eval.until_better_than={directory}: there is no run there.")
        with as_written_by_proctor(run.path), EpisodeTable(run.path / DATABASE, read_only=True) as table:
            records = {record.key: record for record in table.records()}
    except StoreError as error:
        raise UsageError(f"--eval.until_better_than={directory}: {error.__cause__ or error}") from error
    return {
        episode.key: record.success
        for episode in plan
        if (record := records.get(episode.key)) is not None
        and (record.task, record.seed) == (episode.task.name, episode.seed)
    }


class Prefixed:
    """Feeds rules the finished prefix of a plan, whatever the order in which episodes end."""

    def __init__(self, plan: Sequence[Episode], rules: Sequence[Rule]) -> None:
        self._plan, self._rules = plan, rules
        self._ended: dict[EpisodeKey, EpisodeRecord] = {}
        self._length = 0
        self._told = False
        self.stop: Stop | None = None

    def add(self, records: Iterable[EpisodeRecord]) -> None:
        """Take what has ended; sets `stop` once a rule says so, for good."""
        self._ended.update((record.key, record) for record in records)
        for episode, success in self._news():
            for rule in self._rules:
                found = rule.add(episode, success)
                if found is not None and self._told and self.stop is None:
                    self.stop = Stop(self._length, rule.text, found)
            if self.stop is not None:
                return

    def _news(self) -> Iterator[tuple[Episode, bool | None]]:
        while self._length < len(self._plan) and self._plan[self._length].key in self._ended:
            episode = self._plan[self._length]
            self._length += 1
            record = self._ended[episode.key]
            # Some simulators speak of success only when it happens; one that never does is never decided on.
            self._told = self._told or record.success is not None
            yield episode, bool(record.success) if record.status == "finished" else None


class RuledLedger:
    """A ledger that ends the run when a rule is satisfied by what was stored."""

    def __init__(self, ledger: Ledger, rules: Prefixed, interrupts: Interrupts) -> None:
        self._ledger, self._rules, self._interrupts = ledger, rules, interrupts

    def records(self) -> list[EpisodeRecord]:
        """Return what has ended."""
        return self._ledger.records()

    def write(self, records: Iterable[EpisodeRecord], attempts: Iterable[Attempt] = ()) -> None:
        """Keep results for good, then ask the rules."""
        records = list(records)
        self._ledger.write(records, attempts)
        if self._rules.stop is None:
            self._rules.add(records)
            if self._rules.stop is not None:
                self._interrupts.enough()


def rules_for(settings: Settings, plan: Sequence[Episode]) -> Prefixed | None:
    """Return the rules of a run, if it has any. Raises `UsageError` if its rival cannot be compared with it."""
    bound, other = wanted_precision(settings), rival(settings)
    tasks = len({(episode.task.group, episode.task.task_id) for episode in plan})
    rules: list[Rule] = []
    if bound is not None:
        rules.append(Precise(bound, tasks, alone=other is None))
    if other is not None:
        rules.append(Better(Path(other), plan, tasks))
    return Prefixed(plan, rules) if rules else None
