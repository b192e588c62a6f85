"""The check that close() frees everything."""

from __future__ import annotations

from proctor.conformance.playing import Seen
from proctor.conformance.results import CheckResult, judged
from proctor.report.console import count

_WARM = 3
"""Rounds after which libraries have opened what they keep for ever."""

_MEMORY = 16 << 20
"""Bytes a round that are worth a word; allocators keep a few for themselves."""


def check_lifetime(seen: Seen, rounds: int) -> CheckResult:
    """Compare what is held after the last round with what is held after the first few."""
    name, remedy = (
        "close",
        "close() must free what make_simulator() and reset() opened: files, threads, processes, GL",
    )
    if seen.wear_error:
        fault = {"building and closing it again": seen.wear_error}
        return judged(name, fault, "", remedy)
    early, late = seen.wear[min(_WARM, len(seen.wear)) - 1], seen.wear[-1]
    since = len(seen.wear) - _WARM
    faults = {}
    for target, number in late.descriptors.items():
        more = number - early.descriptors.get(target, 0)
        if more > 0:
            faults[f"{count(more, 'descriptor')} more"] = f"of {target}, after {since} more times"
    for what, more in (("thread", late.threads - early.threads), ("process", late.children - early.children)):
        if more > 0:
            plural = {"thread": "threads", "process": "child processes"}[what]
            faults[f"{more} more {plural if more > 1 else what}"] = f"after {since} more times"
    memory = (late.memory - early.memory) / max(1, since)
    if not faults and memory > _MEMORY:
        text = f"nothing is left open, but memory grows by {memory / 2**20:.0f} MiB with every simulator"
        return CheckResult(name, "note", text)
    return judged(name, faults, f"nothing is left after {rounds} simulators were built and closed", remedy)
