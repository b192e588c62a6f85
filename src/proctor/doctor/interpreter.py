"""Proctor itself, its interpreter and the operating system."""

from __future__ import annotations

import platform
import sys

from proctor import __version__
from proctor.doctor.findings import Finding

OLDEST, NEWEST = (3, 11), (3, 13)
SUPPORTED = "3.11, 3.12 or 3.13"


def look_at_interpreter() -> list[Finding]:
    """Return the versions of Proctor and Python, and whether this is Linux."""
    return [
        Finding("proctor", "version", "ok", __version__),
        python_finding(sys.version_info[:2], platform.python_version(), sys.executable),
        system_finding(platform.system(), platform.release(), platform.machine()),
    ]


def python_finding(version: tuple[int, int], text: str, executable: str) -> Finding:
    """Judge an interpreter."""
    fits = OLDEST <= version <= NEWEST
    return Finding(
        "proctor",
        "Python",
        "ok" if fits else "broken",
        f"{text}, {executable}",
        "" if fits else f"install Proctor for Python {SUPPORTED}",
        needed=True,
    )


def system_finding(system: str, release: str, machine: str) -> Finding:
    """Judge an operating system."""
    fits = system == "Linux"
    return Finding(
        "proctor",
        "system",
        "ok" if fits else "broken",
        f"{system} {release}, {machine}",
        "" if fits else "run Proctor on Linux; a container or WSL 2 will do",
        needed=True,
    )
