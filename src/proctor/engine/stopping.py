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

from proctor.benchmarks.protocol import Episode, EpisodeKey
from proctor.config.contents import by_content
from proctor.config.settings import Settings
from proctor.config.stopping import rival, wanted_precision
from proctor.engine.interrupts import Interrupts
from proctor.engine.job import Ledger
from proctor.errors import StoreError, UsageError
from proctor.files import as_written_by_proctor
from proctor.stats.intervals import CONFIDENCE
from proctor.stats.sequential import BetterRule, PrecisionRule, anytime, at_the_stop
from proctor.store.episodes import EpisodeTable
from proctor.store.records import Attempt, EpisodeRecord, Running
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

    def __init__(self, name: str, theirs: Mapping[EpisodeKey, bool | None], tasks: int) -> None:
        self.text = f"better than {name}"
        self._theirs = theirs
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


def _outcomes(directory: Path, env_type: str, plan: Sequence[Episode]) -> dict[EpisodeKey, bool | None]:
    """Return how the rival ended the episodes that both have: the same task, index and seed."""
    run = RunDirectory(directory.expanduser())
    try:
        if not run.holds_a_run():
            raise UsageError(f"--eval.until_better_than={directory}: there is no run there.")
        with as_written_by_proctor(run.path), EpisodeTable(run.path / DATABASE, read_only=True) as table:
            records = {record.key: record for record in table.records()}
            _check_rival(directory, table, env_type, plan)
    except StoreError as error:
        raise UsageError(f"--eval.until_better_than={directory}: {error.__cause__ or error}") from error
    shared = {
        episode.key: record.success
        for episode in plan
        if (record := records.get(episode.key)) is not None
        and (record.task, record.seed) == (episode.task.name, episode.seed)
    }
    if not any(outcome is not None for outcome in shared.values()):
        raise UsageError(
            f"--eval.until_better_than={directory} shares no finished episode with this plan: "
            "use its tasks and its --seed."
        )
    return shared


def _check_rival(directory: Path, table: EpisodeTable, env_type: str, plan: Sequence[Episode]) -> None:
    """Refuse a rival that had other chances: another benchmark, or other step limits. A rule could not tell."""
    benchmark = (table.meta("identity") or {}).get("env", {}).get("type")
    if benchmark != by_content(env_type):
        raise UsageError(
            f"--eval.until_better_than={directory} is of another benchmark, or of one that has changed."
        )
    limits = {task["name"]: task["max_steps"] for task in table.meta("tasks") or ()}
    for task in {episode.task for episode in plan}:
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

    def __init__(self, plan: Sequence[Episode], make: Callable[[], Sequence[Rule]]) -> None:
        self._plan, self._make = plan, make
        self._place = {episode.key: place for place, episode in enumerate(plan)}
        self._ended: dict[EpisodeKey, EpisodeRecord] = {}
        self._start_over()

    def _start_over(self) -> None:
        self._rules = self._make()
        self._length = 0
        self.stop: Stop | None = None

    def begin(self, records: Iterable[EpisodeRecord], pending: Iterable[Episode]) -> None:
        """Take what earlier sessions stored. An error that this one will try again has not ended yet."""
        again = {episode.key for episode in pending}
        self.add(record for record in records if record.key not in again)

    def add(self, records: Iterable[EpisodeRecord]) -> None:
        """Take what has ended; sets `stop` once a rule says so. If a record replaces another, all is read anew."""
        new = {record.key: record for record in records if record.key in self._place}
        read = [key for key in new if self._place[key] < self._length]
        if any(_outcome(new[key]) != _outcome(self._ended[key]) for key in read):
            self._start_over()
        self._ended.update(new)
        if self.stop is not None:
            return
        for episode, success in self._news():
            for rule in self._rules:
                found = rule.add(episode, success)
                if found is not None and self.stop is None:
                    self.stop = Stop(self._length, rule.text, found)
            if self.stop is not None:
                return

    def decide(self, records: Iterable[EpisodeRecord]) -> Stop | None:
        """Return where a run with these records stops."""
        fresh = StopRules(self._plan, self._make)
        fresh.add(records)
        return fresh.stop

    def _news(self) -> Iterator[tuple[Episode, bool | None]]:
        while self._length < len(self._plan) and self._plan[self._length].key in self._ended:
            episode = self._plan[self._length]
            self._length += 1
            # `None` of an error, and of a task that does not report success: neither says anything.
            yield episode, _outcome(self._ended[episode.key])


def _outcome(record: EpisodeRecord) -> bool | None:
    return record.success if record.status == "finished" else None


class RuledLedger:
    """A ledger that ends the run when a rule is satisfied by what was stored."""

    def __init__(self, ledger: Ledger, rules: StopRules, interrupts: Interrupts) -> None:
        self._ledger, self._rules, self._interrupts = ledger, rules, interrupts

    def records(self) -> list[EpisodeRecord]:
        """Return what has ended."""
        return self._ledger.records()

    def running(self) -> list[Running]:
        """Return what was started before and has not ended."""
        return self._ledger.running()

    def write(
        self,
        records: Iterable[EpisodeRecord],
        attempts: Iterable[Attempt] = (),
        running: Iterable[Running] = (),
    ) -> None:
        """Keep results for good, then ask the rules."""
        records = list(records)
        self._ledger.write(records, attempts, running)
        if self._rules.stop is None:
            self._rules.add(records)
            if self._rules.stop is not None:
                self._interrupts.enough()

    def check(self) -> None:
        """Ask the ledger behind it."""
        self._ledger.check()


def rules_for(settings: Settings, plan: Sequence[Episode]) -> StopRules | None:
    """Return the rules of a run, if it has any. Raises `UsageError` if its rival cannot be compared with it."""
    bound, other = wanted_precision(settings), rival(settings)
    if bound is None and other is None:
        return None
    tasks = len({(episode.task.group, episode.task.task_id) for episode in plan})
    if not any(episode.task.reports_success for episode in plan):
        raise UsageError(
            "--eval.stop_when and --eval.until_better_than need a success rate, and this benchmark reports no "
            "success. If it does, name the entry of info: --env.success_key=NAME."
        )
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
