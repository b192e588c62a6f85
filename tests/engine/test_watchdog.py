"""A child counts as hung when its phase lasts longer than that phase may, and only then."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.config.settings import LimitSettings
from proctor.engine import watchdog
from proctor.engine.transport import Phase
from proctor.engine.watchdog import Stillness, overdue

FLAGS = {
    Phase.IDLE: "respond",
    Phase.WAIT: "respond",
    Phase.START: "start",
    Phase.BUILD: "build",
    Phase.RESET: "reset",
    Phase.STEP: "step",
    Phase.DRAW: "draw",
    Phase.ENCODE: "draw",
    Phase.LOAD: "load",
    Phase.ACT: "act",
}
# Every limit another, so that no phase can be judged by another's.
LIMITS = LimitSettings(start=1.0, build=2.0, reset=3.0, step=4.0, draw=5.0, load=6.0, act=7.0, respond=8.0)


def test_every_phase_has_a_limit_and_every_limit_a_phase() -> None:
    assert FLAGS.keys() == set(Phase)
    assert set(FLAGS.values()) == {field.name for field in dataclasses.fields(LimitSettings)}


@pytest.mark.parametrize("phase", FLAGS)
def test_a_phase_within_its_limit_may_go_on(phase: Phase) -> None:
    assert overdue(phase, 0.0, LIMITS) is None
    assert overdue(phase, getattr(LIMITS, FLAGS[phase]), LIMITS) is None


@pytest.mark.parametrize("phase", FLAGS)
def test_a_phase_beyond_its_limit_is_told_with_the_flag_that_changes_it(phase: Phase) -> None:
    limit = getattr(LIMITS, FLAGS[phase])
    reason = overdue(phase, limit + 0.5, LIMITS)
    assert reason is not None
    assert f"{limit:g} s (--limits.{FLAGS[phase]})" in reason


@settings(deadline=None)
@given(
    phase=st.sampled_from(Phase),
    took=st.floats(0, 1e4),
    limits=st.builds(
        LimitSettings, **{field.name: st.floats(0.01, 1e4) for field in dataclasses.fields(LimitSettings)}
    ),
)
def test_only_a_phases_own_limit_decides(phase: Phase, took: float, limits: LimitSettings) -> None:
    assert (overdue(phase, took, limits) is not None) == (took > getattr(limits, FLAGS[phase]))


class Clock:
    """The monotonic clock of a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = 100.0
        monkeypatch.setattr(watchdog, "now", lambda: self.time)

    def pass_by(self, still: Stillness, seconds: float, every: float = 0.25) -> float:
        """Let time pass for a process that looks that often."""
        stood = still.seconds("same")
        for _ in range(round(seconds / every)):
            self.time += every
            stood = still.seconds("same")
        return stood


def test_what_stays_the_same_grows_old(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, still = Clock(monkeypatch), Stillness()
    assert clock.pass_by(still, 60.0) == pytest.approx(60.0)
    assert still.seconds("another") == 0.0


def test_time_that_the_watcher_slept_through_ages_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, still = Clock(monkeypatch), Stillness()
    clock.pass_by(still, 10.0)
    clock.time += 3600.0
    assert still.seconds("same") <= 11.0
    assert clock.pass_by(still, 10.0) <= 21.0


def test_who_moves_on_is_never_old(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, still = Clock(monkeypatch), Stillness()
    for step in range(100):
        clock.time += 0.9
        assert still.seconds(step) == 0.0
