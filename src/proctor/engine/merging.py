"""Shards or partial runs of one plan, put together into the run that one process would have made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from proctor.config.yaml_files import CONFIG_FILE, read_run_settings
from proctor.engine.stopping import Stop
from proctor.errors import UsageError
from proctor.eval_info import write_eval_info
from proctor.installation import install_command
from proctor.recording.assembly import assemble, can_record, recover
from proctor.recording.sources import RecordingSource
from proctor.results import Evaluation, ScoredRun
from proctor.store.filesystem import prepare_directory
from proctor.store.lock import RunLock
from proctor.store.merge import check_runs, find_runs, take_over
from proctor.store.outcomes import Outcomes
from proctor.store.run_directory import SHARD_DIRECTORIES, RunDirectory


@dataclass(frozen=True)
class MergedRun:
    """The merged run, what it was made from, and what is missing: indices by task, in plan order."""

    evaluation: Evaluation
    sources: Sequence[Path]
    twice: int
    missing: dict[str, list[int]]
    left_out: Sequence[str] = ()
    """Videos that are no files of their runs, in words."""


def merge_runs(
    directories: Sequence[Path],
    output: Path | None = None,
    decide: Callable[[Outcomes], Stop | None] | None = None,
) -> MergedRun:
    """Merge runs into `output`. A run that lies there already is one of them, so merging again goes on.

    Args:
        directories: runs, or directories that hold shards.
        output: the merged run's directory; by default where the shards lie.
        decide: says where the run stops that these are shards of; without it, one that was stopped stays so.

    Raises:
        UsageError: a directory holds no run, or the runs do not belong together.
        StoreError: two runs contradict each other.
    """
    target = RunDirectory((output or _common_place(directories)).absolute())
    target.check_usable()
    runs = find_runs(directories)
    if target.holds_a_run() and target.path not in runs:
        runs.append(target.path)
    sources = check_runs(runs, target.path)
    recorded = not all(RecordingSource(run).is_empty for run in runs)
    if recorded and not can_record():
        raise UsageError(
            "these runs hold recorded episodes, and merging those needs av and pyarrow. "
            f"Run: {install_command('recording')}"
        )
    # A shard that was stopped at once has not come to write its settings; they are the same in all, and in what
    # `proctor parallel` has written beside its shards.
    places = [*runs, target.path]
    tree = read_run_settings(next((place for place in places if (place / CONFIG_FILE).exists()), runs[0]))
    tree["eval"] = {**(tree.get("eval") or {}), "n_episodes": sources.per_task, "shard_id": 0, "num_shards": 1}
    tree["only"] = sources.only
    plan = sources.plan
    prepare_directory(target.path, len(plan))
    with ExitStack() as stack:
        stack.enter_context(RunLock(target.path))
        target.remove_leftovers()
        recover(target.path)
        table = stack.enter_context(target.table())
        left_out = take_over(sources, target, table)
        target.write_config(tree)
        run = ScoredRun(target.path, plan)
        if decide is not None:
            stop = decide(run.all_ended)
            table.set_meta("stopped", stop.to_meta() if stop is not None else None)
        info = write_eval_info(run)
        in_dataset = assemble(target.path, run.records, runs) if recorded else 0
    missing: dict[str, list[int]] = defaultdict(list)
    for episode in run.ended.missing:
        missing[episode.task.name].append(episode.index)
    evaluation = Evaluation(run, info, recorded=in_dataset)
    return MergedRun(evaluation, runs, sources.twice, dict(missing), left_out)


def _common_place(directories: Sequence[Path]) -> Path:
    places = {
        directory.absolute().parent if directory.match(SHARD_DIRECTORIES) else directory.absolute()
        for directory in directories
    }
    if len(places) > 1:
        raise UsageError("these runs lie in several places: name the merged one with --output_dir=DIR.")
    return places.pop()
