"""Several tests at once: Holm's correction, and letters that tell which of several policies differ."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from string import ascii_lowercase


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values that may each be held against alpha though there are many of them (Holm 1979).

    The chance that *any* of them calls two equal policies different stays below alpha, however the tests
    depend on each other.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    worst = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = worst
    return adjusted


def compact_letters(count: int, different: Collection[tuple[int, int]]) -> list[str]:
    """Return letters for policies 0, 1, ...: two share a letter if and only if they were *not* told apart.

    Piepho's insert-and-absorb (2004). Number the policies by falling rate, and the best have an `a`.

    >>> compact_letters(3, {(0, 2)})
    ['a', 'ab', 'b']
    """
    columns: list[frozenset[int]] = [frozenset(range(count))]
    for first, second in sorted(different):
        split = [column for column in columns if {first, second} <= column]
        columns = [column for column in columns if column not in split]
        for column in split:
            columns += [column - {first}, column - {second}]
        # A column inside another tells nothing that the other does not.
        columns = [
            column
            for place, column in enumerate(columns)
            if not any(column < other or (column == other and place > at) for at, other in enumerate(columns))
        ]
    columns.sort(key=sorted)
    return [
        "".join(_letter(place) for place, column in enumerate(columns) if who in column) for who in range(count)
    ]


def _letter(place: int) -> str:
    return ascii_lowercase[place % 26] * (1 + place // 26)
