"""How many episodes tell a difference."""

from __future__ import annotations

from itertools import product
from math import comb

import pytest

from proctor.stats import planning
from proctor.stats.paired import Pairs, mcnemar
from proctor.stats.planning import paired_episodes, paired_power, unpaired_episodes


@pytest.mark.parametrize(
    ("episodes", "difference", "disagreement"), [(12, 0.5, 0.6), (20, 0.3, 0.4), (9, 0.4, 0.4)]
)
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_the_power_is_what_adding_up_all_outcomes_gives(
    episodes: int, difference: float, disagreement: float, alpha: float
) -> None:
    second, first = (disagreement + difference) / 2, (disagreement - difference) / 2
    total = 0.0
    for wins, losses in product(range(episodes + 1), repeat=2):
        rest = episodes - wins - losses
        if rest >= 0 and mcnemar(Pairs(rest, losses, wins, 0)) <= alpha:
            ways = comb(episodes, wins) * comb(episodes - wins, losses)
            total += ways * second**wins * first**losses * (1 - disagreement) ** rest
    assert paired_power(episodes, difference, disagreement, alpha) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize(
    ("difference", "disagreement"), [(0.1, 0.38), (0.1, 0.2), (0.05, 0.1), (0.3, 0.35), (0.05, 0.05), (-0.1, 0.2)]
)
def test_the_planned_episodes_are_enough_and_few_less_are_not(difference: float, disagreement: float) -> None:
    needed = paired_episodes(difference, disagreement)
    assert needed is not None
    assert paired_power(needed, difference, disagreement) >= 0.8
    assert paired_power(int(0.93 * needed), difference, disagreement) < 0.8


def test_small_differences_and_strict_tests_and_much_disagreement_take_more() -> None:
    needed = [paired_episodes(d, 0.3) or 0 for d in (0.2, 0.1, 0.05, 0.02, 0.01)]
    assert needed == sorted(needed)
    assert (paired_episodes(0.1, 0.3, alpha=0.001) or 0) > needed[1]
    assert (paired_episodes(0.1, 0.5) or 0) > needed[1]
    assert (paired_episodes(0.1, 0.3, power=0.95) or 0) > needed[1]


@pytest.mark.parametrize("difference", [0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-7])
@pytest.mark.parametrize("share", [1.0, 3.0, 1000.0])
@pytest.mark.parametrize("alpha", [0.05, 1e-4])
def test_a_plan_for_a_tiny_difference_takes_no_more_work_than_one_for_a_large(
    difference: float, share: float, alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float] = []
    power = planning.paired_power

    def counting(episodes: int, difference: float, disagreement: float, alpha: float) -> float:
        tried.append(episodes * disagreement)
        return power(episodes, difference, disagreement, alpha)

    monkeypatch.setattr(planning, "paired_power", counting)
    disagreement = min(1.0, share * difference)
    needed = paired_episodes(difference, disagreement, alpha)
    assert needed is not None
    assert needed > 5 / difference
    assert len(tried) <= 20
    # The work of each goes with the root of the pairs that disagree.
    assert max(tried, default=0) <= 4 * planning.EXACT_UP_TO


@pytest.mark.parametrize(("difference", "disagreement"), [(0.004, 0.21), (0.001, 0.06), (0.01, 0.9)])
@pytest.mark.parametrize("alpha", [0.05, 1e-3])
def test_where_the_formula_takes_over_the_power_is_still_the_one_asked_for(
    difference: float, disagreement: float, alpha: float
) -> None:
    needed = paired_episodes(difference, disagreement, alpha)
    assert needed is not None
    assert needed * disagreement > planning.EXACT_UP_TO
    assert paired_power(needed, difference, disagreement, alpha) == pytest.approx(0.8, abs=0.001)


def test_unpaired_numbers_are_the_textbooks() -> None:
    # Fleiss, Levin and Paik (2003), without continuity correction: 0.65 against 0.75 at 80 %, and 0.5 against 0.6.
    assert unpaired_episodes(0.65, 0.75) == pytest.approx(329, abs=1)
    assert unpaired_episodes(0.5, 0.6) == pytest.approx(388, abs=1)
    assert unpaired_episodes(0.6, 0.5) == unpaired_episodes(0.5, 0.6)


def test_no_difference_is_never_told() -> None:
    assert paired_episodes(0, 0.3) is None
    assert unpaired_episodes(0.4, 0.4) is None


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot differ"):
        paired_episodes(0.3, 0.2)
