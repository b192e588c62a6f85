"""A run's settings: tables of them, with what differs between runs first, and the command that runs it again."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from proctor.config.load import SECTIONS
from proctor.config.plain_values import flat, to_plain
from proctor.config.registry import benchmark_path, load_object, policy_path
from proctor.config.settings import (
    ClusterSettings,
    EnvSettings,
    EvalConfig,
    LimitSettings,
    PolicySettings,
    Settings,
    WandBConfig,
)
from proctor.config.yaml_files import dump_yaml
from proctor.policies.names import LIVE
from proctor.store.stored_run import StoredRun

_MOST_CHARACTERS = 2000

# Where a run lies, how it was watched and which part of it this is does not belong to what it was.
_LEFT_OUT = {"output_dir", "resume", "display", "eval.shard_id", "eval.num_shards", "passed_over"}


class SettingsTable(NamedTuple):
    """Names, a value for each run, and whether the values differ."""

    title: str
    caption: str
    rows: Sequence[tuple[str, Sequence[str], bool]]
    different: int


def settings_tables(runs: Sequence[StoredRun]) -> list[SettingsTable]:
    """Return the tables, without empty ones."""
    tables = [
        _table("Settings", "As in config.yaml, flag by flag", [flat(run.settings) for run in runs]),
        _table("Versions", "What it ran with", [dict(run.versions) for run in runs]),
        _table(
            "Identity",
            "What the results depend on; it must match to resume, merge or repeat them",
            [flat({key: value for key, value in run.identity.items() if key != "tasks"}) for run in runs],
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
        values = [_cell(column.get(name)) for column in columns]
        rows.append((name, values, len(set(values)) > 1))
    rows.sort(key=lambda row: not row[2])
    return SettingsTable(title, caption, rows, sum(differ for _, _, differ in rows))


def _cell(value: Any) -> str:
    if value is None or value == {} or value == "":
        return "–"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."


def command_of(settings: Mapping[str, Any]) -> str | None:
    """Return the command, a flag a line, without flags that have their default; `None` for a live object."""
    if str((settings.get("policy") or {}).get("path") or "").startswith(LIVE):
        return None
    flags = [f"--{name}={text}" for name, text in _changed(settings)]
    return " \\\n  ".join(["proctor eval", *map(shlex.quote, flags)])


def _changed(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    found: list[tuple[str, Any]] = []
    opened: list[tuple[str, str]] = []
    for section in SECTIONS:
        values = dict(settings.get(section) or {})
        kind = _kind(section, values)
        opened += _opened(section, values.pop(getattr(kind, "OPEN", None) or "", None) or {})
        defaults = _defaults(kind)
        found += [
            (f"{section}.{name}", value)
            for name, value in values.items()
            if name == "type" or value != defaults.get(name)
        ]
    defaults = _defaults(Settings)
    found += [
        (name, value)
        for name, value in settings.items()
        if name not in SECTIONS and value != defaults.get(name) and not (value == {} or value is False)
    ]
    kept = [(name, value) for name, value in found if name not in _LEFT_OUT and value is not None]
    return [*((name, _text(value)) for name, value in kept), *opened]


def _opened(prefix: str, values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the flags that a kind of policy does not know itself. Their text is read as YAML."""
    found: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            found += _opened(f"{prefix}.{name}", value)
        else:
            text = dump_yaml(value, default_flow_style=True, width=1 << 20)
            found.append((f"{prefix}.{name}", text.removesuffix("...\n").strip()))
    return found


def _kind(section: str, values: Mapping[str, Any]) -> type[Any]:
    """Return the section's class: of a benchmark or policy that has a name, its own.

    One that is a file of the user's is not loaded: looking at a result must not run the code that made it.
    """
    bases = {"eval": EvalConfig, "limits": LimitSettings, "cluster": ClusterSettings, "wandb": WandBConfig}
    if section in bases:
        return bases[section]
    base, find = (PolicySettings, policy_path) if section == "policy" else (EnvSettings, benchmark_path)
    name = str(values.get("type") or "")
    if not name or ":" in name:
        return base
    try:
        kind: type[Any] = load_object(find(name)).Settings
    except Exception:  # not installed here, or broken: then its flags are all shown
        return base
    return kind


def _defaults(kind: type[Any]) -> dict[str, Any]:
    return {
        field.name: to_plain(field.default)
        for field in dataclasses.fields(kind)
        if field.default is not dataclasses.MISSING
    }


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else str(value)
