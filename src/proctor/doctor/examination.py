"""All checks, in the order in which problems are best fixed. None of them can raise or hang."""

from __future__ import annotations

import threading
from collections.abc import Callable

from proctor.doctor.findings import Finding
from proctor.doctor.machine import (
    look_at_cores,
    look_at_directory,
    look_at_drawing,
    look_at_gpus,
    look_at_interpreter,
    look_at_kernel,
    look_at_memory,
    look_at_open_files,
)
from proctor.doctor.packages import look_at_packages

Look = Callable[[], list[Finding]]

_LONGEST = 300.0
"""Seconds: more than the trials inside the checks may take, which have limits of their own."""


def examine() -> list[Finding]:
    """Look at everything and return what was found."""
    findings = guarded("proctor", look_at_interpreter, needed=True)
    findings += guarded("packages", look_at_packages, needed=True)
    mujoco = next((finding for finding in findings if finding.name == "mujoco"), findings[-1])
    findings += guarded("drawing", lambda: look_at_drawing(mujoco), needed=True)
    findings += guarded("GPU", look_at_gpus)
    for look, needed in (
        (look_at_cores, False),
        (look_at_memory, False),
        (look_at_kernel, True),
        (look_at_open_files, False),
        (look_at_directory, True),
    ):
        findings += guarded("machine", look, needed=needed)
    return findings


def guarded(section: str, look: Look, *, needed: bool = False, seconds: float = _LONGEST) -> list[Finding]:
    """Return what a check finds; one that raises or hangs is itself the finding."""
    found: list[Finding] = []
    trouble = [f"no answer within {seconds:.0f} s"]

    def run() -> None:
        try:
            found.extend(look())
            trouble.clear()
        except Exception as error:  # whatever it is, the other checks still have something to tell
            trouble[:] = [f"{type(error).__name__}: {error}"]

    # A daemon: it may wait for a driver that cannot even be killed, and must not keep the doctor from ending.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not trouble:
        return found
    remedy = "report this as a bug, with: proctor doctor --json" if needed else ""
    return [Finding(section, "check", "broken", f"failed: {trouble[0]}", remedy, needed)]
