"""A training from its settings to its curve: the trainer in a process of its own, evaluations beside it.

The trainer never waits for an evaluation: it writes checkpoints, this process looks for them, and those that are
due are evaluated one after the other, in the order of their steps. All that a second start needs is on disk: the
checkpoints, the evaluations' run directories, and `training.json`.
"""

from __future__ import annotations

import contextlib
import os
import signal
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from proctor.engine.interrupts import Interrupts
from proctor.engine.process import wait_readable
from proctor.errors import EXIT_EPISODE_ERRORS, EXIT_FAILED, EXIT_OK, ProctorError, RunError, UsageError
from proctor.files import clip
from proctor.store.filesystem import prepare_directory
from proctor.store.lock import RunLock
from proctor.training.checkpoints import Checkpoint, Checkpoints
from proctor.training.curve import CurvePoint
from proctor.training.display import LogReader, TrainingDisplay
from proctor.training.evaluations import EVALUATIONS, CheckpointEvaluations, policy_kind
from proctor.training.record import TrainingRecord, begin_or_resume, remove_unbegun
from proctor.training.settings import TrainingSettings
from proctor.training.trackers import TrainingTrackers
from proctor.training.trainers import TrainerProcess, check_trainer, trainer_command

_LOOK = 0.25
"""Seconds between two looks for a new checkpoint."""

_PATIENCE = 10.0
"""Seconds that a trainer is given to stop by itself."""

_NICE = 10
"""How far evaluations stand back behind training where both want a core."""


@dataclass(frozen=True)
class TrainingOutcome:
    """How a training ended: its record, and what stopped it, if something did."""

    record: TrainingRecord
    stopped_by: signal.Signals | None = None

    @property
    def status(self) -> int:
        """The exit status of the command."""
        if self.stopped_by is not None:
            return 128 + self.stopped_by
        if self.record.failures:
            return EXIT_FAILED
        return EXIT_EPISODE_ERRORS if any(point.errors for point in self.record.curve.points) else EXIT_OK


