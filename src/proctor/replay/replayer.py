"""Runs the stored actions of a run through its simulators alone, and compares what comes of it with the run.

The engine is the one that runs any evaluation, with its workers, retries and limits. Only who acts is another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from proctor.config.flags import merge
from proctor.config.load import build_settings
from proctor.config.registry import known_benchmarks
from proctor.engine.evaluation import check_interpreter
from proctor.engine.executors.local import Coordinator
from proctor.engine.executors.protocol import Ending, RunContext
from proctor.engine.executors.run_order import RunOrder
from proctor.engine.interrupts import Interrupts
from proctor.engine.policy_session import looked_at
from proctor.engine.preparation import LoadedPolicy, Preparation, PreparedRun
from proctor.engine.rollout import PolicyView
from proctor.engine.workforce import worker_range
from proctor.errors import NoPicturesError, UsageError
from proctor.events import Watcher
from proctor.files import clip
from proctor.identity import differences
from proctor.machine.processes import open_file_limit
from proctor.machine.resources import available_memory, usable_cores
from proctor.machine.scratch import scratch_folder
from proctor.plan import Plan, chosen
from proctor.policies.protocol import PolicySpec
from proctor.replay.differences import EpisodeDifference, Play, difference
from proctor.store.bundles import shareable
from proctor.store.episodes import EpisodeTable
from proctor.store.outcomes import FAILURE, SUCCESS, UNKNOWN, Outcomes
from proctor.store.run_directory import RunDirectory
from proctor.store.schema import Attempt, EpisodeRecord, Ledger, RunningEpisode
from proctor.store.stored_run import StoredRun
from proctor.store.trajectories import unpack_trajectory
from proctor.types import NO_VIDEOS, BenchmarkSpec, EpisodeKey, Feature

_NOT_COMPARED = ("policy", "renderer", "eval", "seed", "rename_map")
"""Parts of an identity that a replay does not have, or takes from the run."""


@dataclass
class Replay:
    """What a replay came to."""

    asked: int
    """How many episodes were to be replayed."""
    pixels: str
    """Why pixels were not compared; empty if they were, or if the policy saw none."""
    elsewhere: tuple[str, ...] = ()
    """In what benchmark and machine are not those of the run."""
    same: int = 0
    steps: int = 0
    differing: list[EpisodeDifference] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Episodes that could not be replayed, and why."""
    filmed: list[EpisodeKey] = field(default_factory=list)
    """Episodes that have a video now, and are the same."""
    ending: Ending = field(default_factory=Ending)


class ReplayLedger(Ledger):
    """Takes episodes that were replayed, compares each with the stored one, and keeps what differs."""

    def __init__(self, table: EpisodeTable, seen: PolicyView, view: PolicyView, replay: Replay) -> None:
        self._table, self._seen, self._view, self._replay = table, seen, view, replay

    def running(self) -> list[RunningEpisode]:
        """Return none: a replay is not resumed."""
        return []

    def write(
        self,
        records: Iterable[EpisodeRecord],
        attempts: Iterable[Attempt] = (),
        running: Iterable[RunningEpisode] = (),
    ) -> None:
        """Compare what has ended."""
        for record in records:
            if record.status == "error":
                self._replay.failed.append(f"{record.task} episode {record.episode_index}: {record.error}")
                continue
            self._replay.steps += record.steps
            found = difference(self._stored(record), _play(record), self._seen, self._view)
            if found is not None:
                self._replay.differing.append(found)
                continue
            self._replay.same += 1
            if record.video_path is not None:
                self._replay.filmed.append(record.key)

    def check(self) -> None:
        """Nothing is kept that could be lost."""

    def _stored(self, record: EpisodeRecord) -> Play:
        (before,) = self._table.find([record.key])
        trajectory = self._table.trajectory(record.key)
        assert trajectory is not None, "only what has actions is replayed"
        return Play(before, trajectory)


def _play(record: EpisodeRecord) -> Play:
    return Play(record, unpack_trajectory(record.trajectory))


