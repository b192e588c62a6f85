"""A run as it lies on disk: the one way from a run directory to its settings, plan, episodes and sessions.

It writes nothing. Each part is read when it is first asked for, and kept. A run may be anybody's, and may be going
on: whatever in it is not as Proctor writes it is a `StoreError` in one line.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from proctor.config.settings import comma_list
from proctor.config.yaml_files import CONFIG_FILE, read_run_settings, shard_in
from proctor.errors import StoreError, UsageError
from proctor.files import as_written_by_proctor, check_folder, clip, read_json, read_regular
from proctor.identity import Identity
from proctor.plan import Plan, make_plan, shard_of
from proctor.policies.names import short_name
from proctor.policies.protocol import PolicySpec
from proctor.store.episodes import EpisodeTable
from proctor.store.outcomes import Outcomes, read_outcomes
from proctor.store.run_directory import BUNDLE_NAME, DATABASE, SHARD_DIRECTORIES, RunDirectory, Shard
from proctor.store.schema import EpisodeRecord, Note, RewardCurve, RunningEpisode, RunSession
from proctor.store.sqlite_file import is_begun
from proctor.store.videos import video_file
from proctor.types import EpisodeKey, Task

MOST_LISTED = 50_000
"""Episodes up to which a run is listed one by one: held in memory as records, and written into `eval_info.json`.
Beyond it single episodes are left to `run.sqlite`, and read from there when somebody wants to see them."""


_MOST_NAME = 4096


class StoredRecords(Sequence[EpisodeRecord]):
    """The records of the episodes that have ended, in plan order.

    Args:
        ended: which they are.
        path: the `run.sqlite` that has them.
        held: all of them by their place, if they are few enough to be listed.
    """

    def __init__(self, ended: Outcomes, path: Path, held: dict[int, EpisodeRecord] | None = None) -> None:
        self._ended, self.path, self.held = ended, path, held

    @property
    def listed(self) -> bool:
        """Whether they are few enough to be shown one by one."""
        return self.held is not None

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        return self._ended.at()

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, number: int) -> EpisodeRecord: ...

    @overload
    def __getitem__(self, number: slice) -> list[EpisodeRecord]: ...

    def __getitem__(self, number: int | slice) -> EpisodeRecord | list[EpisodeRecord]:
        if isinstance(number, slice):
            return self.at(self._places[number].tolist())
        return self.at([int(self._places[number])])[0]

    def __iter__(self) -> Iterator[EpisodeRecord]:
        return self._read(self._places.tolist())

    def at(self, places: Iterable[int]) -> list[EpisodeRecord]:
        """Return the records at some places of the plan. Raises `StoreError` if the table can be read no more."""
        return list(self._read(map(int, places)))

    def _read(self, places: Iterable[int]) -> Iterator[EpisodeRecord]:
        if self.held is not None:
            yield from map(self.held.__getitem__, places)
            return
        with EpisodeTable(self.path, read_only=True) as table:
            yield from table.find(self._ended.plan[place].key for place in places)


class StoredRun:
    """The run in a directory.

    Args:
        path: the run directory.
        planned: the plan whose episodes are read; the run's own, from its table, if there is none.
    """

    def __init__(self, path: Path, planned: Plan | None = None) -> None:
        self.path = path
        self._here = threading.local()  # SQLite ties an open file to its thread
        if planned is not None:
            self.planned = planned
            self.directory = RunDirectory(path, Shard.named(path.name))

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return the run in a directory, read: also one that goes on. Raises `UsageError` if there is none."""
        check_folder(path, "run directory")
        run = cls(path.absolute())
        try:
            if not is_begun(path / DATABASE):
                if any(path.glob(SHARD_DIRECTORIES)):
                    raise UsageError(f"{path} holds shards that are not merged yet. Run: proctor merge {path}")
                raise UsageError(f"{path} holds no run: there is no {DATABASE}.")
            _ = run.settings
            with as_written_by_proctor(path), run.table():
                if run.meta["identity"] is None or run.meta["tasks"] is None:
                    raise UsageError(f"{path} holds a run that never started: there is nothing to show.")
                _ = run.records, run.sessions, run.notes, run.versions
        except StoreError as error:
            raise UsageError(str(error)) from error
        return run

    @classmethod
    def empty(cls, path: Path, planned: Plan) -> Self:
        """Return a run of which nothing is known, because nothing could be read."""
        run = cls(path, planned)
        run._episodes = Outcomes(planned), {}
        run.stopped, run.running, run.sessions = None, [], []
        return run

    @contextmanager
    def table(self) -> Iterator[EpisodeTable]:
        """Open the run's table for reading; whatever is asked of the run inside is read from the same one."""
        outer: EpisodeTable | None = getattr(self._here, "table", None)
        if outer is not None:
            yield outer
            return
        with EpisodeTable(self.path / DATABASE, read_only=True) as table:
            self._here.table = table
            try:
                yield table
            finally:
                self._here.table = None

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """The settings, as in `config.yaml`. Raises `UsageError` if they cannot be read."""
        return read_run_settings(self.path)

    @cached_property
    def meta(self) -> Mapping[str, Any]:
        """What its table says beside the episodes; `None` for what it does not say."""
        with self.table() as table:
            return {
                key: table.meta(key)
                for key in ("identity", "tasks", "n_episodes", "reproducible", "policy_spec", "only")
            }

    @property
    def identity(self) -> Identity:
        """What its results depend on."""
        identity: Identity = self.meta["identity"] or {}
        return identity

    @cached_property
    def tasks(self) -> Sequence[Task]:
        """All its tasks; none of a run that never started."""
        return [Task(**task) for task in self.meta["tasks"] or ()]

    @property
    def per_task(self) -> int:
        """How many episodes of each task are planned."""
        return self.meta["n_episodes"] or 0

    @property
    def only(self) -> str | None:
        """The words that choose its episodes from the whole plan; `None`: it is of all of them."""
        only: str | None = self.meta["only"]
        return only

    @property
    def reproducible(self) -> bool:
        """Whether the same command gives the same episodes."""
        return bool(self.meta["reproducible"])

    @cached_property
    def policy_spec(self) -> PolicySpec | None:
        """What its policy looked at and when, and what it returned; `None` of a run that does not say so."""
        stored = self.meta["policy_spec"]
        return None if stored is None else PolicySpec.from_wire(stored)

    @cached_property
    def directory(self) -> RunDirectory:
        """Where its files lie. A shard that was stopped at once may have a name and no settings yet."""
        shard = Shard.named(self.path.name)
        if shard is None and os.path.lexists(self.path / CONFIG_FILE):
            number, of = shard_in(self.settings)
            shard = Shard(number, of) if of > 1 else None
        return RunDirectory(self.path, shard)

    @cached_property
    def planned(self) -> Plan:
        """The whole plan; of a shard, its part."""
        plan = make_plan(self.tasks, self.per_task, self.identity.get("seed", 0), self.only)
        shard = self.directory.shard
        return plan if shard is None else shard_of(plan, *shard)

    @cached_property
    def versions(self) -> Mapping[str, str]:
        """What it ran with, as its result says; of one that has no result yet, as its identity does."""
        try:
            return {str(name): str(value) for name, value in read_json(self.directory.result)["versions"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {**self.identity["versions"], "cpu": self.identity["machine"]["cpu"]}

    @property
    def policy(self) -> str:
        """The policy, as the user named it."""
        policy = self.settings.get("policy") or {}
        return str(policy.get("path") or policy.get("type") or "unknown policy")

    @property
    def policy_name(self) -> str:
        """The policy in a word or two."""
        policy = self.settings.get("policy") or {}
        return short_name(str(policy.get("type") or "unknown policy"), str(policy.get("path") or ""))

    @property
    def tags(self) -> list[str]:
        """The words that its user found it by."""
        return comma_list(str(self.settings.get("tags") or ""))

    @property
    def labels(self) -> dict[str, Any]:
        """What its user says of it: tags, a description and notes."""
        description, notes = (self.settings.get(name) for name in ("description", "notes"))
        return {
            "tags": self.tags,
            "description": None if description is None else str(description),
            "notes": None if notes is None else str(notes),
        }

    @property
    def benchmark(self) -> str:
        """The benchmark's name."""
        return str((self.settings.get("env") or {}).get("type") or "unknown benchmark").rpartition(":")[2]

    @property
    def name(self) -> str:
        """What to call it: the name its user gave it, else its directory's."""
        return str(self.settings.get("job_name") or self.path.name)

    @cached_property
    def bundle(self) -> str | None:
        """The name of the bundle that it was unpacked from, to be read for a while; `None`: it is a run's own."""
        try:
            return clip(read_regular(self.path / BUNDLE_NAME, _MOST_NAME).decode(errors="replace"))
        except OSError:
            return None

    @property
    def shown(self) -> str:
        """Where it is, to people."""
        return str(self.path) if self.bundle is None else self.bundle

    @cached_property
    def _episodes(self) -> tuple[Outcomes, dict[int, EpisodeRecord] | None]:
        """How the planned episodes ended, and their records by place if they are few enough to be listed."""
        with self.table() as table:
            held: dict[int, EpisodeRecord] | None = {} if table.count() <= MOST_LISTED else None
            return read_outcomes(table, self.planned, held), held

    @property
    def all_ended(self) -> Outcomes:
        """How every planned episode ended, those beyond the place where a rule stopped the run among them."""
        return self._episodes[0]

    @cached_property
    def stopped(self) -> Mapping[str, Any] | None:
        """Where and why a rule ended it, if one did."""
        with self.table() as table:
            stopped: Mapping[str, Any] | None = table.meta("stopped")
            return stopped

    @cached_property
    def ended(self) -> Outcomes:
        """How the episodes ended that count: all, or those up to the place where a rule stopped the run.

        What ended beyond is kept, for when the run is continued, but counted it would favour quick ones.
        """
        return self.all_ended if self.stopped is None else self.all_ended.first(self.stopped["episodes"])

    @property
    def plan(self) -> Plan:
        """The episodes that count."""
        return self.ended.plan

    @cached_property
    def records(self) -> StoredRecords:
        """The records of those that ended, in plan order."""
        return StoredRecords(self.ended, self.path / DATABASE, self._episodes[1])

    @property
    def all_records(self) -> StoredRecords:
        """The records of all planned episodes that ended, those beyond the place where the run stopped too."""
        return StoredRecords(self.all_ended, self.path / DATABASE, self._episodes[1])

    @cached_property
    def running(self) -> Sequence[RunningEpisode]:
        """Those that were started and have not ended."""
        with self.table() as table:
            return [one for one in table.running() if self.plan.place_of(one.key) is not None]

    @property
    def complete(self) -> bool:
        """Whether every episode that counts has ended."""
        return self.ended.ended == len(self.plan)

    @cached_property
    def sessions(self) -> Sequence[RunSession]:
        """When it was worked on."""
        with self.table() as table:
            return table.sessions(self.all_ended["ended_at"][self.all_ended.at()])

    @property
    def wall(self) -> float:
        """The seconds in which at least one session worked."""
        return wall_seconds(self.sessions)

    @property
    def startup(self) -> float:
        """The seconds in which its processes started, of all sessions."""
        return sum(session.startup for session in self.sessions)

    @property
    def ending(self) -> str | None:
        """Why it went no further, as its sessions tell; `None` if it is complete."""
        told = [] if self.complete else [session for session in self.sessions if session.ending is not None]
        return max(told, key=attrgetter("started_at")).ending if told else None

    @cached_property
    def notes(self) -> Sequence[Note]:
        """What the user was told while it went on, oldest first."""
        with self.table() as table:
            return table.notes()

    def find(self, keys: Iterable[EpisodeKey]) -> Iterator[EpisodeRecord]:
        """Go through the records of single episodes that are known to have ended, in the order of `keys`."""
        with self.table() as table:
            yield from table.find(keys)

    def reward_curves(self, places: Iterable[int]) -> dict[EpisodeKey, RewardCurve]:
        """Return the rewards of the episodes at some places that ended, of those that have any."""
        with as_written_by_proctor(self.path), self.table() as table:
            return table.reward_curves(self.plan[place].key for place in places)

    def video(self, place: int) -> Path | None:
        """Return the video of an episode of its plan, if it has one."""
        return video_file(self.path, self.plan[place].key) if self.ended["filmed"][place] else None


def wall_seconds(sessions: Iterable[RunSession]) -> float:
    """Return the seconds in which at least one session worked."""
    wall = reached = 0.0
    for session in sorted(sessions, key=attrgetter("started_at")):
        wall += max(0.0, session.ended_at - max(reached, session.started_at))
        reached = max(reached, session.ended_at)
    return wall
