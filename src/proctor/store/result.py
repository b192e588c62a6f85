"""The result of a run, made from its table alone: whoever has the table can write it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proctor.plan import Plan
from proctor.results import Results
from proctor.store.episodes import EpisodeTable, wall_and_startup, why_incomplete
from proctor.store.eval_info import build_eval_info
from proctor.store.filesystem import write_json
from proctor.store.identity import Identity
from proctor.store.outcomes import Outcomes
from proctor.store.reading import Episodes, StoredRecords, read_episodes
from proctor.store.run_directory import DATABASE, RunDirectory
from proctor.store.schema import RunSession


@dataclass(frozen=True)
class StoredResult:
    """What a table says of a run: its results, the records behind them, and when it was worked on.

    Of a run that a rule has stopped, `results` and `records` are of the part of the plan up to there. What ended
    beyond that place is kept, for when the run is continued, but counted it would favour quick ones.
    """

    results: Results
    records: StoredRecords
    sessions: Sequence[RunSession]
    planned: int
    """How many episodes the whole plan has."""

    @property
    def complete(self) -> bool:
        """Whether every episode that counts has ended."""
        return self.results.ended.ended == len(self.results.ended.plan)


def nothing_stored(run: RunDirectory, plan: Plan) -> StoredResult:
    """Return what is known of a run of which nothing could be read."""
    ended = Outcomes(plan)
    return StoredResult(Results(ended), StoredRecords(ended, run.path / DATABASE, {}), [], len(plan))


def read_result(table: EpisodeTable, plan: Plan, episodes: Episodes | None = None) -> StoredResult:
    """Return what a table says of a plan; `episodes` are what it holds, from whoever has just read them."""
    whole = episodes or read_episodes(table, plan)
    stopped = table.meta("stopped")
    ended, records = whole if stopped is None else whole.first(stopped["episodes"])
    running = [one for one in table.running() if ended.plan.place_of(one.key) is not None]
    ends = whole.ended["ended_at"][whole.ended.at()]
    return StoredResult(Results(ended, running, stopped), records, table.sessions(ends), len(plan))


def write_result(
    directory: RunDirectory, table: EpisodeTable, plan: Plan, episodes: Episodes | None = None
) -> tuple[StoredResult, dict[str, Any]]:
    """Write the result's file; returns what the plan's episodes came to and what was written."""
    stored = read_result(table, plan, episodes)
    identity: Identity = table.meta("identity")
    wall, startup = wall_and_startup(stored.sessions)
    info = build_eval_info(
        stored.results,
        stored.records,
        directory=directory.path,
        wall_seconds=wall,
        startup_seconds=startup,
        versions=_versions(identity),
        run={
            "complete": stored.complete,
            "n_planned": len(plan),
            "n_repeated": plan.n_repeated,
            "stopped": table.meta("stopped"),
            "ending": None if stored.complete else why_incomplete(stored.sessions),
            "shard": directory.shard and {"id": directory.shard.number, "of": directory.shard.of},
            "seed": identity["seed"],
            "reproducible": table.meta("reproducible"),
            "identity": identity,
        },
    )
    write_json(directory.result, info)
    return stored, info


def _versions(identity: Identity) -> dict[str, str]:
    return {
        **identity["versions"],
        **({"gl_renderer": identity["renderer"]} if identity["renderer"] else {}),
        "cpu": identity["machine"]["cpu"],
    }
