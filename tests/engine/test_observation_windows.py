"""Every window a policy is shown is complete, and with a fixed stride nothing else is looked at."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.engine.observation_windows import Windows

offset_sets = st.sets(st.integers(-9, -1), max_size=4).map(lambda past: (*sorted(past), 0))
chunk_lengths = st.lists(st.integers(1, 12), min_size=1, max_size=12)

Shown = list[tuple[int, list[int]]]


def run(offsets: tuple[int, ...], stride: int | None, chunks: list[int]) -> tuple[Shown, set[int]]:
    """Go through an episode as the engine does; returns the window at each ask, and the steps looked at."""
    windows = Windows(offsets, stride)
    windows.add(0, {"step": 0})
    looked, shown, step = {0}, [], 0
    for length in chunks:
        shown.append((step, [observation["step"] for observation in windows.at(step)]))
        next_ask = step + length
        for _ in range(length):
            look = windows.needs(step + 1, next_ask)
            step += 1
            if look:
                windows.add(step, {"step": step})
                looked.add(step)
    shown.append((step, [observation["step"] for observation in windows.at(step)]))
    return shown, looked


def everything_seen(offsets: tuple[int, ...], ask: int) -> list[int]:
    """Return the window of somebody who looks at every step."""
    return [max(0, ask + offset) for offset in offsets]


@settings(deadline=None)
@given(offsets=offset_sets, chunks=chunk_lengths)
def test_with_chunks_of_any_length_every_window_is_complete(offsets: tuple[int, ...], chunks: list[int]) -> None:
    shown, _ = run(offsets, None, chunks)
    assert shown == [(ask, everything_seen(offsets, ask)) for ask, _ in shown]
    assert [ask for ask, _ in shown] == [sum(chunks[:count]) for count in range(len(chunks) + 1)]


@settings(deadline=None)
@given(offsets=offset_sets, stride=st.integers(1, 12), count=st.integers(1, 12))
def test_with_a_fixed_stride_every_window_is_complete(offsets: tuple[int, ...], stride: int, count: int) -> None:
    shown, _ = run(offsets, stride, [stride] * count)
    assert shown == [(ask, everything_seen(offsets, ask)) for ask in range(0, stride * count + 1, stride)]


@settings(deadline=None)
@given(offsets=offset_sets, stride=st.integers(1, 12), count=st.integers(1, 12))
def test_with_a_fixed_stride_nothing_outside_of_windows_is_looked_at(
    offsets: tuple[int, ...], stride: int, count: int
) -> None:
    _, looked = run(offsets, stride, [stride] * count)
    end = stride * count
    asks = range(0, end + 10, stride)  # the episode may go on after what was run here
    in_windows = {max(0, ask + offset) for ask in asks for offset in offsets}
    assert looked == {step for step in in_windows if step <= end}


@settings(deadline=None)
@given(offsets=offset_sets, next_ask=st.integers(1, 20), back=st.integers(0, 12))
def test_without_a_stride_a_step_is_looked_at_if_and_only_if_some_later_window_may_show_it(
    offsets: tuple[int, ...], next_ask: int, back: int
) -> None:
    step = max(1, next_ask - back)
    possible = any(step - ask in offsets for ask in range(next_ask, next_ask + 40))
    assert Windows(offsets, None).needs(step, next_ask) == possible


@pytest.mark.parametrize("stride", [None, 50])
def test_a_policy_with_chunks_of_50_that_sees_only_now_looks_once_in_50_steps(stride: int | None) -> None:
    _, looked = run((0,), stride, [50] * 4)
    assert looked == {0, 50, 100, 150, 200}


def test_before_the_start_the_first_observation_is_repeated() -> None:
    windows = Windows((-2, -1, 0), 1)
    first: dict[str, Any] = {"step": 0}
    windows.add(0, first)
    assert all(shown is first for shown in windows.at(0))
    assert len(windows.at(0)) == 3


@settings(deadline=None, max_examples=30)
@given(offsets=offset_sets, stride=st.none() | st.integers(1, 5))
def test_an_observation_is_kept_only_as_long_as_a_window_can_reach_it(
    offsets: tuple[int, ...], stride: int | None
) -> None:
    class Frame(dict[str, Any]):
        """A dict that can be watched while it lives."""

    windows, frames = Windows(offsets, stride), list[weakref.ref[Frame]]()
    for step in range(60):
        if step == 0 or windows.needs(step, -(-step // (stride or 1)) * (stride or 1)):
            frame = Frame(step=step)
            frames.append(weakref.ref(frame))
            windows.add(step, frame)
            del frame
    alive = sum(reference() is not None for reference in frames)
    # Those within reach, and the first, which stands for all before the start.
    assert 1 <= alive <= -min(offsets) + 2
