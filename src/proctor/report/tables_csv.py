"""Tables for spreadsheets, data frames and scripts: as CSV, RFC 4180, and as JSON, piece by piece.

The columns of an episode are called as in `run.sqlite` (`store/schema.py`). Columns are only ever added.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

Row = Mapping[str, Any]

EPISODE_COLUMNS = (
    "task_group", "task_id", "task", "episode_index", "seed", "status", "success", "sum_reward", "max_reward",
    "steps", "attempts", "seconds", "digest", "pixel_digest", "video_path", "error", "metrics",
)  # fmt: skip
"""Of an episode as a row of CSV; as JSON it has all that `EpisodeRecord.to_row` gives."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a text begins with that a spreadsheet would compute. A run may be anybody's."""


def csv_lines(columns: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    """Yield a table as CSV, its heading first. What is missing is empty, and so is a mapping of nothing.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer)  # by its default as RFC 4180 has it
    writer.writerow(columns)
    for row in rows:
        yield _taken(buffer)
        writer.writerow([_cell(row[column]) for column in columns])
    yield _taken(buffer)


def json_pieces(rows: Iterable[Row]) -> Iterator[str]:
    """Yield a table as a JSON array with an object per row, a row to a line."""
    before = "[\n"
    for row in rows:
        yield before + json.dumps(_finite(row))
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


def _taken(buffer: io.StringIO) -> str:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text


def _cell(value: Any) -> Any:
    """Return a value as a cell has it.

    >>> _cell(True), _cell(None), _cell({"x": 1.5}), _cell(-2.5), _cell("=1+1")
    ('true', '', '{"x": 1.5}', -2.5, "'=1+1")
    """
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            text = value.replace("\0", "?")
            return f"'{text}" if text.startswith(_FORMULA) else text
        case dict():
            return json.dumps(_finite(value)) if value else ""
    return value


def _finite(value: Any) -> Any:
    """Return a value without what JSON cannot say: infinity and no number become null."""
    match value:
        case float():
            return value if isfinite(value) else None
        case Mapping():
            return {str(key): _finite(one) for key, one in value.items()}
    return value
