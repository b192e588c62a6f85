"""Which episode each environment plays: those of a plan, dealt out."""

from __future__ import annotations

import pytest

from proctor.vector.env import EpisodeCount


def never() -> int:
    raise AssertionError("no seed has to be drawn")


def test_environments_that_are_seeded_together_play_the_plan_in_turns() -> None:
    counts = [EpisodeCount(place, 3) for place in range(3)]
    first = [count.next(1000 + place, None, never) for place, count in enumerate(counts)]
    assert first == [(0, 1000), (1, 1001), (2, 1002)]
    assert [count.next(None, None, never) for count in counts] == [(3, 1003), (4, 1004), (5, 1005)]


def test_lerobots_seeds_of_a_later_batch_mean_its_episodes_whatever_was_played_between() -> None:
    count = EpisodeCount(place=1, stride=2)
    count.next(1001, None, never)
    count.next(None, None, never)
    count.next(None, None, never)
    assert count.next(1003, None, never) == (3, 1003)


def test_the_same_seed_is_the_same_episode() -> None:
    count = EpisodeCount()
    first = count.next(7, None, never)
    count.next(None, None, never)
    assert count.next(7, None, never) == first == (0, 7)


@pytest.mark.parametrize("place", [0, 1])
def test_a_seed_from_before_the_beginning_begins_anew(place: int) -> None:
    count = EpisodeCount(place, 2)
    count.next(10 + place, None, never)
    assert count.next(9 + place, None, never) == (place, 9 + place)
    assert count.next(0 + place, None, never) == (place, place)


def test_an_index_of_ones_own_choice() -> None:
    count = EpisodeCount()
    count.next(1000, None, never)
    assert count.next(None, 5, never) == (5, 1005)
    assert count.next(None, None, never) == (6, 1006)
    assert count.next(3, 5, never) == (5, 3)
    assert count.next(None, None, never) == (6, 4)


def test_without_a_seed_one_is_drawn_once() -> None:
    count = EpisodeCount(place=2, stride=4)
    assert count.next(None, None, lambda: 50) == (2, 52)
    assert count.next(None, None, never) == (6, 56)
