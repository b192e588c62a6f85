"""Checks that compare two plays of the same episode which differ in one thing only.

A comparison builds on others: where the same episode differs between two fresh processes already, nothing can be
told of a reused simulator. Such a check is skipped for that task and not failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from proctor.conformance import schedule
from proctor.conformance.players import PlayerReports
from proctor.conformance.results import CheckResult, judged
from proctor.conformance.subject import Subject
from proctor.conformance.trace import Aspect, Trace, difference

STATE = "reset() must set everything that a step goes by; nothing may be left of what ran before"


@dataclass(frozen=True)
class PlayComparison:
    """Plays that must be the same.

    Attributes:
        name: of the check.
        pairs: names of plays; the second is the one that is trusted.
        passed: what it means if they are the same.
        remedy: what to do if they are not.
        needs: comparisons that must have passed before this one tells anything.
        aspect: problems of the first play by itself that belong to this check.
        several: whether it takes several tasks.
    """

    name: str
    pairs: tuple[tuple[str, str], ...]
    passed: str
    remedy: str
    needs: tuple[str, ...] = ()
    aspect: Aspect | None = None
    several: bool = False


_CLIPPING = PlayComparison(
    "clipped actions",
    ((schedule.CLIPPED, schedule.BEYOND),),
    "the same whether actions beyond the bounds are clipped before the step or, as its spec says, in it",
    "clip the action before anything depends on it, or leave out clips_actions: recordings go by it",
    ("reused simulator",),
)


def comparisons(episodes: int, *, clips: bool) -> list[PlayComparison]:
    """Return every comparison, those that others build on first."""
    more = range(1, episodes)
    return [
        PlayComparison(
            "two processes",
            ((schedule.AGAIN, schedule.FIRST),),
            "the same episode, digest for digest, in two fresh processes",
            "take every random number from a generator made of the episode's seed (and index) in reset(); none "
            "from the clock, from global generators or from hash()",
        ),
        PlayComparison(
            "reused simulator",
            (
                (schedule.REUSED, schedule.FIRST),
                *((f"{schedule.NEXT} {i}", f"{schedule.REBUILT} {i}") for i in more),
            ),
            "the same after other episodes, and after a reset in mid-episode",
            STATE,
            ("two processes",),
        ),
        PlayComparison(
            "new simulator",
            ((f"{schedule.REBUILT} 0", schedule.AGAIN),),
            "the same in a simulator that is built after another was closed",
            "nothing may be kept in modules or classes, and close() must leave the libraries usable",
            ("two processes",),
        ),
        PlayComparison(
            "other tasks",
            ((schedule.IN_TURN, schedule.FIRST), (schedule.IN_TURN_AGAIN, schedule.FIRST)),
            "the same, images too, after other tasks ran in that process",
            "nothing that other tasks change may be kept in modules or classes: caches, generators, GL contexts",
            ("two processes", "new simulator"),
            several=True,
        ),
        PlayComparison(
            "looks",
            ((schedule.LOOKED_AT, f"{schedule.REBUILT} 0"),),
            "the same physics and the same images whether steps in a row are looked at or only some",
            "draw the state as it is after the step, whoever looked before, and let drawing change nothing",
            (
                "two processes",
                "new simulator",
            ),
        ),
        PlayComparison(
            "one key at a time",
            ((schedule.ONE_KEY, schedule.LOOKED_AT),),
            "every key is the same whether it is looked at alone or with others",
            "make each key from the state alone, not from what else was asked for",
            (
                "looks",
                "reused simulator",
            ),
        ),
        PlayComparison(
            "frames",
            ((schedule.FILMED, schedule.FIRST),),
            "render() gives uint8 frames and changes nothing that follows",
            "render() may only draw: keep its image apart from the policy's, and its random numbers too",
            ("reused simulator",),
            aspect="frames",
        ),
        *([_CLIPPING] if clips else []),
    ]


@dataclass(frozen=True)
class Verdict:
    """By task, what differs; and the tasks for which nothing could be told."""

    faults: Mapping[int, str]
    untold: frozenset[int]

    def stands(self, task: int) -> bool:
        """Whether others may build on it."""
        return task not in self.faults and task not in self.untold


def compare(subject: Subject, reports: PlayerReports) -> dict[PlayComparison, Verdict]:
    """Return every comparison with what came of it."""
    verdicts: dict[PlayComparison, Verdict] = {}
    for comparison in comparisons(subject.extent.episodes, clips=subject.facts.spec.clips_actions):
        needed = [verdict for other, verdict in verdicts.items() if other.name in comparison.needs]
        faults: dict[int, str] = {}
        untold = set()
        for task in range(len(subject.tasks)):
            pairs = [
                (reports.traces[task, one], reports.traces[task, other])
                for one, other in comparison.pairs
                if (task, one) in reports.traces and (task, other) in reports.traces
            ]
            if not pairs or any(other.error for _, other in pairs) or not all(v.stands(task) for v in needed):
                untold.add(task)
                continue
            found = [one.problems.get(comparison.aspect, "") if comparison.aspect else "" for one, _ in pairs]
            found += [difference(one, other) for one, other in pairs]
            if any(found):
                faults[task] = next(filter(None, found))
        verdicts[comparison] = Verdict(faults, frozenset(untold))
    return verdicts


def check_comparisons(
    subject: Subject, verdicts: Mapping[PlayComparison, Verdict], no_frames: str
) -> list[CheckResult]:
    """Return a result for each comparison; `no_frames` is why nothing was filmed, if so."""
    failing = {comparison.name for comparison, verdict in verdicts.items() if verdict.faults}
    results = []
    for comparison, verdict in verdicts.items():
        faults = {subject.name(task): fault for task, fault in verdict.faults.items()}
        if comparison.aspect == "frames" and no_frames:
            results.append(CheckResult(comparison.name, "skipped", f"it cannot be filmed: {no_frames}"))
        elif not faults and len(verdict.untold) == len(subject.tasks):
            why = next(
                (f"cannot be told while '{need}' fails" for need in comparison.needs if need in failing), ""
            )
            alone = comparison.several and len(subject.tasks) == 1
            results.append(
                CheckResult(
                    comparison.name,
                    "skipped",
                    "only one task is played" if alone else why or "the episode could not be played",
                )
            )
        else:
            results.append(judged(comparison.name, faults, comparison.passed, comparison.remedy))
    return results


def check_replay(subject: Subject, verdicts: Mapping[PlayComparison, Verdict], no_frames: str) -> CheckResult:
    """Say whether seed and actions give an episode again, drawn or not: then it can be filmed after its run."""
    needed = {"two processes", "reused simulator", *(() if no_frames else ("frames",))}
    unsound = [
        comparison.name for comparison, verdict in verdicts.items() if comparison.name in needed and verdict.faults
    ]
    told = any(
        verdict.stands(task)
        for comparison, verdict in verdicts.items()
        if comparison.name in needed
        for task in range(len(subject.tasks))
    )
    claims = subject.facts.replays
    if unsound:
        words = f"episodes cannot be replayed: '{unsound[0]}' fails"
        if not claims:
            return CheckResult("replay", "note", f"{words}; they are filmed as they run, as replays = False says")
        return CheckResult(
            "replay",
            "note",
            f"{words}. proctor replay and verify would name them, and no video of them can be made after a run",
            "mend it; if that cannot be, replays = False has episodes filmed as they run",
        )
    if not told:
        return CheckResult("replay", "skipped", "the episode could not be played")
    passed = "reset and the same actions give an episode again, digest for digest"
    if not claims:
        return CheckResult(
            "replay", "note", f"{passed}, but replays = False says otherwise: films cost more than they must"
        )
    how = "" if no_frames else ", and it can be filmed after its run"
    return CheckResult("replay", "passed", f"{passed}{how}")


def check_seeds(subject: Subject, reports: PlayerReports) -> CheckResult:
    """Say whether different seeds and indices give different episodes: some benchmarks have only one."""
    same = [
        subject.name(task)
        for task in range(len(subject.tasks))
        if not reports.traces[task, schedule.FIRST].error
        and not difference(
            _physics(reports.traces[task, schedule.FIRST]), _physics(reports.traces[task, f"{schedule.NEXT} 1"])
        )
    ]
    if same:
        return CheckResult(
            "seeds",
            "note",
            f"episodes 0 and 1 of {', '.join(same[:3])} begin alike: more episodes of a deterministic policy tell "
            "nothing new",
        )
    return CheckResult("seeds", "passed", "episodes of different seed and index differ")


def _physics(trace: Trace) -> Trace:
    """Return what was seen before any action: actions differ between episodes."""
    return Trace(arrays={step: arrays for step, arrays in trace.arrays.items() if step == "0"}, error=trace.error)


END, SUCCESS = "after the end", "after success"


def check_endings(
    subject: Subject, reports: PlayerReports, verdicts: Mapping[PlayComparison, Verdict]
) -> list[CheckResult]:
    """Return whether a reset after an end, and after a success, starts like any other."""
    reuse = next(verdict for comparison, verdict in verdicts.items() if comparison.name == "reused simulator")
    sound = [task for task in range(len(subject.tasks)) if reuse.stands(task)]
    if not sound:
        why = (
            "cannot be told while 'reused simulator' fails" if reuse.faults else "the episode could not be played"
        )
        return [CheckResult(name, "skipped", why) for name in (END, SUCCESS)]
    return [_after_end(subject, reports, sound), _after_success(subject, reports, sound)]


def _after_end(subject: Subject, reports: PlayerReports, tasks: list[int]) -> CheckResult:
    played = {task: reports.traces[task, schedule.TO_THE_END] for task in tasks}
    errors = {subject.name(task): trace.error for task, trace in played.items() if trace.error}
    if errors:
        remedy = "an episode must be playable up to its task's max_steps, with any actions inside the bounds"
        return judged(END, errors, "", remedy)
    ended = [task for task, trace in played.items() if trace.ended and not trace.success]
    if not ended:
        succeeded = any(trace.success for trace in played.values())
        why = (
            "every episode ended with success"
            if succeeded
            else f"no episode ended within {schedule.LONGEST} steps"
        )
        return CheckResult(END, "skipped", why)
    ways = ", ".join(sorted({played[task].ended for task in ended}))
    faults = _faults(subject, reports, dict.fromkeys(ended, schedule.AFTER_END))
    return judged(END, faults, f"the same after an episode that ended ({ways})", STATE)


def _after_success(subject: Subject, reports: PlayerReports, tasks: list[int]) -> CheckResult:
    ways = ((schedule.SUCCESS, schedule.AFTER_SUCCESS), (schedule.TO_THE_END, schedule.AFTER_END))
    reached: dict[int, str] = {}
    errors: dict[str, str] = {}
    for task in tasks:
        for play, after in ways:
            trace = reports.traces.get((task, play), Trace())
            if play == schedule.SUCCESS and trace.error:
                errors[subject.name(task)] = trace.error
            if trace.success:
                reached.setdefault(task, after)
    if errors:
        return judged(SUCCESS, errors, "", "the policy or the simulator failed on the way to success")
    who = "the policy" if subject.policy else "random actions"
    if not reached:
        hint = "" if subject.policy else "; name a policy that can: --policy.type=NAME or --policy.path=..."
        return CheckResult(SUCCESS, "skipped", f"{who} did not succeed{hint}")
    faults = _faults(subject, reports, reached)
    missed = [subject.name(task) for task in tasks if task not in reached]
    if missed and not faults:
        return CheckResult(SUCCESS, "note", f"the same after success, but {who} did not succeed in {missed[0]}")
    return judged(SUCCESS, faults, "the same after an episode that succeeded", STATE)


def _faults(subject: Subject, reports: PlayerReports, plays: Mapping[int, str]) -> dict[str, str]:
    found = {
        subject.name(task): difference(reports.traces[task, play], reports.traces[task, schedule.FIRST])
        for task, play in plays.items()
    }
    return {name: fault for name, fault in found.items() if fault}
