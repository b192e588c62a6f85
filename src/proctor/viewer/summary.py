"""One run in a line: what it was, how far it is, and the rate that may be told of it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from proctor.config.yaml_files import CONFIG_FILE, read_run_settings, shard_in
from proctor.errors import ProctorError
from proctor.files import clip
from proctor.plan import make_plan, shard_of
from proctor.report.live import duration
from proctor.report.page.view import moment
from proctor.report.summary import interval, percent
from proctor.stats.intervals import Rate, wilson
from proctor.store.episodes import EpisodeTable, wall_and_startup, why_incomplete
from proctor.store.outcomes import Outcomes
from proctor.store.reading import read_episodes
from proctor.store.result import read_result
from proctor.store.run_directory import DATABASE, EVAL_INFO
from proctor.store.schema import RunSession
from proctor.types import Task
from proctor.viewer.safety import leads_out

State = Literal["running", "complete", "stopped", "incomplete", "unreadable"]

_LOG, _INDEX = f"{DATABASE}-wal", f"{DATABASE}-shm"
SOURCES = (DATABASE, _LOG, CONFIG_FILE)
"""What a summary is read from."""

_NOTHING = wilson(0, 0)


@dataclass(frozen=True)
class Summary:
    """What a list says of a run. `problem` says why the rest could not be read."""

    path: str
    """Relative to the folder of runs; "" if that is the run itself."""
    name: str
    state: State
    began: float
    problem: str = ""
    benchmark: str = ""
    policy: str = ""
    tasks: int = 0
    planned: int = 0
    ended: int = 0
    errors: int = 0
    rate: Rate = _NOTHING
    """Over all started episodes: an estimate as long as some are running."""
    wall: float = 0.0
    ending: str = ""
    """Why it went no further, if it is not complete and nobody writes it."""
    rule: str = ""
    """The rule that ended it early."""
    writer: str = ""
    speed: float = 0.0
    """Episodes per second of the session that goes on."""

    @property
    def folder(self) -> str:
        """The path as text that any page can hold."""
        return self.path.encode(errors="replace").decode() or "."

    @property
    def when(self) -> str:
        """When it began."""
        return moment(self.began)[:16]

    @property
    def left(self) -> float | None:
        """Seconds until all is done, if it goes on like this."""
        return (self.planned - self.ended) / self.speed if self.state == "running" and self.speed else None

    @property
    def words(self) -> dict[str, str]:
        """What is said of a run that goes on, by name."""
        rate = self.rate
        running = f", {rate.running} running" if rate.running else ""
        return {
            "ended": f"{self.ended} of {self.planned}" if self.planned else "starting",
            "rate": percent(rate) if rate.value is not None else "not known yet",
            "interval": f"{interval(rate)}{running}" if rate.value is not None else "",
            "counts": f"{rate.successes} of {rate.episodes}",
            "errors": str(self.errors) if self.errors else "none",
            "speed": f"{self.speed:.2f} episodes/s" if self.speed else "–",
            "left": duration(self.left) if self.left is not None else "–",
        }


def summarise(root: Path, directory: Path, writer: str | None) -> Summary:
    """Read a run's summary. Whatever is wrong with it is told in the summary."""
    try:
        began = (directory / DATABASE).lstat().st_mtime
    except OSError:
        began = 0.0
    try:
        problem = _unsafe(root, directory)
        if problem:
            return unreadable(root, directory, problem, began)
        return _read(directory, _relative(root, directory), began, writer or "")
    except Exception as error:  # a stranger's file may be wrong in any way; the list must go on
        return unreadable(root, directory, _reason(error), began)


def unreadable(root: Path, directory: Path, problem: str, began: float = 0.0) -> Summary:
    """Return the summary of a run of which nothing is known but why."""
    name = directory.name.encode(errors="replace").decode()
    return Summary(_relative(root, directory), name, "unreadable", began, clip(problem, 500))


def _relative(root: Path, directory: Path) -> str:
    return "" if directory == root else os.path.relpath(directory, root)


def _unsafe(root: Path, directory: Path) -> str:
    for name in (DATABASE, CONFIG_FILE, EVAL_INFO):
        if leads_out(root, directory / name):
            return f"{name} is a link that leads out of {root}. It is not followed."
    if (directory / _LOG).exists() and not (directory / _INDEX).exists():
        return f"{_LOG} lies there without {_INDEX}, and reading it would write that. Copy the run with both."
    return ""


def _reason(error: Exception) -> str:
    if isinstance(error, ProctorError):
        return str(error.__cause__ or error)
    return f"it is not as Proctor writes it ({type(error).__name__}: {clip(str(error))})"


def _read(directory: Path, path: str, began: float, writer: str) -> Summary:
    with EpisodeTable(directory / DATABASE, read_only=True) as table:
        identity, tasks = table.meta("identity"), table.meta("tasks") or []
        per_task, stopped = table.meta("n_episodes") or 0, table.meta("stopped")
        settings = read_run_settings(directory)
        plan = make_plan([Task(**task) for task in tasks], per_task, (identity or {}).get("seed", 0))
        whole = read_episodes(table, shard_of(plan, *shard_in(settings)))
        stored = read_result(table, whole.ended.plan, whole)
    ended, plan, sessions = whole.ended, whole.ended.plan, list(stored.sessions)
    wall, _ = wall_and_startup(sessions)
    env, policy = settings.get("env") or {}, settings.get("policy") or {}
    complete = bool(plan) and ended.ended == len(plan)
    return Summary(
        path=path,
        name=clip(str(settings.get("job_name") or directory.name)),
        state="running" if writer else "complete" if complete else "stopped" if stopped else "incomplete",
        began=sessions[0].started_at if sessions else began,
        benchmark=clip(str(env.get("type") or "").rpartition(":")[2] or "unknown"),
        policy=clip(str(policy.get("path") or policy.get("type") or "unknown")),
        tasks=len(tasks),
        planned=len(plan),
        ended=ended.ended,
        errors=ended.errors,
        rate=stored.results.overall,
        wall=max(wall, time.time() - sessions[-1].started_at) if writer and sessions else wall,
        ending="" if writer or complete or stopped else clip(why_incomplete(sessions) or "", 500),
        rule=clip(stopped["rule"]) if stopped else "",
        writer=writer,
        speed=_speed(sessions, ended) if writer else 0.0,
    )


def _speed(sessions: Sequence[RunSession], ended: Outcomes) -> float:
    if not sessions:
        return 0.0
    began = sessions[-1].started_at
    return int((ended["ended_at"] >= began).sum()) / max(1e-3, time.time() - began)
