"""Many tests at once."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.stats.many import compact_letters, holm


@settings(deadline=None, max_examples=100)
@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_agrees_with_statsmodels(values: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests

    assert holm(values) == pytest.approx(list(multipletests(values, method="holm")[1]))


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
