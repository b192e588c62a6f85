"""Whether a finished run is the one that a command asks for, found out without loading its policy.

Only for policies that take long to load, from a folder: what is in it, the settings, the code, the versions and
the machine are what the run's identity was made of. Whatever cannot be told without the policy has it loaded.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proctor.benchmarks.facts import BenchmarkFacts
from proctor.benchmarks.rendering import find_renderer
from proctor.config.plain_values import to_plain
from proctor.config.registry import load_object, policy_path
from proctor.config.settings import Settings
from proctor.errors import NoPicturesError
from proctor.files import is_folder, is_there, read_json
from proctor.identity import Identity, differences, identity_fields, policy_code
from proctor.machine.gpus import visible_gpus
from proctor.machine.versions import (
    HASH_SEED,
    cpu_kind,
    installed_versions,
    interpreter_versions,
    numeric_environment,
)
from proctor.policies.protocol import Policy
from proctor.store.stored_run import StoredRun

_TRAINING = "train_config.json"
"""How it was trained, which nobody reads who loads it."""
_HF_HOME, _LONGEST_NAME = "~/.cache/huggingface", 1000


def is_same_without_loading(run: StoredRun, settings: Settings, facts: BenchmarkFacts) -> bool:
    """Whether a command with these settings would continue a run, as far as can be told without its policy.

    Args:
        run: what is stored.
        settings: of the command.
        facts: what its benchmark says of itself.
    """
    if not _can_be_told(settings):
        return False
    for section in ("policy", "env"):
        if run.settings.get(section) != to_plain(getattr(settings, section)):
            return False
    stored = run.identity
    now: Identity = {
        **identity_fields(settings),
        "env": {key: value for key, value in facts.identity.items() if key != "versions"},
        "spec": to_plain(facts.spec.to_wire()),
        "tasks": [to_plain(task.to_wire()) for task in facts.tasks],
        "policy": {**stored["policy"], **_policy(settings, stored["policy"])},
        "renderer": stored["renderer"],
        "machine": {**cpu_kind(), "environment": numeric_environment(), "hash_seed": HASH_SEED},
        "versions": facts.versions,
    }
    return not differences(stored, to_plain(now)) and _draws_alike(stored["renderer"])


def _can_be_told(settings: Settings) -> bool:
    policy = settings.policy
    kind: type[Policy] = load_object(policy_path(policy.type))
    here = policy.python is None and settings.env.python is None and settings.cluster.address is None
    if not here or not settings.eval.use_async_envs or settings.trust_remote_code or kind.light:
        return False
    return is_folder(policy.path or "") and _stands_alone(Path(policy.path or "").expanduser())


def _stands_alone(checkpoint: Path) -> bool:
    """Whether a checkpoint is of a type of LeRobot's own and refers to nothing outside of its folder."""
    lerobot = importlib.util.find_spec("lerobot")
    places = lerobot.submodule_search_locations if lerobot is not None else None
    try:
        described = read_json(checkpoint / "config.json")
        known = any(
            (Path(place) / "policies" / described["type"] / "__init__.py").is_file() for place in places or ()
        )
        configs = [file for file in checkpoint.rglob("*.json") if file.name != _TRAINING]
        return known and not any(_leads_outside(text) for file in configs for text in _texts(read_json(file)))
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def _leads_outside(text: str) -> bool:
    """Whether a text in a config is a path that is there, or a repository in the hub's cache."""
    if len(text) > _LONGEST_NAME or "\0" in text:
        return False
    hub = Path(os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME") or _HF_HOME) / "hub")
    cached = hub.expanduser() / f"models--{text.replace('/', '--')}"
    return ("/" in text and is_there(text)) or (bool(text) and is_there(cached))


def _policy(settings: Settings, stored: dict[str, Any]) -> dict[str, Any]:
    """Return what of a policy's identity needs no policy: its files, its code, the packages and the device."""
    libraries = installed_versions(name for name, value in stored.items() if isinstance(value, str))
    known = {name: version for name, version in libraries.items() if version != "absent"}
    device = stored.get("device", "cpu")
    there = device == "cpu" or any(gpu.name == device for gpu in visible_gpus())
    return {
        **known,
        **policy_code(policy_path(settings.policy.type), settings.policy),
        "versions": interpreter_versions(),
        **({} if there else {"device": None}),
    }


def _draws_alike(renderer: str | None) -> bool:
    if renderer is None:
        return True
    try:
        return find_renderer().name == renderer
    except NoPicturesError:
        return False
