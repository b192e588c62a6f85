"""A run's result in Hugging Face's forms: `model-index` in a model card, and `.eval_results/*.yaml`.

Only fields that the Hub documents are written. Next to the number stands what it takes to judge it: k of n, the
interval, seeds, step limit, versions, and the hashes of the outcomes and of the run as a bundle. A number that
would look better than it is, is not written: a part of a plan is refused, and errors count as failures.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from proctor.config.yaml_files import MOST_BYTES, dump_yaml
from proctor.errors import UsageError
from proctor.files import check_folder, check_regular, clip, given_path, read_regular
from proctor.report.console import count
from proctor.report.front_matter import with_result
from proctor.results import Aggregate, ScoredRun
from proctor.stats.intervals import CONFIDENCE, INTERVAL, Rate
from proctor.store.bundles import bundle_hash
from proctor.store.filesystem import write_text
from proctor.store.videos import file_name

README = "README.md"
EVAL_RESULTS = ".eval_results"
_EVALUATOR = "proctor"
_MOST_VERSIONS = 60
_MOST_README = 16 * MOST_BYTES


@dataclass(frozen=True)
class Listing:
    """Where the Hub lists results of a benchmark.

    Attributes:
        dataset: the id of the dataset that is registered as this benchmark.
        task_id: which of its tasks this is, as its `eval.yaml` says.
    """

    dataset: str
    task_id: str


@dataclass(frozen=True)
class Score:
    """The number that a card shows, and how it came to be."""

    rate: Rate
    method: str
    errors: int
    bundle: str = ""
    """The SHA-256 of the run as a bundle."""

    @property
    def percent(self) -> float:
        """The rate in per cent, as far as anybody reads it."""
        return round(100 * (self.rate.value or 0.0), 4)


def write_card(
    run: ScoredRun,
    folder: Path,
    model: str | None = None,
    listing: Listing | None = None,
    bundle: str | None = None,
) -> list[Path]:
    """Write a run's result into a model's folder; returns the files that have changed.

    Args:
        run: a run that is complete, or that a rule has stopped.
        folder: the model's.
        model: what to call the model if its card has no index yet; the folder's name by default.
        listing: where the Hub lists the benchmark; without it there is no `.eval_results`.
        bundle: the SHA-256 of the bundle that the run was read from, if it was.

    Raises:
        UsageError: the run has no result that stands for its policy, or the folder's files cannot be added to.
        StoreError: a file cannot be written.
    """
    check_folder(folder, "model folder")
    score = replace(scored(run), bundle=bundle or bundle_hash(run))
    readme = folder / README
    texts = {readme: _card(run, score, _read(readme), model or folder.resolve().name)}
    if listing is not None:
        if (folder / EVAL_RESULTS).is_symlink():
            raise UsageError(f"{folder / EVAL_RESULTS} is a link, and is not written through.")
        where = folder / EVAL_RESULTS / f"{_EVALUATOR}_{file_name(f'{listing.dataset}_{listing.task_id}')}.yaml"
        texts[where] = dump_yaml([_entry(run, score, listing)], sort_keys=False, width=1 << 20)
    changed = [path for path, text in texts.items() if _read(path) != text]
    for path in changed:
        with given_path(path.parent):
            path.parent.mkdir(exist_ok=True)
        write_text(path, texts[path])
    return changed


def _read(path: Path) -> str:
    with given_path(path, remedy="Put a plain file there, or take it away."):
        check_regular(path, follow=False)
        content = read_regular(path, _MOST_README) if path.exists() else b""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no UTF-8 text, so nothing can be added to it.") from None


def scored(run: ScoredRun) -> Score:
    """Return the rate that stands for a run's policy. Raises `UsageError` if the run has none."""
    result = run.results.result
    shard = run.directory.shard
    if shard is not None:
        raise UsageError(
            f"{run.path} is shard {shard.number} of {shard.of}, a part of a run. Run: proctor merge first."
        )
    if run.only is not None:
        raise UsageError(
            f"{run.path} is of chosen episodes (--only={clip(run.only, 60)}): its rate is not the policy's."
        )
    if not run.complete:
        missing = len(run.plan) - run.ended.ended
        raise UsageError(
            f"{run.path} is not complete: {count(missing, 'episode')} of {len(run.plan)} have not ended. "
            f"Finish it: proctor eval --resume={run.path}"
        )
    if not run.results.reporting or not result.rate.episodes:
        raise UsageError(f"{run.path} has no success rate: its benchmark reports no success, or nothing finished.")
    if result.errors and run.stopped is not None:
        raise UsageError(
            f"{run.path}: a rule stopped it, and {count(result.errors, 'episode')} could not be run: no interval "
            f"holds for both. Try those again: proctor eval --resume={run.path}"
        )
    return _score(run, result)


def _score(run: ScoredRun, result: Aggregate) -> Score:
    if result.errors:
        return Score(result.if_errors_failed, INTERVAL, result.errors)
    return Score(result.rate, run.results.method, 0)


