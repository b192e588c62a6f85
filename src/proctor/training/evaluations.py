"""The evaluations beside a training: every due checkpoint through the engine, with processes that stay warm."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from proctor.benchmarks.facts import learn
from proctor.config.flags import Nested
from proctor.config.load import build_settings
from proctor.config.registry import COMPACT, benchmark_path
from proctor.config.settings import Settings
from proctor.engine.evaluation import check_interpreter, evaluate_settings
from proctor.engine.warm_processes import WarmProcesses
from proctor.errors import IdentityError
from proctor.events import Watcher
from proctor.plan import make_plan
from proctor.replay.run_films import film_run
from proctor.report.summary import write_run_report
from proctor.results import Evaluation
from proctor.training.checkpoints import Checkpoint
from proctor.training.dataset import check_evaluations

EVALUATIONS = "eval"
"""The folder in a training's own that holds a run directory for every evaluated checkpoint."""


class _Notes(Watcher):
    """Tells what the engine says of an evaluation; what it says of every one of them, once."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told: set[str] = set()

    def note(self, message: str) -> None:
        """Tell it."""
        if message not in self._told:
            self._told.add(message)
            self._tell(message)


class CheckpointEvaluations:
    """Evaluates checkpoints, one at a time, into a folder each.

    Args:
        settings: of every evaluation, without its policy's path and its folder.
        training: the folder of the training.
        tell: is told, in a line each, what the user should read.
    """

    def __init__(self, settings: Nested, training: Path, tell: Callable[[str], None]) -> None:
        self._tree, self._training = settings, training
        self._notes = _Notes(tell)
        self._warm = WarmProcesses()

    def check(self, kind: str, trackers: Nested) -> Settings:
        """Refuse settings that no checkpoint could be evaluated with: names, values, tasks, packages.

        Args:
            kind: of the policies that will come, as `--policy.type` has it.
            trackers: settings of the training's trackers, checked with them.
        """
        tree = copy.deepcopy({**self._tree, **trackers})
        tree["policy"] = {**tree["policy"], "type": kind, "path": str(self._training)}
        settings = build_settings(tree)
        check_interpreter(settings)
        facts = learn(benchmark_path(settings.env.type), settings.env)
        self._plan = make_plan(facts.tasks, settings.eval.n_episodes, settings.seed)
        return settings

    def check_dataset(self, dataset: Path, kind: str) -> None:
        """Refuse to test a policy of a kind on what it is trained on, or on what it cannot learn from that."""
        check_evaluations(dataset, self._plan, known_tasks_only=kind == COMPACT)

    def folder(self, checkpoint: Checkpoint) -> Path:
        """Return where the evaluation of a checkpoint goes."""
        return self._training / EVALUATIONS / checkpoint.path.name

    def evaluate(self, checkpoint: Checkpoint) -> Evaluation:
        """Evaluate a checkpoint, or go on with its evaluation. Raises `ProctorError` before it has begun."""
        tree = copy.deepcopy(self._tree)
        tree["policy"] = {**tree["policy"], "path": str(checkpoint.policy)}
        tree["output_dir"] = str(self.folder(checkpoint))
        try:
            settings = build_settings(tree)
            try:
                evaluation = evaluate_settings(settings, [self._notes], warm=self._warm)
            except IdentityError:  # begun with other settings, which may change until there is a first point
                self._put_away(self.folder(checkpoint))
                evaluation = evaluate_settings(settings, [self._notes], warm=self._warm)
            evaluation = film_run(evaluation, settings, self._notes)
        except BaseException:
            self._warm.close()
            raise
        if evaluation.error is not None or evaluation.stopped_by is not None:
            self._warm.close()
        report = write_run_report(evaluation)
        if report.problem is not None:
            self._notes.note(report.problem)
        return evaluation

    @staticmethod
    def _put_away(folder: Path) -> None:
        """Give an unfinished evaluation another name, under which nobody goes on with it."""
        number = next(n for n in itertools.count(1) if not folder.with_name(f"{folder.name}.earlier-{n}").exists())
        folder.rename(folder.with_name(f"{folder.name}.earlier-{number}"))

    def __enter__(self) -> CheckpointEvaluations:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._warm.close()


def policy_kind(trainer: str) -> str:
    """Return the kind of policy that a trainer's checkpoints hold, as `--policy.type` has it."""
    return COMPACT if trainer == COMPACT else "lerobot"
