"""What a sample says of the whole is the exact hypergeometric answer, and holds as often as it says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.stats.sampling import chance_of_at_most, most_bad


@pytest.mark.parametrize(
    ("found", "sample", "bad", "population"), [(0, 59, 25, 500), (2, 30, 9, 80), (5, 6, 7, 9)]
)
def test_the_chance_is_scipys(found: int, sample: int, bad: int, population: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    expected = stats.hypergeom.cdf(found, population, bad, sample)
    assert float(chance_of_at_most(found, sample, bad, population)) == pytest.approx(expected, rel=1e-10)


@given(st.data())
def test_the_bound_is_where_the_chance_falls_to_a_twentieth(data: st.DataObject) -> None:
    population = data.draw(st.integers(1, 300))
    sample = data.draw(st.integers(1, population))
    found = data.draw(st.integers(0, min(3, sample)))
    bound = most_bad(found, sample, population)
    assert found <= bound <= population - sample + found
    assert chance_of_at_most(found, sample, bound, population) * 20 > 1
    if bound < population - sample + found:
        assert chance_of_at_most(found, sample, bound + 1, population) * 20 <= 1


def test_59_of_many_find_one_in_twenty() -> None:
    for population in (100, 500, 1_000, 100_000):
        assert most_bad(0, 59, population) / population < 0.05
    assert most_bad(0, 58, 1_000_000) / 1_000_000 > 0.05


def test_impossible_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="7 of a sample of 6 of 9"):
        most_bad(7, 6, 9)
