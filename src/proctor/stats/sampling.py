"""What a sample says of the whole that it was drawn from, without replacement: exact, by the hypergeometric."""

from __future__ import annotations

import math
from fractions import Fraction


def chance_of_at_most(found: int, sample: int, bad: int, population: int) -> Fraction:
    """Return the chance that a sample has at most `found` bad ones, of so many in the population.

    >>> chance_of_at_most(0, 2, 1, 4)
    Fraction(1, 2)
    """
    ways = sum(
        math.comb(bad, number) * math.comb(population - bad, sample - number)
        for number in range(max(0, sample - population + bad), min(found, bad, sample) + 1)
    )
    return Fraction(ways, math.comb(population, sample))


def most_bad(found: int, sample: int, population: int, confidence: float = 0.95) -> int:
    """Return how many bad ones there may be at most, with that confidence, if a sample has `found` of them.

    The largest number with which so few would still be found in more than 1 - confidence of all samples: with more
    of them, a sample like this is as rare as that, or rarer.

    >>> most_bad(0, 59, 500)
    23
    >>> most_bad(0, 500, 500)
    0
    """
    if not 0 <= found <= sample <= population:
        raise ValueError(f"{found} of a sample of {sample} of {population}")
    rare = 1 - Fraction(confidence).limit_denominator(10**9)
    low, high = found, population - sample + found  # what is outside of the sample may all be bad
    while low < high:
        middle = (low + high + 1) // 2
        if chance_of_at_most(found, sample, middle, population) > rare:
            low = middle
        else:
            high = middle - 1
    return low
