"""Results of any harness, read into one form: Proctor's runs and bundles, LeRobot's and vla-eval's files.

A foreign file says less than a run: LeRobot's `eval_info.json` has neither seeds nor settings, vla-eval's result
has no rewards. What a file does not say stays unknown here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proctor.benchmarks.metaworld.tasks import GROUPS
from proctor.errors import UsageError
from proctor.files import clip, given_path, open_regular, parse_json, read_regular
from proctor.store.bundles import MAGIC, opened
from proctor.store.run_directory import DATABASE
from proctor.store.schema import EpisodeRecord
from proctor.store.stored_run import StoredRun

EVAL_INFO = "eval_info.json"
VLA_EVAL = "*_aggregate.json"
"""What `vla-eval export` calls its results."""

MOST_BYTES = 256 << 20
"""Of a foreign file."""


@dataclass(frozen=True, slots=True)
class HarnessEpisode:
    """What a harness says of one episode; `None` for what it does not say."""

    index: int
    seed: int | None = None
    success: bool | None = None
    sum_reward: float | None = None
    steps: int | None = None
    error: bool = False
    """Whether it could not be run."""
    record: EpisodeRecord | None = None
    """Of a Proctor run."""


@dataclass(frozen=True)
class HarnessTask:
    """One task's episodes, by their index, and what the task can be known by."""

    name: str
    group: str
    task_id: int | None
    episodes: Mapping[int, HarnessEpisode]
    prompt: str | None = None

    @property
    def rate(self) -> tuple[int, int]:
        """Successes and finished episodes."""
        finished = [one for one in self.episodes.values() if not one.error]
        return sum(one.success is True for one in finished), len(finished)


@dataclass(frozen=True)
class HarnessResult:
    """A whole result.

    Attributes:
        shown: where it is, to people.
        kind: whose it is.
        tasks: its tasks.
        settings: what it says of how it was made, by the name of our setting.
        unknown: what it does not say, and a reader would want to know.
        run: the run, if it is one of Proctor's.
    """

    shown: str
    kind: str
    tasks: Sequence[HarnessTask]
    settings: Mapping[str, Any] = field(default_factory=dict)
    unknown: str = ""
    run: StoredRun | None = None

    @property
    def episodes(self) -> int:
        """How many it has."""
        return sum(len(task.episodes) for task in self.tasks)

    @property
    def errors(self) -> int:
        """How many of them could not be run."""
        return sum(one.error for task in self.tasks for one in task.episodes.values())


@contextmanager
def read_result(path: Path) -> Iterator[HarnessResult]:
    """Have the result at a path: a run directory or bundle, LeRobot's or vla-eval's file, or a folder with one.

    Raises:
        UsageError: it is none of them.
    """
    with given_path(path):
        folder = path.is_dir()
        if not folder:
            path.stat()
    if folder and not (path / DATABASE).exists():
        foreign = _foreign_file(path)
        if foreign is not None:
            yield _read_foreign(foreign)
            return
    elif not folder and not _begins_as_bundle(path):
        beside = path.parent
        if path.name != EVAL_INFO or not (beside / DATABASE).exists():
            yield _read_foreign(path)
            return
        path = beside  # a run's own file: the run knows more
    with opened(path) as directory:
        yield read_run(StoredRun.open(directory))


def _begins_as_bundle(path: Path) -> bool:
    with given_path(path):
        descriptor = open_regular(path)
        try:
            return os.read(descriptor, len(MAGIC)) == MAGIC
        finally:
            os.close(descriptor)


def _foreign_file(folder: Path) -> Path | None:
    if (folder / EVAL_INFO).is_file():
        return folder / EVAL_INFO
    found = sorted(folder.glob(VLA_EVAL))
    if len(found) > 1:
        names = ", ".join(one.name for one in found[:5])
        raise UsageError(f"{folder} holds {len(found)} results of vla-eval: name one of {names}.")
    return found[0] if found else None


