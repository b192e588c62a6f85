"""What a report says of one run: the headline's facts, warnings, notes and links."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from proctor.files import clip
from proctor.report.console import count, duration, interval, moment
from proctor.report.page.ending import EndingSection, ending_section, goes_on
from proctor.report.page.episodes import (
    MOST_ROWS,
    Card,
    EpisodeRow,
    Failures,
    card_list,
    episode_rows,
    failures,
)
from proctor.report.page.figures import headline_bar, run_class, tidy
from proctor.report.page.headline import Alert, Shortfalls, alerts, shortfalls
from proctor.report.page.settings import command_of
from proctor.report.page.timeline import TimeUse, time_use
from proctor.report.result_table import GroupRows
from proctor.report.summary import describe_stop
from proctor.results import Aggregate, ScoredRun, describe_running
from proctor.store.outcomes import ERROR, FAILURE, KINDS, SUCCESS, UNKNOWN, Kind
from proctor.store.run_directory import DATABASE
from proctor.store.schema import EpisodeRecord

_MOST_NOTES = 100
_MOST_ERRORS = 200
_MOST_REASONS = 5


class Fact(NamedTuple):
    """One number of the headline."""

    name: str
    value: str
    more: str = ""


@dataclass(frozen=True)
class RunSection:
    """One run as the template shows it."""

    run: ScoredRun
    result: Aggregate
    bar: Markup
    alerts: Sequence[Alert]
    shortfalls: Shortfalls
    facts: Sequence[Fact]
    warnings: Sequence[str]
    ending: EndingSection | None
    last_films: Sequence[Card]
    failures: Sequence[Failures]
    errors: Sequence[EpisodeRecord]
    reasons: Sequence[tuple[str, int]]
    """Why episodes could not be run, and how many for each reason, of those in `errors`."""
    rows: Sequence[EpisodeRow]
    kinds: Sequence[Kind]
    time: TimeUse
    speed: str
    command: str | None
    notes: Sequence[tuple[str, str]]
    more_notes: int
    files: Sequence[tuple[str, str]]

    @property
    def failed(self) -> int:
        """How many episodes failed."""
        return sum(found.failed for found in self.failures)

    @property
    def elsewhere(self) -> str:
        """Where all episodes are, those that the page leaves out too."""
        return self.run.directory.result.name if self.run.records.listed else DATABASE

    @property
    def when(self) -> str:
        """When the run began, by the clock of the machine that writes the report."""
        return moment(self.run.sessions[0].started_at) if self.run.sessions else ""

    @property
    def when_iso(self) -> str:
        """The same for programs."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.run.sessions[0].started_at))


def run_section(
    run: ScoredRun, place: int, output: Path, groups: Sequence[GroupRows], several: bool, embed: bool
) -> RunSection:
    """Return what the report at `output` says of a run, whose tasks have rows in its table.

    Args:
        run: this one.
        place: which of the page's runs it is.
        output: where links are followed from.
        groups: the rows of the page's table.
        several: whether there are other runs beside it.
        embed: whether videos are inside of the file, where they are once.
    """
    result = run.results.result
    ending, going = ending_section(run), goes_on(run)
    notes = [(moment(note.told_at), note.message) for note in run.notes]
    errors = run.records.at(run.ended.at(ERROR)[:_MOST_ERRORS])
    return RunSection(
        run=run,
        result=result,
        bar=headline_bar(result.rate, run_class(place, several)),
        alerts=alerts(run, place, going, ending is not None),
        shortfalls=shortfalls(groups, place),
        facts=_facts(run, result),
        warnings=_warnings(run, result, going or ending is not None),
        ending=ending,
        last_films=[] if ending is None or embed else card_list(run, place, ending.films, output),
        failures=failures(run),
        errors=errors,
        reasons=Counter(clip(str(record.error), 300) for record in errors).most_common(_MOST_REASONS),
        rows=episode_rows(run, run.records[:MOST_ROWS], output),
        kinds=[KINDS[state] for state in (SUCCESS, FAILURE, UNKNOWN) if run.ended.counts[state]],
        time=time_use(run, f"timeline-{place}"),
        speed=_speed(run),
        command=command_of(run.settings),
        notes=notes[-_MOST_NOTES:],
        more_notes=max(0, len(notes) - _MOST_NOTES),
        files=_files(run, output),
    )


