"""What other packages offer by entry point: read from their metadata, one package at a time, importing none.

One package with a damaged entry point must not hide the others; it is told with what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

BENCHMARK_GROUP, POLICY_GROUP = "proctor.benchmarks", "proctor.policies"

_TARGET = re.compile(r"(?P<module>[\w.]+)\s*:\s*(?P<name>[\w.]+)\s*(\[.*\])?")


@dataclass(frozen=True)
class Plugin:
    """A name that a package offers, and `module:Class` behind it; `fault` says why it cannot be used."""

    name: str
    target: str
    package: str
    version: str
    fault: str = ""

    @property
    def source(self) -> str:
        """The package and its version."""
        return f"{self.package} {self.version}".strip()


def plugins(group: str) -> list[Plugin]:
    """Return what the installed packages offer in a group of entry points, by name."""
    found: dict[tuple[str, str], Plugin] = {}
    seen: set[str] = set()
    for distribution in metadata.distributions():
        text = _entry_points(distribution)
        if group not in text:
            continue  # most packages; reading their names as well would take ten times as long
        package, version = _identity(distribution)
        key = re.sub(r"[-_.]+", "-", package).lower()
        if not package or key in seen:
            continue  # a second copy further down the path is not the one that is imported
        seen.add(key)
        for name, target in _entries(text, group):
            match = _TARGET.fullmatch(target)
            plugin = (
                Plugin(name, f"{match['module']}:{match['name']}", package, version)
                if match
                else Plugin(name, target, package, version, f"its entry point '{target}' is not module:Class")
            )
            found[name, plugin.package] = plugin
    return [found[key] for key in sorted(found)]


def clash(name: str, offered: list[Plugin]) -> str:
    """Say which packages offer one name with different things behind it; nothing if there is no choice to make."""
    rivals = [plugin for plugin in offered if plugin.name == name]
    if len({plugin.target for plugin in rivals}) < 2:
        return ""
    return " and ".join(f"{plugin.source} ({plugin.target})" for plugin in rivals)


def _identity(distribution: metadata.Distribution) -> tuple[str, str]:
    try:
        return str(distribution.metadata["Name"] or ""), str(distribution.version or "")
    except Exception:  # damaged in one of many ways, and then it can offer nothing
        return "", ""


def _entry_points(distribution: metadata.Distribution) -> str:
    try:
        return distribution.read_text("entry_points.txt") or ""
    except (OSError, UnicodeDecodeError):
        return ""


def _entries(text: str, group: str) -> Iterator[tuple[str, str]]:
    """Read line by line: the standard library's parser gives up on all packages at one bad line."""
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section == group and line and not line.startswith(("#", ";")):
            name, _, target = (part.strip() for part in line.partition("="))
            if name:
                yield name, target
