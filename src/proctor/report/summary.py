"""What a run leaves at its end: the result on the terminal, and `report.html`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from proctor.errors import ProctorError
from proctor.report.breakable_name import BreakableName
from proctor.report.console import count, duration, printable
from proctor.report.error_groups import error_groups
from proctor.report.result_table import columns_for, rows_for
from proctor.results import Aggregate, Evaluation, Results, describe_running, task_key
from proctor.stats.intervals import Rate
from proctor.store.outcomes import ERROR
from proctor.store.run_directory import DATABASE

_MOST_ERRORS, _MOST_GROUPS = 10_000, 5
"""Errors that are read to be grouped, and groups that are told."""

TASKS_FOR_OTHERS = 5
"""Fewer tasks say next to nothing about others."""


class ReportFile(NamedTuple):
    """Where the report lies, or why there is none, in one line; neither where there is nothing to report."""

    path: Path | None = None
    problem: str | None = None


def write_run_report(evaluation: Evaluation) -> ReportFile:
    """Write `report.html` into the directory of a run that has ended. A shard is only a part, and has none."""
    if not evaluation.info or evaluation.run.directory.shard is not None:
        return ReportFile()
    try:
        from proctor.report.page.page import write_report

        return ReportFile(write_report([evaluation.directory], runs=[evaluation.run]))
    except (ProctorError, ImportError) as error:
        problem = str(error)
    except Exception as error:  # a mistake of ours in the report must not cost anybody a run
        problem = f"{type(error).__name__}: {error}"
    return ReportFile(problem=f"no report was written: {' '.join(problem.split())}")


def print_summary(
    console: Console, evaluation: Evaluation, report: ReportFile | None = None, command: str = ""
) -> None:
    """Print the table, the errors, where the time went and where the results are.

    Args:
        console: where to.
        evaluation: what the run came to.
        report: where its report is.
        command: what the whole command spent its time on.
    """
    print_outcome(console, evaluation)
    for part in (*_time(evaluation), *([Text(command)] if command else [])):
        console.print(part)
    videos = int(evaluation.results.ended["filmed"].sum())
    console.print(Text(f"results: {evaluation.run.directory.result}"), soft_wrap=True)
    report = report or ReportFile()
    if report.path is not None:
        console.print(Text(f"report:  {report.path}"), soft_wrap=True)
    if report.problem is not None:
        console.print(Text(report.problem, style="yellow"), soft_wrap=True)
    if videos:
        console.print(Text(f"videos:  {evaluation.directory / 'videos'} ({videos})"), soft_wrap=True)
    if evaluation.unfilmed:
        command = shlex.join(["proctor", "film", str(evaluation.directory), "--which=missing"])
        words = f"not filmed: {count(evaluation.unfilmed, 'episode')}. To film them: {command}"
        console.print(Text(words, style="yellow"), soft_wrap=True)
    if evaluation.recorded:
        episodes = count(evaluation.recorded, "episode")
        console.print(Text(f"dataset: {evaluation.directory / 'dataset'} ({episodes})"), soft_wrap=True)
    if not evaluation.info["run"]["reproducible"]:
        console.print(Text("not reproducible: the same command may give other episodes.", style="yellow"))


def print_outcome(console: Console, evaluation: Evaluation) -> None:
    """Print what a run came to: the table, and what there is to say of it."""
    if evaluation.records:
        console.print(_table(evaluation.results))
    tasks = evaluation.results.tasks
    waiting = sum(not evaluation.results.have([task_key(task)]) for task in tasks)
    if waiting:
        console.print(Text(f"{waiting} of {len(tasks)} tasks have no episode yet.", style="yellow"))
    parts = (
        _stopped(evaluation), _running(evaluation), _macro(evaluation), _errors(evaluation), _silence(evaluation)
    )  # fmt: skip
    for part in (line for lines in parts for line in lines):
        console.print(part)


def _table(results: Results) -> RenderableType:
    columns = columns_for([results])
    table = Table(header_style="bold")
    table.add_column("task")
    for column in columns:
        table.add_column(column.heading, justify="right", no_wrap=True)

    def add(name: str, one: Aggregate, **options: Any) -> None:
        table.add_row(BreakableName(printable(name).plain), *(column.cell(one) for column in columns), **options)

    for group in rows_for([results]):
        for row in group.rows:
            if row.results[0] is not None:
                add(row.name, row.results[0])
        if group.name and group.results[0] is not None:
            table.add_section()
            add(f"group {group.name}", group.results[0], style="bold", end_section=True)
    if len({task.group for task in results.tasks}) > 1 or len(results.tasks) == 1:
        table.add_section()
        add("all", results.result, style="bold")
    return table


def _stopped(evaluation: Evaluation) -> list[Text]:
    run = evaluation.info["run"]
    stopped = run.get("stopped")
    if stopped is None:
        return []
    quiet = stopped["decision"] in ("precise", "recorded")
    return [Text(describe_stop(stopped, run["n_planned"]), style="" if quiet else "bold")]


def describe_stop(stopped: Mapping[str, Any], planned: int) -> str:
    """Say where a rule ended a run, and what is known by it."""
    after = f"Stopped after {stopped['episodes']} of {planned} episodes"
    if stopped["decision"] == "precise":
        known = stopped["interval"]
        rate = Rate(known["successes"], known["n_episodes"], known["low"], known["high"])
        return f"{after}: {stopped['rule']} is reached, the rate is {rate}."
    if stopped["decision"] == "recorded":
        return (
            f"{count(stopped['played'], 'episode')} were played for {stopped['rule']}. The rates are those of the "
            f"first {stopped['episodes']}, equally many of every task."
        )
    verdict = {
        "better": f"{stopped['rule']}",
        "worse": f"not {stopped['rule']}, but worse",
        "hopeless": f"the rest of the plan cannot show that it is {stopped['rule']}",
    }[stopped["decision"]]
    odds = f"{stopped['wins']} won, {stopped['losses']} lost of the episodes in which they differ"
    return f"{after}: {verdict} ({odds})."


def _running(evaluation: Evaluation) -> list[Text]:
    words = describe_running(evaluation.results.overall)
    return [Text(words, style="yellow")] if words else []


def _macro(evaluation: Evaluation) -> list[Text]:
    macro = evaluation.info["intervals"]["macro"]
    if macro is None or macro["clustered"] is None or macro["n_tasks"] < TASKS_FOR_OTHERS:
        return []
    here, elsewhere = (
        f"{100 * macro[k]['low']:.1f}–{100 * macro[k]['high']:.1f}" for k in ("stratified", "clustered")
    )
    return [
        Text(
            f"Average over {macro['n_tasks']} tasks: {100 * macro['value']:.1f} % ({here} for these tasks, "
            f"{elsewhere} for others of their kind)."
        )
    ]


def _errors(evaluation: Evaluation) -> list[Text]:
    failed = evaluation.results.ended.at(ERROR)
    if not len(failed):
        return []
    lines = [
        Text(
            f"{count(len(failed), 'episode')} could not be run, not counted in the rates. "
            f"If errors were failures: {evaluation.results.result.if_errors_failed}",
            style="yellow",
        )
    ]
    groups = error_groups(evaluation.records.at(failed[:_MOST_ERRORS]))
    lines += [printable(f"  {group}") for group in groups[:_MOST_GROUPS]]
    left = len(failed) - sum(group.episodes for group in groups[:_MOST_GROUPS])
    if left:
        where = evaluation.run.directory.result.name if evaluation.records.listed else DATABASE
        lines.append(Text(f"  and {left} more, in {where}", style="yellow"))
    return lines


def _silence(evaluation: Evaluation) -> list[Text]:
    names = [task.name for task in evaluation.results.tasks if not task.reports_success]
    if not names:
        return []
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return [
        Text(
            f"{shown}: the environment reports no success flag, so there is no rate, only the mean sum of "
            "rewards. If info has one under another name: --env.success_key=NAME",
            style="yellow",
        )
    ]


_USES = {"wait": "wait for the policy", "start": "start-up"}


def _time(evaluation: Evaluation) -> list[Text]:
    timing = evaluation.info.get("timing")
    if not timing or not evaluation.records:
        return []
    spans = evaluation.results.seconds_by_use(timing["startup_s"])
    total = sum(spans.values()) or 1.0
    shares = ", ".join(f"{_USES.get(use, use)} {100 * seconds / total:.0f} %" for use, seconds in spans.items())
    wall = timing["wall_s"]
    return [
        Text(
            f"{count(len(evaluation.records), 'episode')}, {timing['steps']} steps in {duration(wall)}"
            + (f" ({timing['steps'] / wall:.0f} steps/s)" if wall else "")
            + f". Time: {shares}."
        )
    ]
