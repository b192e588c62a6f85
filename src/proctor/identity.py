"""What must match for a run to be resumed or merged, and the words for a difference.

Identity is the default: every setting of every section, and all that the benchmark, the policy and the machine
tell of themselves. The only way out is the marker `EXECUTION` beside a setting. Files count by their content.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from proctor.config.content_hashes import by_content, source_hash
from proctor.config.plain_values import flat, to_plain
from proctor.config.settings import EnvSettings, PolicySettings, identity_values
from proctor.errors import ChangedError, IdentityError, UsageError
from proctor.files import clip, reason
from proctor.machine.versions import installed_versions
from proctor.policies.protocol import PolicySpec

Identity = dict[str, Any]

_LONG = 80

UNKNOWN = "unknown"
"""How the fingerprint of a policy that has none begins."""


def identity_fields(settings: Any) -> dict[str, Any]:
    """Return a settings dataclass's values that can change a result: all not marked as execution.

    A section is looked into; one of which nothing is left is left out.
    """
    found: dict[str, Any] = {}
    for name, value in identity_values(settings).items():
        section = dataclasses.is_dataclass(value)
        found[name] = identity_fields(value) if section else _content(name, value)
        if section and not found[name]:
            del found[name]
    return found


def _content(name: str, value: Any) -> Any:
    try:
        return by_content(value)
    except OSError as error:
        raise UsageError(
            f"the setting {name}={clip(to_plain(value))} names a file or folder whose content is part of the run, "
            f"and which cannot be read: {reason(error)}."
        ) from None


def benchmark_identity(
    path: str, settings: EnvSettings, distributions: Iterable[str], modules: Iterable[str]
) -> dict[str, Any]:
    """Return what a benchmark is, as any process that is about to use it can find out for itself.

    Args:
        path: where its class is.
        settings: its settings.
        distributions: installed packages whose versions change a trajectory.
        modules: code of the user's own behind it, besides the class.
    """
    return {
        **identity_fields(settings),
        "source": source_hash(path),
        "modules": {module: source_hash(f"{module}:") for module in modules},
        "versions": installed_versions(distributions),
    }


def policy_code(path: str, settings: PolicySettings) -> dict[str, Any]:
    """Return what a policy is loaded from, found out before it is loaded; `path` is where its class is."""
    return {**identity_fields(settings), "source": source_hash(path) if path else None}


def policy_identity(code: Mapping[str, Any], spec: PolicySpec) -> dict[str, Any]:
    """Return what a loaded policy is, as the process that has loaded it finds out."""
    processors = spec.env_processors
    plain: dict[str, Any] = to_plain(
        {
            **code,
            "fingerprint": spec.fingerprint,
            "batch": spec.batch,
            "env_processors": None if processors is None else [_processor(name) for name in processors],
            **spec.identity,
        }
    )
    return plain


def _processor(path: str) -> str:
    named: str = by_content(path)
    return named if named != path else f"{path} {source_hash(path) or ''}".strip()


def known_again(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy's identity for a run: one of its own where nobody can tell that it is the same next time."""
    if policy["fingerprint"] is not None:
        return dict(policy)
    return {**policy, "fingerprint": f"{UNKNOWN} {uuid.uuid4()}"}


def check_unchanged(what: str, expected: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise `ChangedError` if a policy or benchmark is no longer what a run began with.

    Every process proves this before it does any work, so that none can put another policy's episodes into a run.
    """
    for key, before, after in differences(dict(expected), dict(now)):
        raise ChangedError(
            f"the {what} is not what this run began with: {key} was {before} and is {after}. Put it back and run "
            "the same command again, or evaluate the new one in a new --output_dir."
        )


def check_identity(stored: Identity, wanted: Identity, directory: Path) -> None:
    """Raise `IdentityError` with every difference, if there is one."""
    lines = [
        f"  {key}: the run has {before}, this command gives {now}"
        for key, before, now in differences(stored, wanted)
    ]
    if str(_flat(stored).get("policy.fingerprint")).startswith(UNKNOWN):
        lines.append("  (a live policy without a `fingerprint` attribute cannot be known again; give it one)")
    if lines:
        raise IdentityError(
            f"{directory} holds a run with other settings; mixing them would make the result meaningless:\n"
            + "\n".join(lines)
            + "\nUse the same settings to go on with it, or a new --output_dir."
        )


def differences(first: Identity, second: Identity) -> list[tuple[str, str, str]]:
    """Return the dotted name and both values, as short texts, of everything in which two identities differ."""
    before, now = _flat(first), _flat(second)
    return [
        (key, *_difference(before.get(key), now.get(key)))
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key)
    ]


def _flat(identity: Identity) -> dict[str, Any]:
    """Return an identity's values by their dotted names; a section of which nothing is left is none."""
    return {name: value for name, value in flat(identity).items() if value != {}}


def _difference(before: Any, now: Any) -> tuple[str, str]:
    """Return two values as text; long ones from shortly before the place where they part."""
    texts = repr(before), repr(now)
    alike = next((place for place, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    start = max(0, alike - 20) if max(map(len, texts)) > _LONG else 0
    first, second = (f"{'...' if start else ''}{text[start:]}" for text in texts)
    return _cut(first), _cut(second)


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."
