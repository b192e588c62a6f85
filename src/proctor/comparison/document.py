"""A comparison as plain values, for programs."""

from __future__ import annotations

from typing import Any

from proctor.comparison.result import Comparison, Comparisons, Disagreement, Row
from proctor.comparison.runs import StoredRun
from proctor.stats.intervals import Estimate, Rate


def as_document(found: Comparisons) -> dict[str, Any]:
    """Return everything, as docs/compare.md describes it."""
    places = {id(run): place for place, run in enumerate(found.runs)}
    return {
        "alpha": found.alpha,
        "runs": [
            _run(run, found.alpha) | {"letters": None if found.letters is None else found.letters[place]}
            for place, run in enumerate(found.runs)
        ],
        "comparisons": [
            {"first": places[id(one.first)], "second": places[id(one.second)]} | _comparison(one)
            for one in found.comparisons
        ],
    }


def _run(run: StoredRun, alpha: float) -> dict[str, Any]:
    return {
        "path": str(run.path),
        "policy": run.policy,
        "seed": run.identity["seed"],
        "complete": run.complete,
        "stopped": run.stopped,
        "n_planned": run.planned,
        "n_ended": run.ended,
        "n_used": run.used.ended,
        "n_errors": run.errors,
        "rate": _rate(run.rate(1 - alpha)),
    }


def _comparison(one: Comparison) -> dict[str, Any]:
    return {
        "method": "paired" if one.paired else "unpaired",
        "test": "mcnemar" if one.paired else "barnard",
        "interval": "tango" if one.paired else "newcombe",
        "verdict": one.verdict,
        "rows": [_row(row) for row in one.rows],
        "n_disagreements": one.n_disagreements,
        "disagreements": [_disagreement(found) for found in one.disagreements],
        "n_left_out": one.left_out,
        "circumstances": [found._asdict() for found in one.circumstances],
        "notes": list(one.notes),
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "name": row.name,
        "group": row.group or None,
        "n_tasks": row.tasks,
        "n_episodes": row.episodes,
        "first": _rate(row.first),
        "second": _rate(row.second),
        "pairs": None if row.pairs is None else row.pairs._asdict(),
        "difference": _estimate(row.difference),
        "p_value": row.p_value,
        "p_adjusted": row.adjusted,
        "verdict": row.verdict,
        "n_needed": row.needed,
        "n_more": row.more,
        "elsewhere": None if row.elsewhere is None else _estimate(row.elsewhere),
    }


def _disagreement(found: Disagreement) -> dict[str, Any]:
    return {
        "task": found.task,
        "episode_index": found.episode_index,
        "seed": found.seed,
        "winner": found.winner,
        "first_video": None if found.first_video is None else str(found.first_video),
        "second_video": None if found.second_video is None else str(found.second_video),
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {"value": rate.value, **rate._asdict()}


def _estimate(estimate: Estimate) -> dict[str, float]:
    return estimate._asdict()
