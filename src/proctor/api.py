"""Evaluation from Python: in a script, a notebook, or a training loop."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from proctor.config.load import build_settings, known_fields, section
from proctor.config.settings import Settings
from proctor.engine.evaluation import evaluate_settings
from proctor.engine.warm_processes import WarmProcesses
from proctor.errors import UsageError, for_python
from proctor.eval_result import EvalResult
from proctor.files import clip
from proctor.machine.scratch import scratch_folder
from proctor.policies.live import named_settings, prepare
from proctor.policies.protocol import LivePolicy
from proctor.replay.run_films import film_run
from proctor.report.console import PatientConsole
from proctor.report.display import make_display
from proctor.report.summary import write_run_report
from proctor.results import Evaluation
from proctor.trackers.run_trackers import Trackers

_BENCHMARK = "metaworld"

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

_speaking = for_python({name: name for name in known_fields(Settings)} | _ARGUMENTS)


class Evaluator:
    """Evaluates again and again, as a training loop does, and keeps everything warm in between.

    Worker processes, simulators, GL contexts and the process that holds a LeRobot policy stay from one evaluation
    to the next. What cannot be used again, because its code or its surroundings have changed or because it died,
    is started anew: results are those of `evaluate`, bit for bit.

        with proctor.Evaluator(task="reach-v3", n_episodes=10) as evaluator:
            for step in range(1, 1001):
                ...
                if step % 100 == 0:
                    result = evaluator.evaluate(policy, preprocessor=preprocessor, postprocessor=postprocessor)

    All arguments are those of `evaluate`, and hold for every evaluation. Without `with`, call `close()`.
    """

    @_speaking
    def __init__(
        self,
        *,
        benchmark: str | None = None,
        task: str | Sequence[str] | None = None,
        n_episodes: int | None = None,
        seed: int | None = None,
        workers: int | None = None,
        display: str | None = None,
        env: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(task, str) and isinstance(task, Iterable):
            task = list(task)
        given = {
            "env.type": benchmark,
            "env.task": task,
            "eval.n_episodes": n_episodes,
            "eval.batch_size": workers,
            "seed": seed,
            "display": display,
        }
        self._tree = _settings_tree(given, env, settings)
        self._warm: WarmProcesses | None = WarmProcesses()

    @_speaking
    def evaluate(
        self,
        policy: Any,
        *,
        preprocessor: Any = None,
        postprocessor: Any = None,
        output_dir: str | Path | None = None,
    ) -> EvalResult:
        """Evaluate a policy as it is now, and return its episodes; see `proctor.evaluate`."""
        warm = self._warm
        if warm is None:
            raise UsageError("this Evaluator is closed; make another.")
        try:
            return self._evaluate(policy, preprocessor, postprocessor, output_dir, warm)
        except UsageError:
            raise  # nothing was started, or it has ended
        except BaseException:
            warm.close()
            raise

    def close(self) -> None:
        """End all processes."""
        warm, self._warm = self._warm, None
        if warm is not None:
            warm.close()

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _evaluate(
        self,
        policy: Any,
        preprocessor: Any,
        postprocessor: Any,
        output_dir: str | Path | None,
        warm: WarmProcesses | None,
    ) -> EvalResult:
        tree = {name: dict(value) if isinstance(value, Mapping) else value for name, value in self._tree.items()}
        if output_dir is not None:
            tree["output_dir"] = str(output_dir)
        with scratch_folder("proctor-live-") as folder:
            live: LivePolicy | None = None
            if isinstance(policy, str | os.PathLike):
                if preprocessor is not None or postprocessor is not None:
                    raise UsageError(
                        "preprocessor and postprocessor belong to a policy object; a checkpoint has its own."
                    )
                named = named_settings(policy)
            else:
                named, live = prepare(policy, preprocessor, postprocessor, folder)
                for name in () if isinstance(live, Path) else section(tree, "policy").keys() - {"placement"}:
                    raise UsageError(
                        f"'policy.{name}' among the settings: it is for a policy that Proctor loads, "
                        "and this one is an object of yours."
                    )
            tree["policy"] = {**section(tree, "policy"), **named}
            evaluation = _evaluate_tree(tree, live, warm)
        if evaluation.stopped_by is signal.SIGINT:
            raise KeyboardInterrupt
        if evaluation.stopped_by is not None:
            signal.raise_signal(evaluation.stopped_by)
        return EvalResult(evaluation)


@_speaking
def evaluate(
    policy: Any,
    *,
    preprocessor: Any = None,
    postprocessor: Any = None,
    benchmark: str | None = None,
    task: str | Sequence[str] | None = None,
    n_episodes: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    output_dir: str | Path | None = None,
    display: str | None = None,
    env: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> EvalResult:
    """Evaluate a policy and return its episodes.

    Works in a plain script without a `__main__` guard, in a notebook and inside a training loop: simulators
    run in processes of their own. To evaluate often, use `Evaluator`.

    Args:
        policy: what `--policy.path` takes (a checkpoint's directory or hub id, `"ws://HOST:PORT"`,
            `"file.py:Name"`, `"module:Name"`), a kind of policy (`"expert"`, `"random"`, `"zero"`), or an object:
            a LeRobot policy, a `proctor.TorchPolicy`, another `proctor.Policy`, anything with `act(observation)`,
            or a function.
        preprocessor: of a LeRobot policy that is an object, as its training loop holds it.
        postprocessor: likewise.
        benchmark: the benchmark's name; Meta-World by default.
        task: task, group, or several of them.
        n_episodes: episodes per task; 50 by default.
        seed: episode i of every task runs with `seed + i`; 1000 by default.
        workers: simulator processes; 0, the default: as many as the cores make useful.
        output_dir: run directory; a new one under `outputs/eval` by default. An existing run is resumed.
        display: "auto", "live", "plain", "json" or "none".
        env: the benchmark's own settings, such as `{"obs_type": "state"}`.
        settings: any other settings, nested as in `config.yaml`, such as `{"eval": {"max_attempts": 1}}`.

    Raises:
        ProctorError: what stopped the evaluation; finished episodes are kept in the run directory.
        KeyboardInterrupt: after Ctrl-C, when everything finished is stored.
    """
    evaluator = Evaluator(
        benchmark=benchmark, task=task, n_episodes=n_episodes, seed=seed, workers=workers, display=display,
        env=env, settings=settings,
    )  # fmt: skip
    return evaluator._evaluate(policy, preprocessor, postprocessor, output_dir, warm=None)


def _evaluate_tree(tree: dict[str, Any], live: LivePolicy | None, warm: WarmProcesses | None) -> Evaluation:
    settings = build_settings(tree)
    for name in ("min_success", "junit"):
        if getattr(settings, name) is not None:
            raise UsageError(f"--{name} is what a command ends with; here, look at the result: success_rate.")
    watcher = make_display(PatientConsole(), settings)
    with Trackers(settings, watcher.note) as trackers:
        evaluation = film_run(evaluate_settings(settings, [watcher, trackers], live, warm), settings, watcher)
        trackers.conclude(evaluation)
    report = write_run_report(evaluation)
    if report.problem is not None:
        watcher.note(report.problem)
    if evaluation.error is not None:
        raise evaluation.error
    return evaluation


def _settings_tree(
    given: Mapping[str, Any], env: Mapping[str, Any] | None, settings: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return all settings as one tree. Refuses what is given twice: one of the two would be discarded."""
    for argument, values in (("settings", settings), ("env", env)):
        if not isinstance(values, Mapping | None):
            raise UsageError(f"{argument}={clip(values)}: must be a dict.")
    tree: dict[str, Any] = dict(settings or {})
    if "resume" in tree:
        raise UsageError("'resume' among the settings: give the run directory as output_dir=... instead.")
    for name in ("env", "eval", "policy"):
        tree[name] = section(tree, name)
    for name, value in (env or {}).items():
        if name in tree["env"]:
            raise UsageError(f"'{name}' is given twice: in env and among the settings.")
        tree["env"][name] = value
    for setting, argument in _ARGUMENTS.items():
        first, _, rest = setting.rpartition(".")
        place, value = tree[first] if first else tree, given.get(setting)
        if rest in place and (value is not None or setting not in given):
            raise UsageError(f"'{setting}' among the settings: give it as {argument}=... instead, and once.")
        if value is not None:
            place[rest] = value
    tree["env"].setdefault("type", _BENCHMARK)
    return tree
