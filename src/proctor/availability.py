"""What there is to evaluate on and with: ours and other packages', whether it can be used, and its tasks.

Only classes are imported, which by contract import no simulator and no model. One that breaks is an entry with its
reason; the others are told all the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from proctor import __version__
from proctor.benchmarks.protocol import Benchmark
from proctor.blame import UserCodeError
from proctor.config.registry import (
    BENCHMARK_GROUP,
    BENCHMARKS,
    POLICIES,
    POLICY_GROUP,
    Plugin,
    clash,
    load_object,
    plugins,
)
from proctor.errors import ProctorError
from proctor.installation import DISTRIBUTION
from proctor.policies.protocol import Policy
from proctor.types import Task

Kind = Literal["benchmark", "policy"]
Readiness = Literal["ready", "absent", "broken"]

_FLAGS: dict[Kind, str] = {"benchmark": "--env.type", "policy": "--policy.type"}


@dataclass(frozen=True)
class Entry:
    """A benchmark or a kind of policy.

    Attributes:
        kind: which of the two.
        name: what `--env.type` or `--policy.type` calls it.
        target: `module:Class`.
        package: the distribution that has it, with `version`.
        state: ready, absent (something has to be installed) or broken; `reason` says what, and what to do.
        about: what it is, in a line of its own.
        catalogue: a benchmark's tasks by group; `None` if they are not known without opening a simulator.
        settings: the class of its own settings.
    """

    kind: Kind
    name: str
    target: str
    package: str
    version: str
    state: Readiness = "ready"
    reason: str = ""
    about: str = ""
    catalogue: Mapping[str, Sequence[Task]] | None = None
    settings: type[Any] | None = field(default=None, compare=False)

    @property
    def tasks(self) -> list[Task]:
        """Every task once, though it may be in several groups."""
        found: dict[str, Task] = {}
        for tasks in (self.catalogue or {}).values():
            for task in tasks:
                found.setdefault(task.name, task)
        return list(found.values())


def list_available(kind: Kind) -> list[Entry]:
    """Return all benchmarks, or all kinds of policies: ours first, then others', by name."""
    ours = BENCHMARKS if kind == "benchmark" else POLICIES
    offered = plugins(BENCHMARK_GROUP if kind == "benchmark" else POLICY_GROUP)
    entries = [Entry(kind, name, target, DISTRIBUTION, __version__) for name, target in ours.items()]
    found = [_looked_at(entry) for entry in entries]
    return found + [_other(kind, plugin, offered, ours) for plugin in offered]


def _other(kind: Kind, plugin: Plugin, offered: list[Plugin], ours: Mapping[str, str]) -> Entry:
    entry = Entry(kind, plugin.name, plugin.target, plugin.package, plugin.version)
    reason = plugin.fault
    if not reason and plugin.name in ours:
        reason = f"Proctor has its own of this name; use {_FLAGS[kind]}={plugin.target}"
    if not reason and clash(plugin.name, offered):
        reason = f"another package has this name too; use {_FLAGS[kind]}={plugin.target}"
    return dataclasses.replace(entry, state="broken", reason=reason) if reason else _looked_at(entry)


def _looked_at(entry: Entry) -> Entry:
    """Import the class and ask it; whatever it raises is the reason why it cannot be used."""
    try:
        # What a package prints while it is imported must not get into our answer.
        with contextlib.redirect_stdout(sys.stderr):
            found: Any = load_object(entry.target)
            base: type[Any] = Benchmark if entry.kind == "benchmark" else Policy
            if not _is_a(found, base):
                raise TypeError(f"{entry.target} is no proctor.{base.__name__}")
            entry = dataclasses.replace(entry, about=_about(found), settings=found.Settings)
            return _asked_policy(entry, found) if entry.kind == "policy" else _asked_benchmark(entry, found)
    except UserCodeError as error:
        return _broken(entry, error.__cause__ or error)
    except ProctorError as error:
        return dataclasses.replace(entry, state="broken", reason=str(error))
    except (Exception, SystemExit) as error:
        return _broken(entry, error)


def _broken(entry: Entry, error: BaseException) -> Entry:
    words = " ".join(str(error).split())
    return dataclasses.replace(entry, state="broken", reason=f"{type(error).__name__}: {words}")


def _asked_policy(entry: Entry, policy: type[Policy]) -> Entry:
    try:
        policy.check_installed()
    except ProctorError as error:
        return dataclasses.replace(entry, state="absent", reason=str(error))
    return entry


def _asked_benchmark(entry: Entry, kind: type[Benchmark]) -> Entry:
    benchmark = kind(kind.Settings(type=entry.name))
    if not benchmark.opens_to_tell:
        entry = dataclasses.replace(entry, catalogue=benchmark.catalogue())
    try:
        benchmark.check_installed()
    except ProctorError as error:
        return dataclasses.replace(entry, state="absent", reason=str(error))
    return entry


def _is_a(found: Any, base: type[Any]) -> bool:
    return inspect.isclass(found) and issubclass(found, base)


def _about(found: type[Any]) -> str:
    """Return the first line of a class's own docstring."""
    return (vars(found).get("__doc__") or "").strip().partition("\n")[0]
