"""Of two plays of an episode, the first step and field in which they differ are named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from proctor.engine.rollout import PolicyView, ViewedKey
from proctor.replay.differences import Look, Play, difference, looks
from proctor.store.schema import EpisodeRecord
from proctor.store.trajectories import MARK, Trajectory

STEPS = 6


def view(drawn: bool = True, offsets: tuple[int, ...] = (0,), stride: int | None = 2) -> PolicyView:
    keys = [ViewedKey("state", "state", (3,), np.dtype("float64"), False)]
    keys += [ViewedKey("image", "image", (8, 6, 3), np.dtype("uint8"), True)] * drawn
    return PolicyView(frozenset(key.source for key in keys), drawn, tuple(sorted(keys)), offsets, stride)


def marks(*, image: bytes = b"\1\1", state: bytes = b"\2\2") -> bytes:
    return (image + state) * 3


def play(**changed: Any) -> Play:
    trajectory = Trajectory(
        actions=[np.ones((STEPS, 2))],
        chunks=np.array([2, 2, 2]),
        rewards=np.arange(STEPS, dtype=np.float64),
        marks=marks(),
        succeeded=STEPS,
        ending=(True, False, False),
    )
    record = EpisodeRecord("push", 0, "push", 3, 1003, "finished", True, 15.0, 5.0, STEPS, {"m": 1.0}, {"x": 2.0})
    record = replace(record, digest="d", pixel_digest="p")
    of_record = {name: value for name, value in changed.items() if hasattr(record, name) and name != "rewards"}
    rest = {name: value for name, value in changed.items() if name not in of_record}
    return Play(replace(record, **of_record), replace(trajectory, **rest))


def test_two_plays_that_are_the_same_differ_in_nothing() -> None:
    assert difference(play(), play(), view(), view()) is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"layout": {"x": 3.0}}, "step 0, layout.x: stored 2.0, now 3.0"),
        ({"rewards": np.array([0, 1, 9, 3, 9, 5.0])}, "step 3, reward: stored 2.0, now 9.0"),
        ({"rewards": np.array([-0.0, 1, 2, 3, 4, 5.0])}, "step 1, reward: stored 0.0, now -0.0"),
        ({"succeeded": 4}, "step 4, success: stored False, now True"),
        ({"succeeded": None}, "step 6, success: stored True, now False"),
        ({"ending": (False, True, False)}, "step 6, ending: stored terminated, now truncated"),
        ({"marks": marks()[:MARK] + b"xx" + marks()[2 * MARK :]}, "step 0, state"),
        ({"marks": marks()[: 2 * MARK] + b"xx" + marks()[3 * MARK :]}, "step 2, image"),
        ({"marks": marks()[:-MARK] + b"xx"}, "step 4, state"),
        ({"rewards": np.arange(5.0), "chunks": np.array([2, 2, 2])}, "step 5, ending: stored it goes on"),
        ({"success": False}, "success: stored True, now False"),
        ({"seed": 7}, "seed: stored 1003, now 7"),
        ({"metrics": {"m": 2.0}}, "metrics: stored {'m': 1.0}, now {'m': 2.0}"),
        ({"digest": "e"}, "digest: stored d, now e"),
        ({"pixel_digest": "q"}, "pixel_digest: stored p, now q"),
    ],
)
def test_the_first_step_and_the_field_are_named(changed: dict[str, Any], words: str) -> None:
    found = difference(play(), play(**changed), view(), view())
    assert found is not None
    assert str(found).startswith(f"push episode 3: {words}")


def test_of_several_differences_the_first_step_is_named() -> None:
    rewards = np.array([0, 1, 2, 3, 9, 5.0])
    other = play(rewards=rewards, marks=marks()[: 3 * MARK] + b"xx" + marks()[4 * MARK :], digest="e")
    found = difference(play(), other, view(), view())
    assert found is not None
    assert found.first is not None
    assert (found.first.step, found.first.field) == (2, "state")
    assert found.fields == {"state", "digest"}


def test_without_pictures_everything_else_is_compared() -> None:
    blind = view(drawn=False)
    assert difference(play(), play(marks=b"\2\2" * 3, pixel_digest=None), view(), blind) is None
    found = difference(play(), play(marks=b"\2\2xx\2\2", pixel_digest=None), view(), blind)
    assert str(found) == "push episode 3: step 2, state"


def test_looks_are_those_of_the_rollout() -> None:
    trajectory = play().trajectory
    assert list(looks(trajectory, view(drawn=False))) == [Look(step, "state", False) for step in (0, 2, 4)]
    wide = view(drawn=False, offsets=(-1, 0))
    assert [look.step for look in looks(trajectory, wide)] == [0, 1, 2, 3, 4, 5]
    uneven = replace(trajectory, chunks=np.array([4, 9]))
    assert [look.step for look in looks(uneven, view(drawn=False, stride=None))] == [0, 4]
