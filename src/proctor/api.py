"""Evaluation from Python: in a script, a notebook, or a training loop."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proctor.config.load import build_settings, known_fields, section
from proctor.config.settings import Settings
from proctor.engine.evaluation import evaluate_settings
from proctor.errors import UsageError, for_python
from proctor.files import clip
from proctor.policies.protocol import Policy
from proctor.policies.python import LIVE, as_policy
from proctor.report.console import PatientConsole
from proctor.report.display import make_display
from proctor.report.summary import write_run_report
from proctor.results import Evaluation, task_key
from proctor.stats.intervals import Rate
from proctor.store.outcomes import ERROR
from proctor.store.schema import EpisodeRecord
from proctor.trackers.run_trackers import Trackers

if TYPE_CHECKING:
    import pandas as pd


class EvalResult:
    """The episodes of an evaluation, with their rates.

    Iterating gives `EpisodeRecord`s in plan order; those of a run too long to be listed are read from its
    directory when they are asked for. Every rate is k out of n with a 95 % interval; errors are outside it.
    """

    def __init__(self, evaluation: Evaluation) -> None:
        self._results, self._records = evaluation.results, evaluation.records
        self._planned = len(evaluation.plan)
        self.path = evaluation.directory
        self.info = evaluation.info

    def __iter__(self) -> Iterator[EpisodeRecord]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def complete(self) -> bool:
        """Whether every planned episode ended."""
        return len(self._records) == self._planned

    @property
    def errors(self) -> list[EpisodeRecord]:
        """The episodes that could not be run."""
        return self._records.at(self._results.ended.at(ERROR))

    @property
    def success_rate(self) -> Rate:
        """The rate over all finished episodes; of a run that a rule ended, with the rule's interval."""
        return self._results.overall

    @property
    def rate_if_errors_failed(self) -> Rate:
        """The rate that would hold if every error had been a failure."""
        return self._results.result.if_errors_failed

    def per_task(self) -> dict[str, Rate]:
        """Return the rate of each task."""
        tasks = self._results.tasks
        return {
            name: self._results.of([task_key(task) for task in tasks if task.name == name])
            for name in dict.fromkeys(task.name for task in tasks)
        }

    def per_group(self) -> dict[str, Rate]:
        """Return the rate of each group."""
        return {task.group: self._results.of_group(task.group) for task in self._results.tasks}

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per episode. Needs pandas."""
        import pandas as pd

        return pd.DataFrame([record.to_row() for record in self._records])

    def __repr__(self) -> str:
        return f"EvalResult(success {self.success_rate}, {len(self)} episodes, path={str(self.path)!r})"


_ARGUMENTS = {
    "seed": "seed",
    "display": "display",
    "output_dir": "output_dir",
    "eval.n_episodes": "n_episodes",
    "eval.batch_size": "workers",
    "env.type": "benchmark",
    "env.task": "task",
    "policy.path": "policy",
    "policy.type": "policy",
}
"""Settings that `evaluate` has an argument for."""


@for_python({name: name for name in known_fields(Settings)} | _ARGUMENTS)
def evaluate(
    policy: Any,
    *,
    benchmark: str = "metaworld",
    task: str | Sequence[str] = "",
    n_episodes: int = 50,
    seed: int = 1000,
    workers: int = 0,
    output_dir: str | Path | None = None,
    display: str = "auto",
    env: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> EvalResult:
    """Evaluate a policy and return its episodes.

    Works in a plain script without a `__main__` guard, in a notebook and inside a training loop: simulators
    run in processes of their own, a live policy object stays in this one.

    Args:
        policy: a policy object (a `proctor.Policy`, anything with `act(observation)`, or a function), or a
            string: `"expert"`, `"random"`, `"zero"`, `"file.py:Name"` or `"module:Name"`.
        benchmark: the benchmark's name.
        task: task, group, or several of them.
        n_episodes: episodes per task.
        seed: episode i of every task runs with `seed + i`.
        workers: simulator processes; 0: as many as the cores make useful.
        output_dir: run directory; a new one under `outputs/eval` by default. An existing run is resumed.
        display: "auto", "live", "plain", "json" or "none".
        env: the benchmark's own settings, such as `{"obs_type": "state"}`.
        settings: any other settings, nested as in `config.yaml`, such as `{"eval": {"max_attempts": 1}}`.

    Raises:
        ProctorError: what stopped the evaluation; finished episodes are kept in the run directory.
        KeyboardInterrupt: after Ctrl-C, when everything finished is stored.
    """
    for argument, values in (("settings", settings), ("env", env)):
        if not isinstance(values, Mapping | None):
            raise UsageError(f"{argument}={clip(values)}: must be a dict.")
    tree: dict[str, Any] = dict(settings or {})
    _refuse_twice(tree, env or {})
    tree["env"] = {
        **section(tree, "env"),
        **(env or {}),
        "type": benchmark,
        "task": list(task) if isinstance(task, Iterable) and not isinstance(task, str) else task,
    }
    tree["eval"] = {**section(tree, "eval"), "batch_size": workers, "n_episodes": n_episodes}
    tree |= {"seed": seed, "display": display}
    if output_dir is not None:
        tree["output_dir"] = str(output_dir)
    live: Policy | None = None
    if isinstance(policy, str):
        tree["policy"] = {**section(tree, "policy"), ("path" if ":" in policy else "type"): policy}
    else:
        live = as_policy(policy, repr(policy))
        name = getattr(policy, "__name__", type(policy).__name__)
        # Known by its class; what it holds is told by its fingerprint, if it has one.
        tree["policy"] = {**section(tree, "policy"), "type": "python", "path": f"{LIVE}{name}"}
    evaluation = _evaluate(tree, live)
    if evaluation.stopped_by is signal.SIGINT:
        raise KeyboardInterrupt
    if evaluation.stopped_by is not None:
        signal.raise_signal(evaluation.stopped_by)
    return EvalResult(evaluation)


def _evaluate(tree: dict[str, Any], live: Policy | None) -> Evaluation:
    settings = build_settings(tree)
    watcher = make_display(PatientConsole(), settings)
    with Trackers(settings, watcher.note) as trackers:
        evaluation = evaluate_settings(settings, [watcher, trackers], live)
        trackers.conclude(evaluation)
    report = write_run_report(evaluation)
    if report.problem is not None:
        watcher.note(report.problem)
    if evaluation.error is not None:
        raise evaluation.error
    return evaluation


def _refuse_twice(settings: Mapping[str, Any], env: Mapping[str, Any]) -> None:
    """Refuse a setting that has an argument of its own: one of the two would be discarded."""
    for setting, argument in _ARGUMENTS.items():
        path = setting.split(".")
        places: list[Any] = [settings]
        for name in path[:-1]:
            places = [place.get(name) or {} for place in places]
        if path[0] == "env":
            places.append(env)
        if any(isinstance(place, Mapping) and path[-1] in place for place in places):
            raise UsageError(f"'{setting}' among the settings: give it as {argument}=... instead.")
