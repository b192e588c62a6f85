"""Tables of settings, versions and identity; of several runs side by side, with what differs first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from proctor.report.page.run import Run

_MOST_CHARACTERS = 2000


class SettingsTable(NamedTuple):
    """Names, a value for each run, and whether the values differ."""

    title: str
    caption: str
    rows: Sequence[tuple[str, Sequence[str], bool]]
    different: int


def settings_tables(runs: Sequence[Run]) -> list[SettingsTable]:
    """Return the tables, without empty ones."""
    tables = [
        _table("Settings", "As in config.yaml, flag by flag", [_flat(run.settings) for run in runs]),
        _table("Versions", "What it ran with", [dict(run.versions) for run in runs]),
        _table(
            "Identity",
            "What the results depend on; it must match to resume, merge or repeat them",
            [_flat({key: value for key, value in run.identity.items() if key != "tasks"}) for run in runs],
        ),
        _table(
            "Prompts and step limits",
            "What the policy is told in each task",
            [{task.name: f"{task.prompt} ({task.max_steps} steps)" for task in run.tasks} for run in runs],
        ),
    ]
    return [table for table in tables if table.rows]


def _table(title: str, caption: str, columns: Sequence[Mapping[str, Any]]) -> SettingsTable:
    names = list(dict.fromkeys(name for column in columns for name in column))
    rows = []
    for name in names:
        values = [_text(column.get(name)) for column in columns]
        rows.append((name, values, len(set(values)) > 1))
    rows.sort(key=lambda row: not row[2])
    return SettingsTable(title, caption, rows, sum(differ for _, _, differ in rows))


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _text(value: Any) -> str:
    if value is None or value == {} or value == "":
        return "–"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