def outcomes_hash(run: ScoredRun) -> str:
    """Return the SHA-256 of what every episode of a run came to, in the order of its plan."""
    digest = hashlib.sha256()
    for one in run.records:
        told = (
            one.task_group, one.task_id, one.episode_index, one.seed, one.status, one.success, one.steps,
            one.digest, one.pixel_digest,
        )  # fmt: skip
        digest.update(json.dumps(told, separators=(",", ":")).encode() + b"\n")
    return digest.hexdigest()


def _card(run: ScoredRun, score: Score, text: str, model: str) -> str:
    result = _result(run, score)

    def replaces(other: Any) -> bool:
        try:
            same = all(other["dataset"][name] == result["dataset"][name] for name in ("type", "config"))
            return same and any(metric["args"]["evaluator"] == _EVALUATOR for metric in other["metrics"])
        except (KeyError, TypeError):
            return False

    return with_result(text, model, result, replaces)


def _result(run: ScoredRun, score: Score) -> dict[str, Any]:
    """Return the result as a model index holds it."""
    tasks = clip(str((run.settings.get("env") or {}).get("task") or "all"), 200)
    benchmark = clip(run.benchmark, 100)
    return {
        "task": {"type": "robotics", "name": "Robotics"},
        "dataset": {"type": benchmark, "name": f"{benchmark} ({tasks})", "config": tasks},
        "metrics": [
            {
                "type": "success_rate",
                "value": score.percent,
                "name": f"Success rate in %: {_words(run, score)}",
                "args": _arguments(run, score),
            }
        ],
    }


def _entry(run: ScoredRun, score: Score, listing: Listing) -> dict[str, Any]:
    """Return the result as `.eval_results/*.yaml` hold it."""
    ended = max((session.ended_at for session in run.sessions), default=0.0)
    date = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ended))} if ended else {}
    told = _arguments(run, score)
    versions = ", ".join(f"{name} {version}" for name, version in told["versions"].items())
    return {
        "dataset": {"id": listing.dataset, "task_id": listing.task_id},
        "value": score.percent,
        **date,
        "notes": (
            f"success rate in %: {_words(run, score)}; seeds {told['seeds']}, {told['max_steps']} steps at most, "
            f"{versions}; outcomes sha256 {told['outcomes_sha256']}; bundle sha256 {told['bundle_sha256']}"
        ),
    }


def _words(run: ScoredRun, score: Score) -> str:
    """Return what has to be read next to the number."""
    rate = score.rate
    parts = [
        f"{rate.successes} of {rate.episodes} episodes",
        f"{100 * CONFIDENCE:g} % interval {100 * rate.low:.1f} to {100 * rate.high:.1f}",
    ]
    if score.errors:
        parts.append(
            f"{count(score.errors, 'error')} counted as {'a failure' if score.errors == 1 else 'failures'}"
        )
    if run.stopped is not None:
        rule = clip(str(run.stopped["rule"]), 80)
        parts.append(f"stopped early after {len(run.plan)} of {len(run.planned)} episodes ({rule})")
    silent = len(run.tasks) - len(run.results.reporting)
    if silent:
        parts.append(f"{count(silent, 'task')} without a success flag left out")
    if run.plan.n_repeated:
        parts.append(f"{run.plan.n_repeated} begin as an earlier episode did")
    if not run.reproducible:
        parts.append("not reproducible")
    return ", ".join(parts)


def _arguments(run: ScoredRun, score: Score) -> dict[str, Any]:
    rate = score.rate
    limits = sorted({task.max_steps for task in run.tasks})
    seed = run.plan.seed
    versions = {
        clip(str(name), 60): clip(str(version), 60)
        for name, version in sorted(run.identity["versions"].items())[:_MOST_VERSIONS]
    }
    fingerprint = (run.identity.get("policy") or {}).get("fingerprint")
    return {
        "evaluator": _EVALUATOR,
        "successes": rate.successes,
        "episodes": rate.episodes,
        "errors": score.errors,
        "interval": [round(100 * rate.low, 4), round(100 * rate.high, 4)],
        "interval_method": clip(score.method, 60),
        "confidence": CONFIDENCE,
        "tasks": len(run.results.reporting),
        "seeds": f"{seed} to {seed + int(run.plan.indices.max())}",
        "max_steps": str(limits[0]) if len(limits) == 1 else f"{limits[0]} to {limits[-1]}",
        **({} if fingerprint is None else {"policy_fingerprint": clip(str(fingerprint), 100)}),
        "versions": versions,
        "outcomes_sha256": outcomes_hash(run),
        "bundle_sha256": score.bundle,
    }


def evaluated_elsewhere(run: ScoredRun, folder: Path) -> str | None:
    """Return what the run evaluated, where that is not a model's folder itself."""
    path = str((run.settings.get("policy") or {}).get("path") or "")
    try:
        same = bool(path) and Path(path).samefile(folder)
    except (OSError, ValueError):
        same = False
    return None if same else clip(run.policy)
