"""Whether the pair that separates best is found, and whether its p-value is what chance would do."""

from __future__ import annotations

import numpy as np
import pytest

from proctor.stats.separation import MOST_NUMBERS, best_pair


def numbers(
    rng: np.random.Generator, episodes: int, columns: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return rng.normal(size=(episodes, columns))


def test_the_two_numbers_that_decide_are_found_among_many() -> None:
    rng = np.random.default_rng(0)
    for first, second in ((0, 1), (2, 5), (4, 5)):
        layout = numbers(rng, 40, 6)
        found = best_pair(layout, layout[:, first] + layout[:, second] > 0.3)
        assert found is not None
        assert found.columns == (first, second)
        assert found.score > 0.4
        assert found.p_value < 0.001


def test_the_score_is_that_of_a_fitted_plane() -> None:
    rng = np.random.default_rng(1)
    layout = 3 + 7 * numbers(rng, 25, 2)
    won = layout[:, 0] + rng.normal(size=25) > 3
    found = best_pair(layout, won)
    assert found is not None
    design = np.column_stack([np.ones(25), layout])
    fitted = design @ np.linalg.lstsq(design, won.astype(float), rcond=None)[0]
    explained = 1 - ((won - fitted) ** 2).sum() / ((won - won.mean()) ** 2).sum()
    assert found.score == pytest.approx(explained)


def test_where_nothing_decides_a_small_p_value_is_as_rare_as_it_says() -> None:
    rng = np.random.default_rng(2)
    found = [best_pair(numbers(rng, 20, 6), rng.permutation(20) < 6) for _ in range(300)]
    values = np.array([one.p_value for one in found if one is not None])
    assert len(values) == 300
    for level in (0.05, 0.2, 0.5):
        spread = np.sqrt(level * (1 - level) / 300)
        assert abs((values <= level).mean() - level) < 4 * spread
    # The best of 15 pairs looks good all the same: that is why it is shuffled.
    assert np.mean([one.score for one in found if one is not None]) > 0.2


def test_the_same_outcomes_have_the_same_answer_whatever_the_units() -> None:
    layout = numbers(np.random.default_rng(3), 30, 3)
    won = layout[:, 1] > 0
    found = best_pair(layout, won)
    assert found == best_pair(layout, won)
    for units in (1e300, 1e-300, -1000.0):
        other = best_pair(layout * units, won)
        assert other is not None
        assert (other.columns, other.p_value) == (found.columns, found.p_value)  # type: ignore[union-attr]
        assert other.score == pytest.approx(found.score)  # type: ignore[union-attr]


def test_numbers_that_never_vary_are_no_reason() -> None:
    layout = numbers(np.random.default_rng(4), 30, 4)
    layout[:, 0], layout[:, 2] = 0.0, 0.02
    layout[3, 3] = 0.1
    won = layout[:, 3] > 0
    found = best_pair(layout, won)
    assert found is not None
    assert found.columns == (1, 3)
    assert best_pair(layout[:, :3], won) is None  # one alone varies
    alike = np.column_stack([layout[:, 1], -2 * layout[:, 1]])
    again = best_pair(alike, layout[:, 1] > 0)
    assert again is not None
    assert again.score < 1


def test_what_is_not_finite_is_left_out_and_of_many_numbers_the_first_are_looked_at() -> None:
    layout = numbers(np.random.default_rng(5), 30, MOST_NUMBERS + 5)
    layout[0, 0], layout[1, 1] = np.inf, np.nan
    won = layout[:, -1] > 0
    found = best_pair(layout, won)
    assert found is not None
    assert set(found.columns) <= set(range(2, MOST_NUMBERS + 2))


@pytest.mark.parametrize("won", [[True] * 9, [False] * 9, [True] * 8 + [False], []])
def test_without_two_of_each_outcome_there_is_nothing_to_tell(won: list[bool]) -> None:
    layout = numbers(np.random.default_rng(6), len(won), 3)
    assert best_pair(layout, np.array(won, bool)) is None