class Replayer:
    """Replays episodes of one run.

    Args:
        run: the run.
        given: settings that hold instead of the run's own: `env` (where its simulators are, and which), `limits`,
            and `eval`.
        pixels: whether pictures are drawn and compared where that is possible.
        tell: who is told what the user should know.
    """

    def __init__(
        self,
        run: StoredRun,
        given: Mapping[str, Any] | None = None,
        pixels: bool = True,
        tell: Callable[[str], None] = lambda words: None,
    ) -> None:
        self._run, self._tell = run, tell
        self._seen_spec = _spec_of(run)
        self.settings = build_settings(merge({**settings_of(run), "policy": {"type": "zero"}}, dict(given or {})))
        check_interpreter(self.settings)
        self.why_no_pixels = ""
        with ExitStack() as stack:
            self.folder = stack.enter_context(scratch_folder("proctor-replay-"))
            self._preparation = Preparation(self.settings, self.folder / "logs")
            self._check_tasks()
            self.prepared = self._prepare(pixels)
            self._stack = stack.pop_all()  # all went well: it is closed at the end
        self.elsewhere = tuple(
            f"{name}: {before} in the run, {now} here"
            for name, before, now in differences(*map(_comparable, (run.identity, self.prepared.identity)))
        )

    def _check_tasks(self) -> None:
        run = self._run
        if list(self._preparation.facts.tasks) != list(run.tasks):
            raise UsageError(
                f"{run.path}: the tasks of {run.benchmark} are not those of the run here, so its episodes cannot "
                "be replayed. Use the versions that it ran with, or give --env.type."
            )

    @property
    def seen(self) -> PolicyView:
        """What the policy looked at in the run."""
        spec = self.prepared.spec
        # What is not there under other settings was a camera's: of all else a benchmark has one kind only.
        other = looked_at(self._seen_spec, spec) - spec.every.keys()
        pictures = {key: Feature((), "uint8", drawn=True) for key in other}
        return PolicyView.of(self._seen_spec, dataclasses.replace(spec, features={**spec.features, **pictures}))

    def __enter__(self) -> Replayer:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def replay(
        self,
        plan: Plan,
        watcher: Watcher,
        interrupts: Interrupts,
        film: RunDirectory | None = None,
    ) -> Replay:
        """Replay some episodes of the run, which have finished and kept their actions.

        Args:
            plan: these.
            watcher: who is told of progress.
            interrupts: what stops it.
            film: where their videos go, if they are filmed.
        """
        workers = worker_range(
            self.settings.eval.batch_size,
            episodes=max(1, len(plan)),
            cores=usable_cores(),
            memory=available_memory() // 2,
            files=open_file_limit(),
            on_gpu=self.prepared.on_gpu,
        )
        found = Replay(len(plan), self.why_no_pixels, self.elsewhere)
        prepared = self.prepared if film is not None else dataclasses.replace(self.prepared, films=NO_VIDEOS)
        with self._run.table() as table, ExitStack() as stack:
            order = RunOrder(
                settings=self.settings,
                directory=film or RunDirectory(self.folder),
                before=Outcomes(plan),
                pending=plan,
                workers=workers,
                prepared=prepared,
                recipe=self._preparation.recipe(prepared),
                trajectories=table.packed_trajectory,
            )
            view = PolicyView.of(prepared.policy.spec, prepared.spec)
            ledger = ReplayLedger(table, self.seen, view, found)
            found.ending = Coordinator(order, RunContext(stack, interrupts, watcher), ledger).run()
        return found

    def _prepare(self, pixels: bool) -> PreparedRun:
        """Settle what draws: what drew in the run, or nothing."""
        if pixels:
            try:
                prepared = self._settle(self._seen_spec)
            except NoPicturesError as error:
                self.why_no_pixels = str(error)
            else:
                before, now = self._run.identity.get("renderer"), prepared.identity["renderer"]
                if before == now:
                    return prepared
                self.why_no_pixels = f"they were drawn by {before}, and here is {now}"
        prepared = self._settle(self._blind_spec())
        if not pixels and PolicyView.of(self._seen_spec, prepared.spec).drawn:
            self.why_no_pixels = "they were left out"
        return prepared

    def _settle(self, spec: PolicySpec) -> PreparedRun:
        policy = LoadedPolicy(
            self.settings.policy, spec, identity={"fingerprint": "stored"}, versions={}, stored=True
        )
        return self._preparation.settle(policy, self._tell)

    def _blind_spec(self) -> PolicySpec:
        """Return what the policy needs, without the pictures that it looked at."""
        behind = self._behind()
        looked = looked_at(self._seen_spec, behind) & behind.every.keys()
        keys = sorted(key for key in looked if not behind.every[key].drawn)
        return dataclasses.replace(self._seen_spec, observation_keys=tuple(keys))

    def _behind(self) -> BenchmarkSpec:
        return self._preparation.spec_behind(self._seen_spec.env_processors)


