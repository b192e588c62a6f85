"""What the check on drawing says of calls that were counted, and where there is nothing to count."""

from __future__ import annotations

import sys
import types
from dataclasses import replace

import pytest

from proctor.benchmarks.facts import BenchmarkFacts
from proctor.config.settings import EnvSettings
from proctor.conformance.checks import check_drawing
from proctor.conformance.players import PlayerReports
from proctor.conformance.schedule import Extent
from proctor.conformance.self_report import SelfReport
from proctor.conformance.subject import Subject
from proctor.conformance.trace import Trace
from proctor.conformance.tracer import DrawingCounter
from proctor.types import BenchmarkSpec, Feature, Task


def subject(drawn: bool = True) -> Subject:
    spec = BenchmarkSpec("x", {"observation.image": Feature((4, 4, 3), "uint8", drawn)}, action_size=1)
    tasks = (Task("a", 0, "a", "do a", 10),)
    return Subject("x:X", EnvSettings(), BenchmarkFacts(spec, tasks, {}, {}), tasks, False, None, None, Extent())


def reports(trace: Trace, draws_on_look: bool = True) -> PlayerReports:
    self_report = SelfReport({}, [], [], opens_to_tell=False, draws_on_look=draws_on_look)
    return PlayerReports([self_report], traces={(0, "first"): trace})


COUNTED = Trace(blind_steps=10, blind_draws=10, looks=2, look_draws=2)


def test_drawings_that_nobody_looked_at_are_a_fault() -> None:
    result = check_drawing(subject(), reports(COUNTED))
    assert (result.state, result.text) == ("failed", "10 steps that nobody looked at drew 10 times")


def test_a_benchmark_may_say_that_it_cannot_do_otherwise() -> None:
    assert check_drawing(subject(), reports(COUNTED, draws_on_look=False)).state == "note"


def test_drawings_on_a_look_alone_pass() -> None:
    assert check_drawing(subject(), reports(replace(COUNTED, blind_draws=0))).state == "passed"


def test_where_nothing_can_be_counted_a_look_that_costs_no_more_than_a_step_is_noted() -> None:
    dear = Trace(blind_steps=10, blind_seconds=1.0, looks=10, look_seconds=0.1)
    assert check_drawing(subject(), reports(dear)).state == "note"
    assert check_drawing(subject(), reports(replace(dear, look_seconds=9.0))).state == "passed"


def test_without_a_camera_there_is_nothing_to_check() -> None:
    assert check_drawing(subject(drawn=False), reports(COUNTED)).state == "skipped"


def test_calls_are_counted_once_however_often_one_begins_to_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("pygame.surfarray")
    vars(module)["array3d"] = lambda surface: surface
    monkeypatch.setitem(sys.modules, "pygame.surfarray", module)
    counter = DrawingCounter()
    counter.watch()
    counter.watch()
    assert module.array3d("picture") == "picture"
    assert counter.calls == 1
