"""Checks on each play by itself: what it raised, the shapes and types it gave, what it did with what it got."""

from __future__ import annotations

from proctor.conformance import score
from proctor.conformance.playing import Seen
from proctor.conformance.results import CheckResult, judged
from proctor.conformance.subject import Subject
from proctor.conformance.trace import Aspect

_ASPECTS: dict[Aspect, tuple[str, str]] = {
    "observations": (
        "the keys that were looked at, and no others, with the spec's shapes and dtypes, all finite",
        "observe() returns exactly the keys of the last look, each an array as `spec` says",
    ),
    "actions": (
        "actions of the stated size, at and between the stated bounds, are taken and left as they are",
        "copy the action before you clip or scale it: it is the policy's, and part of the episode's digest",
    ),
    "outcomes": (
        "a finite reward, three booleans, metrics that are numbers",
        "return Outcome(reward=float, terminated=bool, truncated=bool, success=bool, metrics={str: float})",
    ),
    "arrays": (
        "what observe() returned is not changed by later steps and episodes",
        "return a copy of what the simulator goes on writing to",
    ),
}


def check_contract(subject: Subject, seen: Seen) -> list[CheckResult]:
    """Return the results that need a single play each."""
    results = [_playable(subject, seen)]
    for aspect, (passed, remedy) in _ASPECTS.items():
        faults: dict[str, str] = {}
        for (task, _), trace in seen.traces.items():
            if aspect in trace.problems:
                faults.setdefault(subject.name(task), trace.problems[aspect])
        results.append(judged(aspect, faults, passed, remedy))
    return results


def _playable(subject: Subject, seen: Seen) -> CheckResult:
    """Look at the first play of each process: what later ones raise belongs to what happened before them."""
    faults = {
        subject.name(task): trace.error
        for (task, name), trace in seen.traces.items()
        if trace.error and name in (score.FIRST, score.AGAIN)
    }
    return judged(
        "simulators",
        faults,
        "every simulator is built, reset, stepped and looked at",
        "debug it with: proctor eval --policy.type=random --eval.use_async_envs=false and the same --env flags",
    )
