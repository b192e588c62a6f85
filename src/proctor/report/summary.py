"""The result at the end of a run, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from proctor.engine.evaluation import Evaluation
from proctor.report.console import count, printable
from proctor.report.ending import Written
from proctor.report.live import duration
from proctor.results import Result, describe_running, task_key
from proctor.stats.intervals import Rate
from proctor.store.outcomes import ERROR
from proctor.store.run_directory import DATABASE

TASKS_FOR_OTHERS = 5
"""Fewer tasks say next to nothing about others."""


def print_summary(console: Console, evaluation: Evaluation, report: Written | None = None) -> None:
    """Print the table, the errors, where the time went and where the results are."""
    if evaluation.records:
        console.print(_table(evaluation))
    tasks = evaluation.results.tasks
    waiting = sum(not evaluation.results.have([task_key(task)]) for task in tasks)
    if waiting:
        console.print(Text(f"{waiting} of {len(tasks)} tasks have no episode yet.", style="yellow"))
    parts = (
        _stopped(evaluation), _running(evaluation), _macro(evaluation), _errors(evaluation), _silence(evaluation)
    )  # fmt: skip
    for part in (*(line for lines in parts for line in lines), *_time(evaluation)):
        console.print(part)
    videos = int(evaluation.results.ended["filmed"].sum())
    console.print(Text(f"results: {evaluation.run.result}"), soft_wrap=True)
    report = report or Written()
    if report.path is not None:
        console.print(Text(f"report:  {report.path}"), soft_wrap=True)
    if report.problem is not None:
        console.print(Text(report.problem, style="yellow"), soft_wrap=True)
    if videos:
        console.print(Text(f"videos:  {evaluation.directory / 'videos'} ({videos})"), soft_wrap=True)
    if evaluation.recorded:
        episodes = count(evaluation.recorded, "episode")
        console.print(Text(f"dataset: {evaluation.directory / 'dataset'} ({episodes})"), soft_wrap=True)
    if not evaluation.info["run"]["reproducible"]:
        console.print(Text("not reproducible: the same command may give other episodes.", style="yellow"))


def _table(evaluation: Evaluation) -> RenderableType:
    # Narrow enough for 80 columns with Meta-World's longest names. `steps` is the median over successes, or over
    # all episodes where success is not reported; only there is the mean sum of rewards shown.
    results = evaluation.results
    with_errors, with_rewards = bool(results.result.errors), len(results.reporting) < len(results.tasks)
    table = Table(header_style="bold")
    table.add_column("task", overflow="fold")
    optional = [*(["reward"] if with_rewards else []), *(["errors"] if with_errors else [])]
    for heading in ("success", "k/n", "95 % interval", *optional, "steps"):
        table.add_column(heading, justify="right", no_wrap=True)
    groups = list(dict.fromkeys(task.group for task in results.tasks))
    for group in groups:
        members = [task for task in results.tasks if task.group == group]
        for task in members:
            if results.have([task_key(task)]):
                one = results.result_of([task_key(task)])
                table.add_row(printable(task.name), *_cells(one, with_errors, with_rewards))
        if len(members) > 1:
            # A run of one group is shown by its line alone, which is then that of the whole run.
            whole = results.result if len(groups) == 1 else results.result_of(results.in_group(group))
            table.add_section()
            table.add_row(
                printable(f"group {group}"),
                *_cells(whole, with_errors, with_rewards),
                style="bold",
                end_section=True,
            )
    if len(groups) > 1 or len(results.tasks) == 1:
        table.add_section()
        table.add_row("all", *_cells(results.result, with_errors, with_rewards), style="bold")
    return table


def _cells(result: Result, with_errors: bool, with_rewards: bool) -> list[str]:
    rate = result.rate
    return [
        percent(rate),
        f"{rate.successes}/{rate.episodes}" if rate.episodes else "",
        interval(rate),
        *([f"{result.reward:.4g}" if result.reward is not None else ""] if with_rewards else []),
        *([str(result.errors or "")] if with_errors else []),
        str(result.steps) if result.steps is not None else "",
    ]


def percent(rate: Rate) -> str:
    """Return a rate in percent; `~` says that it is an estimate, because episodes were running."""
    return "–" if rate.value is None else f"{'~' if rate.running else ''}{100 * rate.value:.1f} %"


def interval(rate: Rate) -> str:
    """Return an interval in percent; none of a rate that is not known."""
    return f"{100 * rate.low:.1f}–{100 * rate.high:.1f}" if rate.value is not None else ""


def _stopped(evaluation: Evaluation) -> list[Text]:
    run = evaluation.info["run"]
    stopped = run.get("stopped")
    if stopped is None:
        return []
    precise = stopped["decision"] == "precise"
    return [Text(describe_stop(stopped, run["n_planned"]), style="" if precise else "bold")]


def describe_stop(stopped: Mapping[str, Any], planned: int) -> str:
    """Say where a rule ended a run, and what is known by it."""
    after = f"Stopped after {stopped['episodes']} of {planned} episodes"
    if stopped["decision"] == "precise":
        known = stopped["interval"]
        rate = Rate(known["successes"], known["n_episodes"], known["low"], known["high"])
        return f"{after}: {stopped['rule']} is reached, the rate is {rate}."
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
    lines += [
        printable(f"  {r.task} episode {r.episode_index}: {r.error}") for r in evaluation.records.at(failed[:5])
    ]
    if len(failed) > 5:
        where = evaluation.run.result.name if evaluation.records.listed else DATABASE
        lines.append(Text(f"  and {len(failed) - 5} more, in {where}", style="yellow"))
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


def _time(evaluation: Evaluation) -> list[Text]:
    timing = evaluation.info.get("timing")
    if not timing or not evaluation.records:
        return []
    spans = {
        "simulate": timing["simulate_s"] + timing["reset_s"],
        "draw": timing["draw_s"] + timing["encode_s"],
        "wait for the policy": timing["wait_s"],
        "start-up": timing["startup_s"] + timing["build_s"],
    }
    total = sum(spans.values()) or 1.0
    shares = ", ".join(f"{name} {100 * seconds / total:.0f} %" for name, seconds in spans.items())
    wall = timing["wall_s"]
    return [
        Text(
            f"{count(len(evaluation.records), 'episode')}, {timing['steps']} steps in {duration(wall)}"
            + (f" ({timing['steps'] / wall:.0f} steps/s)" if wall else "")
            + f". Time: {shares}."
        )
    ]
