"""The result of a run, made from its table alone: whoever has the table can write it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proctor.benchmarks.protocol import Episode, Task
from proctor.results import Results
from proctor.store.atomic import write_json
from proctor.store.episodes import EpisodeTable, why_incomplete
from proctor.store.eval_info import build_eval_info
from proctor.store.identity import Identity
from proctor.store.run_directory import RunDirectory


def read_results(table: EpisodeTable, tasks: Sequence[Task], plan: Sequence[Episode]) -> Results:
    """Return what the table holds of the part of the plan that counts, in the plan's order."""
    place = {episode.key: at for at, episode in enumerate(counted(plan, table))}
    records = sorted((r for r in table.records() if r.key in place), key=lambda record: place[record.key])
    running = [one for one in table.running() if one.key in place]
    return Results(tasks, records, running, table.meta("stopped"))


def write_result(
    directory: RunDirectory, table: EpisodeTable, tasks: Sequence[Task], plan: Sequence[Episode]
) -> tuple[Results, dict[str, Any]]:
    """Write the result's file; returns what the plan's episodes came to and what was written."""
    results = read_results(table, tasks, plan)
    identity: Identity = table.meta("identity")
    wall, startup = table.wall_and_startup()
    complete = len(results.records) == len(counted(plan, table))
    info = build_eval_info(
        results,
        directory=directory.path,
        wall_seconds=wall,
        startup_seconds=startup,
        versions=_versions(identity),
        run={
            "complete": complete,
            "n_planned": len(plan),
            "n_repeated": sum(episode.repeats for episode in plan),
            "stopped": table.meta("stopped"),
            "ending": None if complete else why_incomplete(table.sessions()),
            "shard": directory.shard and {"id": directory.shard.number, "of": directory.shard.of},
            "seed": identity["seed"],
            "reproducible": table.meta("reproducible"),
            "identity": identity,
        },
    )
    write_json(directory.result, info)
    return results, info


def counted(plan: Sequence[Episode], table: EpisodeTable) -> Sequence[Episode]:
    """Return the part of the plan that the result is about: all of it, or up to where a rule ended the run.

    What ended beyond that place is kept, for when the run is continued, but counted it would favour quick ones.
    """
    stopped = table.meta("stopped")
    return plan if stopped is None else plan[: stopped["episodes"]]


def _versions(identity: Identity) -> dict[str, str]:
    return {
        **identity["versions"],
        **({"gl_renderer": identity["renderer"]} if identity["renderer"] else {}),
        "cpu": identity["machine"]["cpu"],
    }
