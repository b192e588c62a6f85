"""What must match for a run to be resumed or merged, and the words for a difference."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

from proctor.config.settings import EXECUTION
from proctor.errors import IdentityError

Identity = dict[str, Any]

_LONG = 80

UNKNOWN = "unknown"
"""How the fingerprint of a policy that has none begins."""


def identity_fields(settings: Any) -> dict[str, Any]:
    """Return a settings dataclass's values that can change a result: all not marked as execution."""
    hints = get_type_hints(type(settings), include_extras=True)
    return {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if EXECUTION not in get_args(hints[field.name])
    }


def cpu_kind() -> str:
    """Return the processor's architecture and model: maths libraries choose their kernels by it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return f"{platform.machine()} {line.partition(':')[2].strip()}"
    except OSError:
        pass
    return platform.machine()


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


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _difference(before: Any, now: Any) -> tuple[str, str]:
    """Return two values as text; long ones from shortly before the place where they part."""
    texts = repr(before), repr(now)
    alike = next((place for place, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    start = max(0, alike - 20) if max(map(len, texts)) > _LONG else 0
    first, second = (f"{'...' if start else ''}{text[start:]}" for text in texts)
    return _cut(first), _cut(second)


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."