class TrainingRun:
    """Runs one training, or follows one.

    Args:
        settings: all settings.
        display: who is told how it goes.
    """

    def __init__(self, settings: TrainingSettings, display: TrainingDisplay) -> None:
        self._settings, self._display = settings, display
        self._place = settings.output_dir
        self._checkpoints = Checkpoints(self._place)
        self._trainer: TrainerProcess | None = None

    def run(self) -> TrainingOutcome:
        """Train and evaluate what is left to do. Raises `UsageError` before anything has started.

        Raises:
            RunError: the trainer has failed. What it has saved is kept; the same command goes on from there.
        """
        with ExitStack() as stack:
            evaluations, trackers = self._prepare(stack)
            is_new = not self._place.exists()
            interrupts = stack.enter_context(Interrupts())
            if not self._find_folder(interrupts):
                return TrainingOutcome(TrainingRecord(self._settings.flags, str(Path.cwd())), interrupts.first)
            stack.enter_context(RunLock(self._place))
            self._record = begin_or_resume(self._settings)
            ended = self._record.trained and self._settings.kind != "followed"
            if ended and not left_to_evaluate(self._settings, self._record, over=True):
                self._display.note("there is nothing to do: the training has ended, and what was due is evaluated")
                return TrainingOutcome(self._record)
            self._keep(ids=trackers.start(self._record, self._place))
            self._start_trainer(stack)
            try:
                stopped_by = self._evaluate_as_they_come(evaluations, trackers, interrupts)
            except UsageError:
                if is_new:
                    remove_unbegun(self._place)
                raise
            finally:
                if self._trainer is not None:
                    self._trainer.stop(_PATIENCE, interrupts)
            if self._record.curve.points:
                self._report()
            trackers.conclude(self._record, stopped_by)
            return TrainingOutcome(self._record, stopped_by)

    def _prepare(self, stack: ExitStack) -> tuple[CheckpointEvaluations | None, TrainingTrackers]:
        """Return what evaluates and who is told, when all that can be checked beforehand has been."""
        settings = self._settings
        check_trainer(settings)
        begin_or_resume(settings)  # a refused command leaves nothing behind
        if settings.evaluation is None:
            return None, stack.enter_context(TrainingTrackers(None, self._display.note))
        evaluations = CheckpointEvaluations(settings.evaluation, self._place, self._display.note)
        checked = evaluations.check(policy_kind(settings.kind), settings.trackers)
        if settings.dataset is not None:
            evaluations.check_dataset(settings.dataset, settings.kind)
        trackers = stack.enter_context(TrainingTrackers(checked, self._display.note))
        return stack.enter_context(evaluations), trackers

    def _find_folder(self, interrupts: Interrupts) -> bool:
        """Make the training's folder, or wait for it where another trainer makes it; says whether it is there."""
        if self._settings.kind != "followed":
            prepare_directory(self._place, 0)
            return True
        if not self._place.is_dir():
            self._display.note(f"waiting for {self._place}")
        while not self._place.is_dir() and not interrupts.count:
            wait_readable([interrupts], _LOOK)
        return not interrupts.count

    def _start_trainer(self, stack: ExitStack) -> None:
        if self._settings.kind == "followed" or self._record.trained:
            return
        resumed = self._checkpoints.last()
        if resumed is not None:
            self._display.note(f"training goes on from step {resumed.step:,}")
        logs = self._place / "logs"
        progress = logs / "progress.log"
        stack.enter_context(LogReader(progress, self._display))
        self._trainer = TrainerProcess(trainer_command(self._settings, resumed), logs / "trainer.log", progress)
        # From here on: the trainer keeps its share of the cores, and evaluations take what it leaves.
        with contextlib.suppress(OSError):
            os.nice(_NICE)

    def _evaluate_as_they_come(
        self, evaluations: CheckpointEvaluations | None, trackers: TrainingTrackers, interrupts: Interrupts
    ) -> signal.Signals | None:
        """Go on until there is nothing left to do; returns the signal that came first, if one did."""
        while not interrupts.count:
            over = self._is_over()
            due = left_to_evaluate(self._settings, self._record, over)
            if due and evaluations is not None:
                self._display.evaluation_began(due[0].step, len(due) - 1)
                stopped_by = self._evaluate(due[0], evaluations, trackers)
                if stopped_by is not None:
                    return stopped_by
            elif over:
                self._keep(trained=True)
                break
            else:
                trainer = [] if self._trainer is None else [self._trainer.pidfd]
                wait_readable([interrupts, *trainer], _LOOK)
        return interrupts.first

    def _is_over(self) -> bool:
        """Whether no further checkpoint will come. Raises `RunError` if the trainer has failed."""
        if self._settings.kind == "followed":
            last = self._checkpoints.last()
            return last is not None and last.step >= (self._settings.last_step or last.last_step or last.step + 1)
        if self._trainer is not None and self._trainer.has_ended:
            trainer, self._trainer = self._trainer, None
            code = trainer.reap()
            if code == UsageError.exit_status:
                raise UsageError(trainer.complaint(code))
            if code != 0:
                raise RunError(f"{trainer.complaint(code)}\nTo go on: proctor train --resume={self._place}")
            self._keep(trained=True)
        return self._trainer is None

    def _evaluate(
        self, checkpoint: Checkpoint, evaluations: CheckpointEvaluations, trackers: TrainingTrackers
    ) -> signal.Signals | None:
        """Evaluate a checkpoint and keep what came of it; returns the signal that stopped it, if one did."""
        step = checkpoint.step
        if self._settings.kind == "followed" and checkpoint.dataset is not None:
            evaluations.check_dataset(checkpoint.dataset, self._settings.kind)
        try:
            evaluation = evaluations.evaluate(checkpoint)
            if evaluation.stopped_by is not None:
                return evaluation.stopped_by
            if evaluation.error is not None:
                raise evaluation.error
        except ProctorError as error:
            words = clip(str(error), 600)
            self._keep(failures={**self._record.failures, step: words})
            self._display.evaluation_failed(step, words)
            return None
        point = CurvePoint.of(step, evaluation, f"{EVALUATIONS}/{checkpoint.path.name}")
        self._keep(curve=self._record.curve.with_point(point))
        best = self._record.curve.best
        if best is not None:
            self._checkpoints.mark_best(best.step)
        self._report()
        trackers.log(point)
        self._display.evaluation_ended(point, self._record.curve)
        return None

    def _report(self) -> None:
        """Write the report, for which a package may be missing."""
        try:
            from proctor.training.report import write_training_report

            write_training_report(self._record, self._place)
        except (ProctorError, ImportError) as error:
            self._display.note(f"no report was written: {error}")

    def _keep(self, **changes: object) -> None:
        self._record = replace(self._record, **changes)  # type: ignore[arg-type]
        self._record.write(self._place)


def left_to_evaluate(settings: TrainingSettings, record: TrainingRecord, over: bool) -> list[Checkpoint]:
    """Return the checkpoints that are still to be evaluated, in order.

    Args:
        settings: of the training.
        record: what has been evaluated.
        over: whether no further checkpoint will come: then the last is due, too.
    """
    if settings.evaluation is None:
        return []
    whole = Checkpoints(settings.output_dir).whole()
    known = {point.step for point in record.curve.points} | record.failures.keys()
    due = [one for one in whole if one.step % settings.eval_freq == 0 or (over and one == whole[-1])]
    return [one for one in due if one.step not in known]
