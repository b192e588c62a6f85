"""A child counts as hung when its phase lasts longer than that phase may, and only then."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.config.settings import LimitSettings
from proctor.engine.transport import Phase
from proctor.engine.watchdog import overdue

FLAGS = {
    Phase.START: "start",
    Phase.BUILD: "build",
    Phase.RESET: "reset",
    Phase.STEP: "step",
    Phase.DRAW: "draw",
    Phase.ENCODE: "draw",
    Phase.LOAD: "load",
    Phase.ACT: "act",
}
UNLIMITED = {Phase.IDLE, Phase.WAIT}
# Every limit another, so that no phase can be judged by another's.
LIMITS = LimitSettings(start=1.0, build=2.0, reset=3.0, step=4.0, draw=5.0, load=6.0, act=7.0)


def test_every_phase_has_a_limit_or_is_a_wait_for_somebody_who_has_one() -> None:
    assert FLAGS.keys() | UNLIMITED == set(Phase)
    assert set(FLAGS.values()) == {field.name for field in dataclasses.fields(LimitSettings)}


@pytest.mark.parametrize("phase", FLAGS)
def test_a_phase_within_its_limit_may_go_on(phase: Phase) -> None:
    limit = getattr(LIMITS, FLAGS[phase])
    assert overdue(phase, 100.0, 100.0, LIMITS) is None
    assert overdue(phase, 100.0, 100.0 + limit, LIMITS) is None


@pytest.mark.parametrize("phase", FLAGS)
def test_a_phase_beyond_its_limit_is_told_with_the_flag_that_changes_it(phase: Phase) -> None:
    flag = FLAGS[phase]
    limit = getattr(LIMITS, flag)
    assert overdue(phase, 100.0, 100.5 + limit, LIMITS) == f"{flag} took longer than {limit:g} s (--limits.{flag})"


@pytest.mark.parametrize("phase", sorted(UNLIMITED))
def test_waiting_and_idling_have_no_limit(phase: Phase) -> None:
    assert overdue(phase, 0.0, 1e12, LIMITS) is None


@settings(deadline=None)
@given(
    phase=st.sampled_from(Phase),
    since=st.floats(0, 1e6),
    took=st.floats(0, 1e4),
    limits=st.builds(
        LimitSettings, **{field.name: st.floats(0.01, 1e4) for field in dataclasses.fields(LimitSettings)}
    ),
)
def test_only_a_phases_own_limit_decides(phase: Phase, since: float, took: float, limits: LimitSettings) -> None:
    verdict = overdue(phase, since, since + took, limits)
    if phase in UNLIMITED:
        assert verdict is None
    else:
        assert (verdict is not None) == ((since + took) - since > getattr(limits, FLAGS[phase]))


def test_a_phase_that_seems_to_begin_in_the_future_may_go_on() -> None:
    assert overdue(Phase.STEP, 101.0, 100.0, LIMITS) is None