def _facts(run: ScoredRun, result: Aggregate) -> list[Fact]:
    facts = []
    if result.rate.episodes:
        facts.append(Fact("Successes", f"{result.rate.successes} of {result.rate.episodes}", "finished episodes"))
    if result.errors:
        pessimist = result.if_errors_failed
        facts.append(Fact("Errors", count(result.errors, "episode"), "could not be run, not counted"))
        if pessimist.value is not None:
            facts.append(
                Fact(
                    "If errors were failures",
                    f"{100 * pessimist.value:.1f} %",
                    f"{interval(pessimist)}, {pessimist.successes} of {pessimist.episodes}",
                )
            )
    else:
        facts.append(Fact("Errors", "none"))
    average = run.results.average_over_tasks()
    if average is not None:
        facts.append(
            Fact(
                "Average over tasks",
                f"{100 * average.value:.1f} %",
                f"{100 * average.low:.1f}–{100 * average.high:.1f}, each task alike",
            )
        )
    if result.steps is not None:
        of = "of the successes" if result.rate.episodes else "of all episodes"
        facts.append(Fact("Median steps", str(result.steps), of))
    if result.reward is not None and result.rate.episodes:
        facts.append(Fact("Mean sum of rewards", tidy(result.reward)))
    facts.append(Fact("Wall time", duration(run.wall), count(max(1, len(run.sessions)), "session")))
    return facts


def _warnings(run: ScoredRun, result: Aggregate, told: bool) -> list[str]:
    """Return what to know about the numbers; `told`: not why the run went no further."""
    found = []
    if run.stopped is not None:
        found.append(describe_stop(run.stopped, len(run.planned)))
    if not run.complete:
        rates = describe_running(result.rate) or "Rates are over these."
        curve = (
            f" The curve of steps is over the first {run.ended.prefix} of the plan." if result.rate.running else ""
        )
        found.append(f"{len(run.records)} of {len(run.plan)} planned episodes have ended. {rates}{curve}")
        if run.ending is not None and not told:
            found.append(f"Why it stopped: {run.ending}")
    if run.directory.shard is not None:
        shard = run.directory.shard
        found.append(f"This is shard {shard.number} of {shard.of}, a part of a run. proctor merge makes it whole.")
    if not run.reproducible:
        found.append("Not reproducible: the same command may give other episodes.")
    names = sorted(task.name for task in run.tasks if not task.reports_success)
    if names:
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        whose = "The environment" if not run.results.reporting else f"{shown}: the environment"
        found.append(f"{whose} reports no success flag, so there is a mean sum of rewards and no rate.")
    retried = int((run.ended["retried"] & (run.ended["state"] > ERROR)).sum())
    if retried:
        words = "was" if retried == 1 else "were"
        found.append(f"{count(retried, 'episode')} {words} tried more than once; that changes no result.")
    return found


def _speed(run: ScoredRun) -> str:
    steps = run.results.steps
    ended = f"{count(len(run.records), 'episode')}, {steps} steps in {duration(run.wall)}"
    if not run.wall:
        return f"{ended}."
    speed = f"{len(run.records) / run.wall:.2f} episodes/s, {steps / run.wall:.0f} steps/s"
    workers = max((session.workers for session in run.sessions), default=0)
    return f"{ended}: {speed}, begun with {count(workers, 'worker')}."


def _files(run: ScoredRun, output: Path) -> list[tuple[str, str]]:
    names = (run.directory.result.name, "config.yaml", DATABASE, "logs", "videos")
    if run.bundle is not None:
        return []  # they are there for a while only
    return [
        (name, quote(os.path.relpath(run.path / name, output.parent.absolute())))
        for name in names
        if (run.path / name).exists()
    ]