def _spec_of(run: StoredRun) -> PolicySpec:
    if run.policy_spec is None:
        raise UsageError(f"{run.path} does not say what its policy looked at, so it cannot be replayed.")
    return run.policy_spec


def settings_of(run: StoredRun) -> dict[str, Any]:
    """Return what it takes to run episodes of a run again, but for a policy."""
    own = {name: run.settings.get(name) or {} for name in ("env", "limits", "rename_map")}
    # Nothing is lost by a stop, so it comes at once.
    given = {**run.identity.get("eval", {}), "n_episodes": run.per_task, "stop_grace": 0.0}
    return {**own, "seed": run.identity["seed"], "eval": given}


def check_names_no_code(run: StoredRun, given: Mapping[str, Any]) -> None:
    """Refuse to run code that a bundle names: it may be anybody's. Whoever wants that names it.

    Raises:
        UsageError: says what to give.
    """
    env = {**(run.settings.get("env") or {}), **(given.get("env") or {})}
    asked = given.get("env") or {}
    if env.get("type") not in known_benchmarks() and "type" not in asked:
        raise UsageError(
            f"the bundle's benchmark is {clip(env.get('type'))}, which does not come with an installed package. "
            "If you have its code and trust it, name it: --env.type=file.py:Class"
        )
    if ":" in str(env.get("task")) and "task" not in asked:
        raise UsageError(
            f"the bundle's task {clip(env.get('task'))} names a module to import. If you trust it, name it: "
            f"--env.task={clip(env.get('task'))}"
        )
    foreign = [name for name in _spec_of(run).env_processors or () if not str(name).startswith("proctor.")]
    if foreign:
        raise UsageError(
            f"the bundle's policy has environment processors of its own ({clip(', '.join(foreign))}), whose code "
            "a bundle does not bring. Replay the run directory instead."
        )


def _comparable(identity: Mapping[str, Any]) -> dict[str, Any]:
    # Paths by their last part, as a bundle has them.
    return {name: shareable(value) for name, value in identity.items() if name not in _NOT_COMPARED}


def replayable(run: StoredRun, words: str = "") -> tuple[Plan, list[str]]:
    """Return the episodes of a run that can be replayed, all of them or those that are named.

    Returns them, and what is wrong with others that were named.

    Raises:
        UsageError: there are none.
    """
    asked = chosen(run.plan, words) if words else run.plan
    places = run.plan.places_of(asked)
    finished = places[np.isin(run.ended["state"][places], (FAILURE, SUCCESS, UNKNOWN))]
    with run.table() as table:
        kept = [int(place) for place in finished if table.keeps_trajectory(run.plan[int(place)].key)]
    without: list[str] = []
    if words:
        known = set(finished.tolist())
        without = [f"{run.plan[int(place)]} has not finished" for place in places if int(place) not in known]
        without += [f"{run.plan[place]} has no stored actions" for place in sorted(known - set(kept))]
    elif len(kept) < len(finished):
        without = [f"{len(finished) - len(kept)} finished episodes have no stored actions"]
    if not kept:
        reason = without[0] if words and without else "none of its episodes has stored actions"
        raise UsageError(f"{run.path}: {reason}: there is nothing to replay.")
    return run.plan.at(np.array(kept, np.int64)), without
