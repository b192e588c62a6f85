"""What can be taken away from the viewer: the list and a run's episodes as CSV or JSON, a report as one file."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from proctor.report.tables_csv import EPISODE_COLUMNS, Row, csv_lines, json_pieces
from proctor.results import ScoredRun
from proctor.viewer.summaries import RunSummary

RUN_COLUMNS = (
    "run", "name", "state", "benchmark", "policy", "policy_name", "training", "training_step", "tags",
    "description", "tasks", "planned", "ended", "errors", "successes", "episodes", "running", "success_rate",
    "low", "high", "wall_seconds", "began", "problem",
)  # fmt: skip
_AT_ONCE = 1000
_KINDS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


def runs_table(summaries: Sequence[RunSummary], kind: str) -> Response:
    """Return the list of runs as a file."""
    return _table("runs", kind, RUN_COLUMNS, map(_run_row, summaries))


def episodes_table(summary: RunSummary, run: ScoredRun, places: NDArray[np.int64], kind: str) -> Response:
    """Return the episodes of a run at some places as a file, each as it is stored."""
    return _table(f"{summary.name}-episodes", kind, EPISODE_COLUMNS, _episode_rows(run, places))


def as_download(name: str) -> dict[str, str]:
    """Return the header that has a browser keep an answer as a file with about this name."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "proctor"
    return {"content-disposition": f'attachment; filename="{plain}"'}


def _table(name: str, kind: str, columns: Sequence[str], rows: Iterable[Row]) -> Response:
    if kind not in _KINDS:
        raise HTTPException(404, "A table is to be had as csv or as json.")
    pieces = csv_lines(columns, rows) if kind == "csv" else json_pieces(rows)
    # A name may hold half of a character, which UTF-8 has no way to write.
    sent = (piece.encode(errors="replace") for piece in pieces)
    return StreamingResponse(sent, media_type=_KINDS[kind], headers=as_download(f"{name}.{kind}"))


def _episode_rows(run: ScoredRun, places: NDArray[np.int64]) -> Iterator[Mapping[str, Any]]:
    # Each piece is read from a table opened for it: what is streamed may be asked for by one thread after another.
    for first in range(0, len(places), _AT_ONCE):
        for record in run.records.at(places[first : first + _AT_ONCE].tolist()):
            yield record.to_row()


def _run_row(run: RunSummary) -> dict[str, Any]:
    rate = run.rate
    return {
        "run": run.folder,
        "name": run.name,
        "state": run.state,
        "benchmark": run.benchmark,
        "policy": run.policy,
        "policy_name": run.policy_name,
        "training": run.training,
        "training_step": run.step,
        "tags": ",".join(run.tags),
        "description": run.description,
        "tasks": run.tasks,
        "planned": run.planned,
        "ended": run.ended,
        "errors": run.errors,
        "successes": rate.successes,
        "episodes": rate.episodes,
        "running": rate.running,
        "success_rate": rate.value,
        "low": None if rate.value is None else rate.low,
        "high": None if rate.value is None else rate.high,
        "wall_seconds": round(run.wall, 3),
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run.began)),
        "problem": run.problem or run.ending or run.rule,
    }
