"""Checks on what follows an episode that ended, and one that succeeded."""

from __future__ import annotations

from collections.abc import Mapping

from proctor.conformance import score
from proctor.conformance.comparisons import STATE, Comparison, Verdict
from proctor.conformance.playing import Seen
from proctor.conformance.results import CheckResult, judged
from proctor.conformance.subject import Subject
from proctor.conformance.trace import Trace, difference

END, SUCCESS = "after the end", "after success"


def check_endings(subject: Subject, seen: Seen, verdicts: Mapping[Comparison, Verdict]) -> list[CheckResult]:
    """Return whether a reset after an end, and after a success, starts like any other."""
    reuse = next(verdict for comparison, verdict in verdicts.items() if comparison.name == "reused simulator")
    sound = [task for task in range(len(subject.tasks)) if reuse.stands(task)]
    if not sound:
        why = (
            "cannot be told while 'reused simulator' fails" if reuse.faults else "the episode could not be played"
        )
        return [CheckResult(name, "skipped", why) for name in (END, SUCCESS)]
    return [_after_end(subject, seen, sound), _after_success(subject, seen, sound)]


def _after_end(subject: Subject, seen: Seen, tasks: list[int]) -> CheckResult:
    played = {task: seen.traces[task, score.TO_THE_END] for task in tasks}
    errors = {subject.name(task): trace.error for task, trace in played.items() if trace.error}
    if errors:
        remedy = "an episode must be playable up to its task's max_steps, with any actions inside the bounds"
        return judged(END, errors, "", remedy)
    ended = [task for task, trace in played.items() if trace.ended and not trace.success]
    if not ended:
        succeeded = any(trace.success for trace in played.values())
        why = "every episode ended with success" if succeeded else f"no episode ended within {score.LONGEST} steps"
        return CheckResult(END, "skipped", why)
    ways = ", ".join(sorted({played[task].ended for task in ended}))
    faults = _faults(subject, seen, dict.fromkeys(ended, score.AFTER_END))
    return judged(END, faults, f"the same after an episode that ended ({ways})", STATE)


def _after_success(subject: Subject, seen: Seen, tasks: list[int]) -> CheckResult:
    ways = ((score.SUCCESS, score.AFTER_SUCCESS), (score.TO_THE_END, score.AFTER_END))
    reached: dict[int, str] = {}
    errors: dict[str, str] = {}
    for task in tasks:
        for play, after in ways:
            trace = seen.traces.get((task, play), Trace())
            if play == score.SUCCESS and trace.error:
                errors[subject.name(task)] = trace.error
            if trace.success:
                reached.setdefault(task, after)
    if errors:
        return judged(SUCCESS, errors, "", "the policy or the simulator failed on the way to success")
    who = "the policy" if subject.policy else "random actions"
    if not reached:
        hint = "" if subject.policy else "; name a policy that can: --policy.type=NAME or --policy.path=..."
        return CheckResult(SUCCESS, "skipped", f"{who} did not succeed{hint}")
    faults = _faults(subject, seen, reached)
    missed = [subject.name(task) for task in tasks if task not in reached]
    if missed and not faults:
        return CheckResult(SUCCESS, "note", f"the same after success, but {who} did not succeed in {missed[0]}")
    return judged(SUCCESS, faults, "the same after an episode that succeeded", STATE)


def _faults(subject: Subject, seen: Seen, plays: Mapping[int, str]) -> dict[str, str]:
    found = {
        subject.name(task): difference(seen.traces[task, play], seen.traces[task, score.FIRST])
        for task, play in plays.items()
    }
    return {name: fault for name, fault in found.items() if fault}
