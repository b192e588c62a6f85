"""What the viewer's list says of a run: read without touching it, and strictly, because it may be anybody's."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from proctor.config.yaml_files import CONFIG_FILE
from proctor.errors import ProctorError
from proctor.files import clip
from proctor.policies.names import checkpoint_in
from proctor.report.console import duration, moment
from proctor.results import ScoredRun
from proctor.stats.intervals import Rate, success_rate
from proctor.store.outcomes import Outcomes
from proctor.store.run_directory import DATABASE, EVAL_INFO, Shard
from proctor.store.schema import RunSession
from proctor.viewer.files import leads_out

State = Literal["running", "complete", "stopped", "incomplete", "unreadable"]
STATES: Mapping[State, str] = {
    "running": "running", "complete": "complete", "stopped": "stopped by a rule", "incomplete": "incomplete",
    "unreadable": "unreadable",
}  # fmt: skip

_LOG, _INDEX = f"{DATABASE}-wal", f"{DATABASE}-shm"
SOURCES = (DATABASE, _LOG, CONFIG_FILE)
"""What a summary is read from."""

_NOTHING = success_rate(0, 0)
_MOST_TAGS, _MOST_TAG, _MOST_PATH = 20, 40, 400


@dataclass(frozen=True)
class RunSummary:
    """What a list says of a run. `problem` says why the rest could not be read."""

    path: str
    """Relative to the folder of runs; "" if that is the run itself."""
    name: str
    state: State
    began: float
    problem: str = ""
    benchmark: str = ""
    policy: str = ""
    """As its user named it."""
    policy_name: str = ""
    """In a word or two."""
    training: str = ""
    """The folder of the training that its policy is a checkpoint of; empty if it is none that says so."""
    step: int | None = None
    """The training step of that checkpoint."""
    tags: tuple[str, ...] = ()
    description: str = ""
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
        return _plain(self.path) or "."

    @property
    def final(self) -> bool:
        """Whether its rate is what it will be."""
        return self.state in ("complete", "stopped")

    @property
    def said(self) -> str:
        """What a filter looks for words in."""
        parts = (self.name, self.folder, STATES[self.state], self.benchmark, self.policy, self.policy_name)
        return " ".join((*parts, *self.tags, self.description, self.problem or self.ending or self.rule)).lower()

    @property
    def shards_of(self) -> str | None:
        """The path of the run that it is a shard of, by its own name; `None` if it is none."""
        place, _, name = self.path.rpartition("/")
        return place if Shard.named(name) else None

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
        """How far a run is that goes on, by name. Its rate is in one place, the headline of its report."""
        return {
            "ended": f"{self.ended} of {self.planned}" if self.planned else "starting",
            "errors": str(self.errors) if self.errors else "none",
            "speed": f"{self.speed:.2f} episodes/s" if self.speed else "–",
            "left": duration(self.left) if self.left is not None else "–",
        }


def summarise(root: Path, directory: Path, writer: str | None) -> RunSummary:
    """Read a run's summary. If something is wrong with the run, the summary says what."""
    try:
        began = (directory / DATABASE).lstat().st_mtime
    except OSError:
        began = 0.0
    try:
        problem = _unsafe(root, directory)
        if problem:
            return unreadable(root, directory, problem, began)
        run = ScoredRun(directory)
        with run.table():
            return _read(run, _relative(root, directory), began, writer or "")
    except Exception as error:  # a stranger's file may be wrong in any way; the list must go on
        return unreadable(root, directory, _reason(error), began)


def unreadable(root: Path, directory: Path, problem: str, began: float = 0.0) -> RunSummary:
    """Return the summary of a run that cannot be read, with the reason."""
    name = _plain(directory.name)
    return RunSummary(_relative(root, directory), name, "unreadable", began, clip(problem, 500))


def _relative(root: Path, directory: Path) -> str:
    return "" if directory == root else os.path.relpath(directory, root)


def _plain(text: str) -> str:
    return text.encode(errors="replace").decode()


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


def _read(run: ScoredRun, path: str, began: float, writer: str) -> RunSummary:
    ended, stopped, sessions = run.all_ended, run.stopped, run.sessions
    checkpoint = checkpoint_in(run.policy)
    complete = bool(run.planned) and ended.ended == len(run.planned)
    return RunSummary(
        path=path,
        name=clip(run.name),
        state="running" if writer else "complete" if complete else "stopped" if stopped else "incomplete",
        began=sessions[0].started_at if sessions else began,
        benchmark=clip(run.benchmark),
        policy=clip(run.policy, _MOST_PATH),
        policy_name=clip(run.policy_name),
        training=clip(checkpoint.training, _MOST_PATH) if checkpoint else "",
        step=checkpoint.step if checkpoint else None,
        tags=tuple(_plain(clip(tag, _MOST_TAG)) for tag in run.tags[:_MOST_TAGS]),
        description=clip(run.settings.get("description") or "", _MOST_PATH),
        tasks=len(run.tasks),
        planned=len(run.planned),
        ended=ended.ended,
        errors=ended.errors,
        rate=run.results.overall,
        wall=max(run.wall, time.time() - sessions[-1].started_at) if writer and sessions else run.wall,
        ending="" if writer or complete or stopped else clip(run.ending or "", 500),
        rule=clip(stopped["rule"]) if stopped else "",
        writer=writer,
        speed=_speed(sessions, ended) if writer else 0.0,
    )


def _speed(sessions: Sequence[RunSession], ended: Outcomes) -> float:
    if not sessions:
        return 0.0
    began = sessions[-1].started_at
    return int((ended["ended_at"] >= began).sum()) / max(1e-3, time.time() - began)


def matching(summaries: Sequence[RunSummary], query: Mapping[str, str]) -> list[RunSummary]:
    """Return the runs with the tag that a request names, if it does, and with all words that it looks for."""
    tag, words = query.get("tag", ""), query.get("q", "").lower().split()

    def fits(run: RunSummary) -> bool:
        said = run.said
        return (not tag or tag in run.tags) and all(word in said for word in words)

    return [run for run in summaries if fits(run)]
