"""A run directory: where everything of one run lies, and how it is opened, resumed and closed.

run.sqlite       every episode, the moment it ends
config.yaml      the resolved settings
eval_info.json   the result, in LeRobot's schema and more (of a shard: shard_K_of_N.json)
videos/          eval_episode_N.mp4 per task
dataset/         the recorded episodes as a LeRobotDataset; recording/ holds them until they are in it
logs/            what simulators and policies printed
lock             held by the process that writes
"""

from __future__ import annotations

import contextlib
import re
import shutil
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from proctor.config.yaml_files import CONFIG_FILE, dump_yaml
from proctor.errors import IdentityError, RunLockedError, UsageError
from proctor.files import clip, given_path
from proctor.identity import Identity, check_identity
from proctor.plan import Plan
from proctor.store.episodes import EpisodeTable
from proctor.store.filesystem import write_text
from proctor.store.lock import RunLock
from proctor.store.outcomes import Outcomes, read_outcomes
from proctor.store.sqlite_file import is_begun
from proctor.store.videos import file_name, video_place
from proctor.types import EpisodeKey, Task

DATABASE = "run.sqlite"
EVAL_INFO = "eval_info.json"
FILMING = ".film-"
"""How the name of a folder begins in which videos lie until they are whole."""
BUNDLE_NAME = "bundle.txt"
"""In a directory that a bundle was unpacked into: the bundle's name."""


_OF_ONE_COMMAND = ("output_dir", "resume", "display", "exitfirst", "junit")


def default_directory(job_name: str, now: float | None = None, kind: str = "eval") -> Path:
    """Return LeRobot's default: outputs/eval/DATE/TIME_JOB, made unique if two runs start in one second."""
    moment = time.localtime(now)
    base = Path("outputs", kind) / time.strftime("%Y-%m-%d", moment)
    stem = f"{time.strftime('%H-%M-%S', moment)}_{file_name(job_name)}"
    candidate, number = base / stem, 2
    while candidate.exists():
        candidate, number = base / f"{stem}_{number}", number + 1
    return candidate


class Shard(NamedTuple):
    """One of several parts of a plan, counted from 0."""

    number: int
    of: int

    @property
    def name(self) -> str:
        """What its directory and its result are called.

        >>> Shard(0, 3).name
        'shard_0_of_3'
        """
        return f"shard_{self.number}_of_{self.of}"

    @classmethod
    def named(cls, name: str) -> Shard | None:
        """Return the shard that a directory's name stands for, or `None`."""
        found = re.fullmatch(r"shard_(\d+)_of_(\d+)", name)
        shard = cls(int(found[1]), int(found[2])) if found else None
        return shard if shard is not None and shard.number < shard.of else None


SHARD_DIRECTORIES = "shard_*_of_*"


