"""The check that a step without a look draws nothing."""

from __future__ import annotations

from proctor.conformance.playing import Seen
from proctor.conformance.results import CheckResult
from proctor.conformance.subject import Subject
from proctor.report.console import count

_DEAR, _ALIKE = 0.005, 1.3
"""Seconds that make a step worth a word, and how much dearer a look has to be at least if it is what draws."""


def check_drawing(subject: Subject, seen: Seen) -> CheckResult:
    """Judge by the calls of known drawing functions; where there are none, say what a look costs."""
    name = "drawing"
    if not any(feature.drawn for feature in subject.facts.spec.every.values()):
        return CheckResult(name, "skipped", "the spec has no drawn feature")
    traces = seen.traces.values()
    blind, draws = sum(t.blind_steps for t in traces), sum(t.blind_draws for t in traces)
    looks, drawn = sum(t.looks for t in traces), sum(t.look_draws for t in traces)
    if draws:
        text = f"{count(blind, 'step')} that nobody looked at drew {count(draws, 'time')}"
        if not seen.introductions[0].draws_on_look:
            return CheckResult(name, "note", f"{text}: looking less saves nothing, as draws_on_look says")
        return CheckResult(
            name,
            "failed",
            text,
            "draw in observe(), or in step() only what its look names; else draws_on_look = False",
        )
    if drawn:
        return CheckResult(
            name, "passed", f"{count(blind, 'step')} without a look drew nothing, {looks} looks did"
        )
    step = sum(t.blind_seconds for t in traces) / max(1, blind)
    look = sum(t.look_seconds for t in traces) / max(1, looks)
    cost = f"processor time: {1000 * step:.2g} ms a step without a look, {1000 * look:.2g} ms a look"
    if step > _DEAR and look < _ALIKE * step:
        return CheckResult(name, "note", f"{cost}; it may draw at every step")
    return CheckResult(name, "passed", cost)
