"""An evaluation in several processes, from settings to the merged result."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from proctor.config.plain_values import to_plain
from proctor.config.settings import Settings
from proctor.config.yaml_files import CONFIG_FILE
from proctor.engine.dispatch import Dispatch
from proctor.engine.evaluation import check_interpreter, output_directory, run_outline, with_failures
from proctor.engine.executors.protocol import Ending, Workforce
from proctor.engine.interrupts import Interrupts
from proctor.engine.merging import merge_runs
from proctor.engine.preparation import Preparation
from proctor.engine.process import STEADY
from proctor.engine.stopping import rules_for
from proctor.errors import Interrupted, ProctorError, UsageError
from proctor.events import RunStart, Stage, Watcher
from proctor.installation import package_environment
from proctor.parallel.launcher import Launcher
from proctor.parallel.setup import ShardOptions, ShardSetup, choose_setup
from proctor.parallel.shard import ShardRecipe
from proctor.plan import make_plan, shard_of
from proctor.recording.assembly import check_can_record
from proctor.results import Evaluation, ScoredRun
from proctor.store.episodes import EpisodeTable
from proctor.store.filesystem import missing_folders, prepare_directory
from proctor.store.lock import RunLock
from proctor.store.outcomes import Outcomes
from proctor.store.run_directory import (
    DATABASE,
    SHARD_DIRECTORIES,
    RunDirectory,
    Shard,
    check_continues,
    check_same_choice,
)
from proctor.store.stored_run import StoredRun

LOCK = "launcher.lock"


def run_parallel(settings: Settings, options: ShardOptions, watcher: Watcher) -> Evaluation:
    """Run one evaluation in several processes and merge them. Raises `UsageError` before anything has started."""
    settings = with_failures(settings)
    check_parallel(settings)
    return _Parallel(settings, options, watcher).run()


def check_parallel(settings: Settings) -> None:
    """Refuse settings that make no sense with shards on this machine."""
    if settings.cluster.address is not None:
        raise UsageError(
            "proctor parallel runs on this machine: leave --cluster.address out, or use proctor eval."
        )
    if not settings.eval.use_async_envs:
        raise UsageError("--eval.use_async_envs=false is for a debugger and one process: use proctor eval.")
    check_interpreter(settings)
    if settings.eval.recording:
        check_can_record()


class _Parallel:
    """One run of the launcher."""

    def __init__(self, settings: Settings, options: ShardOptions, watcher: Watcher) -> None:
        self._settings, self._watcher = settings, watcher
        self._target = RunDirectory(output_directory(settings))
        self._target.check_usable()
        self._preparation = Preparation(settings, self._target.logs)
        tasks = self._preparation.facts.tasks
        self._plan = make_plan(tasks, settings.eval.n_episodes, settings.seed, settings.only)
        self._outline = run_outline(settings, self._target, self._plan)
        self._rules = rules_for(settings, self._plan)
        self._earlier = earlier_runs(self._target)
        self._options = options._replace(num_shards=check_count(self._target, self._earlier, options.num_shards))

    def run(self) -> Evaluation:
        """Run what is missing in every shard, and merge."""
        path = self._target.path
        created = missing_folders(path)
        prepare_directory(path, len(self._plan))
        try:
            with RunLock(path, LOCK):
                try:
                    return self._run()
                finally:
                    if path in created and not earlier_runs(self._target):
                        # A command that was refused or stopped before its run began leaves nothing behind.
                        for name in (CONFIG_FILE, LOCK):
                            (path / name).unlink(missing_ok=True)
        finally:
            self._target.remove_if_unused(created)

    def _run(self) -> Evaluation:
        with Interrupts() as interrupts, ExitStack() as stack:
            stack.callback(self._watcher.ended)
            stored = next(filter(None, (run.stored_identity() for run in self._earlier)), None)
            self._watcher.planned(self._outline)
            self._watcher.doing(Stage("loading the policy"))
            try:
                with interrupts.abruptly():
                    setup = choose_setup(self._preparation, self._options, stored, interrupts, self._watcher.note)
            except Interrupted:
                return self._nothing(Ending(interrupts.first))
            before = self._already(setup)
            self._check_not_serial(setup.shards, before)
            self._target.write_config(to_plain(self._settings))
            ending = self._launch(setup, before, interrupts)
            return replace(self._merge(ending), nothing_to_do=not len(before.pending))

    def _already(self, setup: ShardSetup) -> Outcomes:
        """Return what earlier sessions have ended; where two tell of an episode, the one that finished it.

        Raises:
            IdentityError: they are another run's.
        """
        found = Outcomes(self._plan)
        for run in self._earlier:
            with EpisodeTable(run.path / DATABASE, read_only=True) as table:
                if table.meta("identity") is not None:
                    check_continues(table, setup.identity, self._settings.eval.n_episodes, run.path)
                    begun, before = table.meta("n_episodes"), table.meta("only")
                    check_same_choice(begun, before, self._settings.only, run.path)
                for row in table.episodes():
                    found.add(row, {})
        return found

    def _check_not_serial(self, shards: int, before: Outcomes) -> None:
        if shards > 1 and self._earlier == [self._target] and len(before.pending):
            raise UsageError(
                f"{self._target.path} holds a run of one process, whose episodes shards would run again. "
                f"Go on with it: proctor eval --resume={self._target.path}"
            )

    def _launch(self, setup: ShardSetup, before: Outcomes, interrupts: Interrupts) -> Ending:
        if self._rules is not None:
            self._rules.begin(before)
            if self._rules.stop is not None:
                return Ending()  # what is stored says enough already
        waiting = set((self._plan.places_of(before.pending) % setup.shards).tolist())
        left = [self._recipe(setup, number) for number in range(setup.shards) if number in waiting]
        for shard in left:
            shard.run.begin(setup.identity)
        workforce = Workforce(sum(min(setup.workers, len(shard.plan)) for shard in left), "shards")
        self._watcher.started(RunStart(self._outline, before, *workforce))
        settings = self._settings
        dispatch = Dispatch(
            before,
            (),
            max_attempts=settings.eval.max_attempts,
            rules=self._rules,
            exitfirst=settings.exitfirst,
        )
        launcher = Launcher(left, dispatch, self._settings, setup.notes, self._watcher, interrupts)
        ending = launcher.run()
        for shard in launcher.cut_short:
            shard.say_why_it_ended(ending.words or "a stopping rule over all shards was satisfied")
        return ending

    def _recipe(self, setup: ShardSetup, number: int) -> ShardRecipe:
        path, shard = self._target.path, Shard(number, setup.shards)
        return ShardRecipe(
            name=shard.name,
            run=RunDirectory(path, shard if shard.of > 1 else None),
            plan=shard_of(self._plan, *shard),
            flags=[
                f"--config_path={path / CONFIG_FILE}",
                *setup.flags,
                f"--eval.shard_id={shard.number}",
                f"--eval.num_shards={shard.of}",
                f"--output_dir={path}",
                "--display=json",
                # The launcher reports for all.
                "--report_to=none",
                "--wandb.enable=false",
                # Of the whole plan, which no shard sees; the launcher asks the rules.
                "--eval.stop_when=none",
                "--eval.until_better_than=none",
                "--min_success=none",
            ],
            environment={**package_environment(), **STEADY, **setup.shard_environment(number)},
            log=self._target.logs / f"{shard.name}.log",
        )

    def _merge(self, ending: Ending) -> Evaluation:
        """Put together what there is, also of a run that was cut short."""
        if not any(StoredRun(run.path).tasks for run in earlier_runs(self._target)):
            return self._nothing(ending)
        try:
            decide = self._rules.decide if self._rules is not None else lambda ended: None
            merged = merge_runs([self._target.path], self._target.path, decide).evaluation
            # A shard's settings have its share of the machine; those of the whole are the user's.
            self._target.write_config(to_plain(self._settings))
        except ProctorError as error:
            return self._nothing(replace(ending, error=ending.error or error))
        return replace(merged, stopped_by=ending.stopped_by, error=ending.error)

    def _nothing(self, ending: Ending) -> Evaluation:
        return Evaluation(ScoredRun.empty(self._target.path, self._plan), {}, ending.stopped_by, ending.error)


def earlier_runs(target: RunDirectory) -> list[RunDirectory]:
    """Return what lies in a directory already: the merged run, if there is one, and the shards that have begun."""
    found = [Shard.named(place.name) for place in sorted(target.path.glob(SHARD_DIRECTORIES))]
    shards = [RunDirectory(target.path, shard) for shard in found if shard is not None]
    return [run for run in (target, *shards) if run.holds_a_run()]


def check_count(target: RunDirectory, earlier: Sequence[RunDirectory], asked: int | None) -> int | None:
    """Return how many shards there are to be: as many as lie there, where nobody says otherwise."""
    shards = [run.shard for run in earlier if run.shard is not None]
    if not shards:
        return asked
    counts = {shard.of for shard in shards}
    wanted = asked or min(counts)
    if counts == {wanted}:
        return wanted
    names = ", ".join(shard.name for shard in shards if shard.of != wanted)
    raise UsageError(
        f"{target.path} holds shards of another count: {names}. Use the same --num-shards, or finish them in one "
        f"process: proctor merge {target.path}, then proctor eval --resume={target.path}"
    )