def read_run(run: StoredRun) -> HarnessResult:
    """Return what a run of Proctor's says: every episode of its plan that has ended."""
    by_task: dict[tuple[str, int], dict[int, HarnessEpisode]] = {}
    for record in run.records:
        episodes = by_task.setdefault((record.task_group, record.task_id), {})
        episodes[record.episode_index] = HarnessEpisode(
            record.episode_index,
            record.seed,
            record.success,
            record.sum_reward,
            record.steps,
            record.status == "error",
            record,
        )
    tasks = [
        HarnessTask(task.name, task.group, task.task_id, by_task.get((task.group, task.task_id), {}), task.prompt)
        for task in run.tasks
    ]
    settings = {"seed": run.identity.get("seed"), "policy": run.policy, "env.type": run.benchmark}
    kind = "Proctor bundle" if run.bundle is not None else "Proctor run"
    return HarnessResult(run.shown, kind, tasks, settings, run=run)


def _read_foreign(path: Path) -> HarnessResult:
    with given_path(path):
        content = read_regular(path, MOST_BYTES)
    try:
        document = parse_json(content)
        for has, read in _READERS:
            if isinstance(document, dict) and has <= document.keys():
                return read(path, document)
    except (ValueError, TypeError, KeyError, AttributeError, LookupError) as error:
        raise UsageError(f"{clip(str(path), 300)} cannot be read as a result: {clip(str(error))}.") from None
    raise UsageError(
        f"{clip(str(path), 300)} is neither a run or bundle of Proctor's, nor LeRobot's {EVAL_INFO}, nor a "
        "result of vla-eval."
    )


def _lerobot(path: Path, document: Mapping[str, Any]) -> HarnessResult:
    """Read LeRobot's schema; its lists have the episodes of a task in the order of their seeds."""
    tasks = []
    for one in document["per_task"]:
        group, task_id, metrics = str(one["task_group"]), int(one["task_id"]), one["metrics"]
        if metrics["successes"] is None:
            raise ValueError("it leaves its episodes to run.sqlite, which is not there")
        columns = zip(metrics["successes"], metrics["sum_rewards"], strict=True)
        episodes = {
            index: HarnessEpisode(index, None, _flag(success), _number(reward))
            for index, (success, reward) in enumerate(columns)
        }
        members = GROUPS.get(group) or (group,)
        name = members[task_id] if 0 <= task_id < len(members) else f"{group} {task_id}"
        tasks.append(HarnessTask(name, group, task_id, episodes))
    return HarnessResult(str(path), f"LeRobot's {EVAL_INFO}", tasks, unknown="its seeds, settings and versions")


def _vla_eval(path: Path, document: Mapping[str, Any]) -> HarnessResult:
    """Read a result of vla-eval's collector. An episode that failed to run has a `failure_reason`."""
    tasks = []
    for one in document["tasks"]:
        rows = one["episodes"]
        episodes = {
            int(row["episode_id"]): HarnessEpisode(
                int(row["episode_id"]),
                None,
                _flag(row["metrics"].get("success")),
                None,
                int(row["steps"]) if row.get("steps") is not None else None,
                bool(row.get("failure_reason")),
            )
            for row in rows
        }
        first = rows[0] if rows else {}
        task_id = first.get("task_id")
        name = str(one["task"])
        group = str(first.get("suite") or name)
        tasks.append(HarnessTask(name, group, task_id if isinstance(task_id, int) else None, episodes, name))
    config = document.get("config") or {}
    params = config.get("params") or {}
    known = {
        "seed": document.get("seed", params.get("seed")),
        "step limit": config.get("max_steps") or params.get("max_steps"),
        "env.type": config.get("benchmark") or document["benchmark"],
        "vla-eval": document["harness_version"],
    }
    settings = {name: value for name, value in known.items() if value is not None}
    partial = ", partial" if document.get("partial") else ""
    return HarnessResult(
        str(path), f"vla-eval's result{partial}", tasks, settings, unknown="rewards and the seed of each episode"
    )


_READERS: Sequence[tuple[set[str], Callable[[Path, Mapping[str, Any]], HarnessResult]]] = (
    ({"per_task", "overall"}, _lerobot),
    ({"benchmark", "tasks", "harness_version"}, _vla_eval),
)


def _flag(value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    if value in (0, 1):
        return bool(value)
    raise ValueError(f"a success of {value!r:.40}")


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
