"""What a run's table says beside its episodes, and whether it says so in the form that its readers rely on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args, get_type_hints

from proctor.config.settings import MOST_EPISODES
from proctor.policies.protocol import PolicySpec
from proctor.types import Task


def fault_in(key: str, value: Any) -> str | None:
    """Say what is wrong with a stored value; `None` if nothing is, or nobody relies on it."""
    check = _CHECKS.get(key)
    return None if value is None or check is None else check(value)


def _n_episodes(value: Any) -> str | None:
    return None if _whole(value) and value <= MOST_EPISODES else f"must be a number up to {MOST_EPISODES:,}"


def _tasks(value: Any) -> str | None:
    hints = {name: get_args(kind) or (kind,) for name, kind in get_type_hints(Task).items()}
    if not isinstance(value, list) or len(value) > MOST_EPISODES:
        return "must be a list of tasks"
    for task in value:
        if not isinstance(task, Mapping) or not task.keys() <= hints.keys():
            return f"must be a list of maps of {', '.join(hints)}"
        if any(type(item) not in hints[name] for name, item in task.items()):
            return "must have no task with a value of another type"
        try:
            Task(**task)
        except TypeError:
            return "must have no incomplete task"
    return None


def _stopped(value: Any) -> str | None:
    fits = isinstance(value, Mapping) and _whole(value.get("episodes")) and isinstance(value.get("rule"), str)
    return None if fits else "must be a map with the episodes and the rule"


def _policy_spec(value: Any) -> str | None:
    try:
        spec = PolicySpec.from_wire(value)
    except (TypeError, ValueError, KeyError, AttributeError):
        return "must be what a policy needs"
    names = (*(spec.observation_keys or ()), *(spec.env_processors or ()))
    sizes = (*spec.observation_offsets, spec.action_steps or 1, spec.action_size or 1)
    fits = all(isinstance(name, str) for name in names) and all(type(size) is int for size in sizes)
    return None if fits else "must name keys by texts and steps by numbers"


def _identity(value: Any) -> str | None:
    if not isinstance(value, Mapping) or not _whole(value.get("seed")) or value["seed"] >= 1 << 63:
        return "must be a map with a seed"
    parts = ("versions", "machine", "policy")
    return (
        None if all(isinstance(value.get(part, {}), Mapping) for part in parts) else f"must have maps of {parts}"
    )


def _only(value: Any) -> str | None:
    return None if isinstance(value, str) and value.strip() else "must be words that choose episodes"


def _whole(value: Any) -> bool:
    return type(value) is int and value >= 0


_CHECKS: Mapping[str, Callable[[Any], str | None]] = {
    "n_episodes": _n_episodes,
    "tasks": _tasks,
    "stopped": _stopped,
    "identity": _identity,
    "policy_spec": _policy_spec,
    "only": _only,
}
