"""Flags as people type them: `--a.b=c`, `--a.b c`, `a.b=c`, hyphens or underscores.

The result is a nested dict of strings; types come later, when it is known which settings the names mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proctor.errors import UsageError
from proctor.files import clip

Nested = dict[str, Any]


class FlagText(str):
    """A value as it stood on the command line: unlike text from YAML or Python, its type is still open."""

    __slots__ = ()


_MOST_LEVELS = 32
_BARE = re.compile(r"[A-Za-z_][\w.-]*=")
SHORT = {"-x": "--exitfirst"}
"""Flags of one letter, as pytest has them."""

_TRUTH = {"true", "false", "yes", "no", "on", "off", "t", "f", "y", "n", "1", "0"}


def parse_flags(
    arguments: Sequence[str],
    is_switch: Callable[[str], bool],
    check_name: Callable[[str], None] = lambda name: None,
    program: str = "proctor eval",
    tell: Callable[[str], None] = lambda words: None,
) -> dict[str, str]:
    """Return dotted names and their text, later flags winning.

    Args:
        arguments: the command line without the program's and the command's name.
        is_switch: whether a name is a yes/no setting, which may stand without a value.
        check_name: raises for a name that cannot be one; asked before a value is missed.
        program: whose help is named.
        tell: is told of a name that is given two values.
    """
    flags: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        token = rest.pop(0)
        token = SHORT.get(token, token)
        if not re.match("--[^=]", token) and not _BARE.match(token):
            raise UsageError(f"'{token}': expected --name=value. See: {program} --help")
        name, equals, value = token.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not equals:
            if is_switch(name) and not (rest and rest[0].lower() in _TRUTH):
                value = "true"
            elif not rest or rest[0].startswith("--"):
                check_name(name)
                raise UsageError(f"{token} needs a value: {token}=...")
            else:
                value = rest.pop(0)
        if flags.get(name, value) != value:
            tell(f"--{name} is given twice: {clip(value, 60)} holds, {clip(flags[name], 60)} does not")
        flags[name] = value
    return flags


def whole_number(flag: str, text: str, least: int, most: int) -> int:
    """Return a flag's text as a whole number between two bounds. Raises `UsageError`.

    >>> whole_number("port", "8000", 0, 65535)
    8000
    """
    digits = text.strip().removeprefix("+")
    # Not more digits than any bound has: Python refuses thousands of them in its own way.
    if digits.isascii() and digits.removeprefix("-").isdigit() and len(digits) <= 30:
        number = int(digits)
        if least <= number <= most:
            return number
    raise UsageError(f"--{flag}={clip(text, 60)}: must be a whole number from {least} to {most}.")


def nest(flags: Mapping[str, str]) -> Nested:
    """Turn dotted names into a tree.

    >>> nest({"env.task": "reach-v3", "seed": "7"})
    {'env': {'task': 'reach-v3'}, 'seed': '7'}
    """
    tree: Nested = {}
    for name, value in flags.items():
        *parents, leaf = name.split(".")
        if len(parents) > _MOST_LEVELS:
            raise UsageError(f"--{clip(name, 60)}: no setting has so many dots.")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
            if not isinstance(branch, dict):
                raise UsageError(f"--{parent}={clip(branch)}: '{parent}' is a section; set --{name} and others.")
        branch[leaf] = FlagText(value)
    return tree


def merge(below: Nested, above: Nested) -> Nested:
    """Return both trees in one; `above` wins."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
