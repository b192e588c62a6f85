"""How much one message may hold, known before any of it is decoded.

Fifteen megabytes of empty lists are more than a gigabyte of Python objects. So the headers of a message are walked
over first; text and arrays are one step each, however long they are.
"""

from __future__ import annotations

MOST_VALUES = 20_000
"""Values of a message, those inside of lists and maps included. An array is one: its numbers are bytes."""

MOST_LEVELS = 32


class TooLargeError(ValueError):
    """A message that holds more than any does; the text says what."""


# By first byte: how many bytes its own length takes, and how many follow beside what the length says.
_SIZED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_EXTENDED = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_FIXED = {
    0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4,
    0xD3: 8, 0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17,
}  # fmt: skip
_COUNTED = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
"""Lists and maps: bytes of the count, and values of each entry."""


def check_bounds(data: bytes) -> None:
    """Raise `TooLargeError` if msgpack holds too many values, or nests them too deeply.

    What is no msgpack at all passes: the decoder says what is wrong with it.
    """
    place, values = 0, 0
    left = [1]
    """How many values each open list or map still has, the outermost first."""
    while left:
        if not left[-1]:
            left.pop()
            continue
        left[-1] -= 1
        if place >= len(data):
            return  # cut short
        values += 1
        place, inside = _step(data, place)
        if values + inside > MOST_VALUES:
            raise TooLargeError(f"a message of more than {MOST_VALUES:,} values")
        if inside:
            left.append(inside)
            if len(left) - 1 > MOST_LEVELS:
                raise TooLargeError(f"a message nested more than {MOST_LEVELS} levels deep")


def _step(data: bytes, place: int) -> tuple[int, int]:
    """Return where the next value's header begins, and how many values this one holds."""
    first = data[place]
    place += 1
    if first < 0x80 or first >= 0xE0:
        return place, 0
    if first < 0x90:
        return place, 2 * (first & 0x0F)
    if first < 0xA0:
        return place, first & 0x0F
    if first < 0xC0:
        return place + (first & 0x1F), 0
    if first in _FIXED:
        return place + _FIXED[first], 0
    if first in _COUNTED:
        width, each = _COUNTED[first]
        return place + width, each * int.from_bytes(data[place : place + width])
    width = _SIZED.get(first) or _EXTENDED.get(first, 0)
    length = int.from_bytes(data[place : place + width])
    return place + width + length + (first in _EXTENDED), 0
