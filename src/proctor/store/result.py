"""The result of a run, made from its table alone: whoever has the table can write it again."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import proctor
from proctor.benchmarks.protocol import Episode, Task
from proctor.store.atomic import write_json
from proctor.store.episodes import EpisodeTable
from proctor.store.eval_info import build_eval_info
from proctor.store.identity import Identity
from proctor.store.records import EpisodeRecord
from proctor.store.run_directory import RunDirectory


def write_result(
    directory: RunDirectory, table: EpisodeTable, tasks: Sequence[Task], plan: Sequence[Episode]
) -> tuple[list[EpisodeRecord], dict[str, Any]]:
    """Write the result's file; returns the records of the plan's episodes and what was written."""
    planned = {episode.key for episode in plan}
    records = [record for record in table.records() if record.key in planned]
    identity: Identity = table.meta("identity")
    wall, startup = table.wall_and_startup()
    info = build_eval_info(
        tasks,
        records,
        directory=directory.path,
        wall_seconds=wall,
        startup_seconds=startup,
        versions=_versions(identity),
        run={
            "complete": len(records) == len(plan),
            "n_planned": len(plan),
            "n_repeated": sum(episode.repeats for episode in plan),
            "shard": directory.shard and {"id": directory.shard.number, "of": directory.shard.of},
            "seed": identity["seed"],
            "reproducible": table.meta("reproducible"),
            "identity": identity,
        },
    )
    write_json(directory.result, info)
    return records, info


def _versions(identity: Identity) -> dict[str, str]:
    return {
        "proctor": proctor.__version__,
        "python": platform.python_version(),
        **identity["versions"],
        **({"gl_renderer": identity["renderer"]} if identity["renderer"] else {}),
        "cpu": identity["cpu"],
    }
