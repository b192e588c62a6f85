"""Many tests at once."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.stats.multiple_testing import compact_letters, holm


@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_rejects_what_bonferroni_rejects_in_every_set_that_holds_it(values: list[float]) -> None:
    # Holm is the closed testing procedure of Bonferroni's test: that is why it needs no assumption.
    places = range(len(values))
    sets = [chosen for size in places for chosen in combinations(places, size + 1)]
    for place, adjusted in zip(places, holm(values), strict=True):
        closed = max(len(chosen) * min(values[other] for other in chosen) for chosen in sets if place in chosen)
        assert adjusted == pytest.approx(min(1.0, closed))


@given(values=st.lists(st.floats(0, 1), max_size=20))
def test_holm_only_raises_and_keeps_the_order(values: list[float]) -> None:
    adjusted = holm(values)
    assert all(value <= more <= 1 for value, more in zip(values, adjusted, strict=True))
    for a, b in combinations(range(len(values)), 2):
        if values[a] < values[b]:
            assert adjusted[a] <= adjusted[b]


@given(count=st.integers(1, 7), data=st.data())
def test_two_policies_share_a_letter_if_and_only_if_they_were_not_told_apart(
    count: int, data: st.DataObject
) -> None:
    every = list(combinations(range(count), 2))
    different = data.draw(st.sets(st.sampled_from(every))) if every else set()
    letters = compact_letters(count, different)
    assert all(letters)
    for a, b in every:
        assert bool(set(letters[a]) & set(letters[b])) == ((a, b) not in different)


def test_the_best_has_an_a() -> None:
    assert compact_letters(4, {(0, 2), (0, 3), (1, 3)}) == ["a", "ab", "bc", "c"]
    assert compact_letters(3, set()) == ["a", "a", "a"]
    assert compact_letters(1, set()) == ["a"]