class RunDirectory:
    """The layout of a run directory. It owns no open file: `table()` opens the store.

    Args:
        path: where the run lies; its shards lie in directories of their own below.
        shard: the part of the run that this directory is for.
    """

    def __init__(self, path: Path, shard: Shard | None = None) -> None:
        self.shard = shard
        # `--resume` names a shard's own directory.
        self.path = path if shard is None or path.name == shard.name else path / shard.name

    @property
    def result(self) -> Path:
        """Where the result goes. A shard's has a name of its own, so that nobody takes it for the whole."""
        return self.path / (EVAL_INFO if self.shard is None else f"{self.shard.name}.json")

    @property
    def logs(self) -> Path:
        """Where children's output goes."""
        return self.path / "logs"

    def holds_a_run(self) -> bool:
        """Whether there is a run to resume. A file whose process died before it made tables is none."""
        return is_begun(self.path / DATABASE)

    def stored_identity(self) -> Identity | None:
        """Return the identity of the run that is stored here, or `None`."""
        if not self.holds_a_run():
            return None
        with EpisodeTable(self.path / DATABASE) as table:
            identity: Identity | None = table.meta("identity")
            return identity

    def begin(self, identity: Identity) -> None:
        """Store a new run's identity before its first episode: a process with another one is refused at once."""
        self.check_usable()
        self.path.mkdir(parents=True, exist_ok=True)
        with self.table() as table:
            if table.meta("identity") is None:
                table.set_meta("identity", identity)

    def check_usable(self) -> None:
        """Refuse a path that is something else, or that cannot be looked at."""
        with given_path(self.path, "output_dir"):
            try:
                mode = self.path.stat().st_mode
            except FileNotFoundError:
                return
            if not stat.S_ISDIR(mode):
                raise UsageError(f"--output_dir={self.path} is a file. Name a directory.")

    def check_begun(self, resumed: Path | None) -> None:
        """Refuse to begin anew what a user wants to go on with, and shards beside those of another count."""
        shards = self._shards_of_others()
        if resumed is not None and not self.holds_a_run():
            hint = (
                f"It holds shards: run proctor merge {resumed} first, or proctor parallel --resume={resumed}."
                if any(resumed.glob(SHARD_DIRECTORIES))
                else "A shard's directory is to keep its name."
            )
            raise UsageError(f"--resume={resumed}: there is no run at {self.path}. {hint}")
        if shards:
            raise UsageError(
                f"{self.path.parent} holds shards of another count: {', '.join(shards)}. Use the same "
                "--eval.num_shards as they have, or another --output_dir."
            )

    def _shards_of_others(self) -> list[str]:
        if self.shard is None:
            return []
        places = sorted(self.path.parent.glob(SHARD_DIRECTORIES))
        return [place.name for place in places if not place.name.endswith(f"_of_{self.shard.of}")]

    def remove_if_unused(self, created: Sequence[Path]) -> None:
        """Leave nothing behind of a command whose run did not begin: the folders it `created`, deepest first."""
        if self.path not in created or not self.path.exists() or self.holds_a_run():
            return
        try:
            with RunLock(self.path):
                self.remove_leftovers()
                (self.path / "lock").unlink()
        except RunLockedError:
            return  # another process has begun its run here meanwhile
        with contextlib.suppress(OSError):  # what somebody has put something into stays
            if self.logs.exists():
                self.logs.rmdir()
            for folder in created:
                folder.rmdir()

    def table(self) -> EpisodeTable:
        """Open the episode table, creating it if there is none."""
        return EpisodeTable(self.path / DATABASE)

    def write_config(self, config: dict[str, Any]) -> None:
        """Write the resolved settings; `--config_path` and `--resume` read them back.

        Where the run lies and how one command went about it is left out: a copy of the file starts a new run.
        """
        kept = {key: value for key, value in config.items() if key not in _OF_ONE_COMMAND}
        write_text(self.path / CONFIG_FILE, dump_yaml(kept, sort_keys=False))

    def video(self, task: Task, index: int) -> Path:
        """Return the path of an episode's video, as LeRobot names it, relative to the run directory."""
        return Path(video_place(EpisodeKey(task.group, task.task_id, index)))

    def recording(self, key: EpisodeKey) -> Path:
        """Return the folder into which an episode is recorded."""
        return self.path / "recording" / f"{file_name(key.group)}_{key.task_id}" / f"episode_{key.episode_index}"

    def remove_leftovers(self) -> None:
        """Delete half-written files and empty logs that a killed process left."""
        for partial in (*self.path.glob("videos/*/*.part"), *self.path.glob(".*.part")):
            partial.unlink(missing_ok=True)
        for folder in self.path.glob(f"{FILMING}*"):
            shutil.rmtree(folder, ignore_errors=True)
        for log in self.logs.glob("*.log"):
            # A tracker outlives the episodes, and may have said nothing yet.
            if log.stat().st_size == 0 and not log.name.startswith("tracker-"):
                log.unlink(missing_ok=True)


def open_run(
    table: EpisodeTable, identity: Identity, plan: Plan, per_task: int, directory: Path, only: str | None = None
) -> Outcomes:
    """Match a plan, or a shard of it, with what the table holds; returns what has ended, and what is pending.

    A fresh table takes the identity. An existing one must have the same; more episodes per task extend it.
    """
    if table.meta("identity") is None:
        table.set_meta("identity", identity)
    else:
        check_continues(table, identity, per_task, directory)
        check_same_choice(table.meta("n_episodes"), table.meta("only"), only, directory)
    table.set_meta("n_episodes", per_task)
    table.set_meta("only", only)
    return read_outcomes(table, plan)


def check_same_choice(begun: int | None, before: str | None, only: str | None, directory: Path) -> None:
    """Raise `IdentityError` if a run that has begun is of other episodes of its plan than a command asks for."""
    if begun is not None and before != only:
        raise IdentityError(
            f"{directory} holds a run of {_choice(before)}, this command asks for {_choice(only)}. "
            "Ask for the same, or use a new --output_dir."
        )


def _choice(only: str | None) -> str:
    return "the whole plan" if only is None else f"--only={clip(only)}"


def check_continues(table: EpisodeTable, identity: Identity, per_task: int, directory: Path) -> None:
    """Raise `IdentityError` if a command would not continue the run in a table but change it."""
    check_identity(table.meta("identity"), identity, directory)
    before = table.meta("n_episodes") or 0
    if per_task < before:
        raise IdentityError(
            f"{directory} was planned with {before} episodes per task, this command asks for {per_task}. "
            f"Ask for {before} or more, or use a new --output_dir."
        )
