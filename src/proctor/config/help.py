"""`--help`, made from the settings themselves, so that it cannot be wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin, get_type_hints

from proctor.config.help_pages import FlagList
from proctor.config.lerobot_configs import PASSED_OVER
from proctor.config.load import SECTIONS
from proctor.config.registry import BENCHMARKS, POLICIES, load_object
from proctor.config.settings import (
    EXECUTION,
    ClusterSettings,
    EnvSettings,
    EvalConfig,
    LimitSettings,
    PolicySettings,
    Settings,
    WandBConfig,
)


def flag_tables() -> list[tuple[str, FlagList]]:
    """Return a titled table per section."""
    return [
        *section_tables(),
        ("Run", settings_table("eval.", EvalConfig)),
        ("Cluster", settings_table("cluster.", ClusterSettings)),
        ("Weights & Biases", settings_table("wandb.", WandBConfig)),
        ("General", settings_table("", Settings, {*SECTIONS, PASSED_OVER})),
        ("Limits in seconds, after which a process counts as hung", settings_table("limits.", LimitSettings)),
    ]


def section_tables() -> list[tuple[str, FlagList]]:
    """Return the tables of the policy and the benchmark, and of every kind of them."""
    tables = [
        ("Policy", settings_table("policy.", PolicySettings)),
        ("Benchmark", settings_table("env.", EnvSettings)),
    ]
    for kind, places, section, base in (
        ("policy", POLICIES, "policy.", PolicySettings),
        ("benchmark", BENCHMARKS, "env.", EnvSettings),
    ):
        for name, path in places.items():
            settings = load_object(path).Settings
            if settings is not base:
                own = {field.name for field in dataclasses.fields(base)}
                tables.append((f"The {kind} {name}", settings_table(section, settings, own)))
    return tables


def settings_table(
    prefix: str, kind: type[Any], skip: set[str] | None = None, spelled: Callable[[str], str] = str
) -> FlagList:
    """Return a row per setting: its flag, what it does, its default."""
    rows = []
    hints, plain = get_type_hints(kind, include_extras=True), get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if field.name in (skip or ()):
            continue
        words = [word for word in get_args(hints[field.name]) if isinstance(word, str) and word != EXECUTION]
        text = words[-1] if words else ""
        if get_origin(plain[field.name]) is Literal:
            text += f" ({', '.join(map(str, get_args(plain[field.name])))})"
        default, shown = field.default, ""
        if default is not dataclasses.MISSING and default not in (None, ""):
            shown = f"[{str(default).lower() if isinstance(default, bool) else default}]"
        rows.append((spelled(f"--{prefix}{field.name}"), text, shown))
    return FlagList(rows)
