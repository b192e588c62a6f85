"""A result in the `model-index` of a model card: put into README.md's YAML, and not a byte else is changed.

YAML can be written in many ways, and nobody wants a card to come back in another. So it is not parsed and written
anew: its parse says where lines have to go. What then reads back is compared with what was meant; a card that is
written in a way for which this does not work is refused, and left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import yaml

from proctor.config.yaml_files import YamlError, dump_yaml, parse_yaml
from proctor.errors import UsageError

_BLOCK = re.compile(r"\A(\ufeff?\s*---[ \t]*\r?\n)(.*?)(^---[ \t]*\r?(?:\n|\Z))", re.DOTALL | re.MULTILINE)
"""Where the Hub finds a card's YAML: between the first two lines that are three dashes."""

_KEY = "model-index"
_Node = Any  # PyYAML's types are unknown to mypy in parts

Result = dict[str, Any]


class _Edit(NamedTuple):
    """Text that takes the place of what lies between two places."""

    start: int
    end: int
    text: str


def with_result(card: str, model: str, result: Result, replaces: Callable[[Any], bool]) -> str:
    """Return a card with a result in its model index.

    Args:
        card: README.md; empty if there is none.
        model: what to call the model if the index does not name it yet.
        result: as the model index holds it.
        replaces: whether a result that is there is an earlier one of the same thing.

    Raises:
        UsageError: the card's YAML cannot be read, or is written in a way that cannot be added to.
    """
    newline = "\r\n" if "\r\n" in card[:10_000] else "\n"
    found = _BLOCK.match(card)
    if found is None:
        return _lines(f"---\n{_new_index(model, result)}---\n", newline) + card
    head, block, _ = found.groups()
    before = _read(block)
    place = _place(before, replaces)
    meant = _meant(before, model, result, place)
    if meant == before:
        return card
    edit = _edit(block, model, result, place)
    after = block[: edit.start] + _lines(edit.text, newline) + block[edit.end :]
    try:
        arrived = parse_yaml(after) == meant
    except YamlError:
        arrived = False
    if not arrived:
        raise _cannot("it is written in a way that cannot be added to")
    return head + after + card[len(head) + len(block) :]


def _read(block: str) -> dict[str, Any]:
    try:
        tree = parse_yaml(block)
    except YamlError as error:
        raise UsageError(f"README.md: its YAML cannot be read: {error}. Mend it, then try again.") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise UsageError("README.md: its YAML is no map of names to values. Mend it, then try again.")
    return tree


def _cannot(why: str) -> UsageError:
    return UsageError(f"README.md: {_KEY}: {why}. Take it out of the file, or put it right, then try again.")


def _results(tree: dict[str, Any]) -> list[Any]:
    """Return the results of the card's first model. Raises `UsageError` if they are something else."""
    index = tree.get(_KEY) or []
    if not isinstance(index, list) or not all(isinstance(one, dict) for one in index):
        raise _cannot("it is no list of models")
    results = (index[0].get("results") or []) if index else []
    if not isinstance(results, list):
        raise _cannot("the results of its first model are no list")
    return results


def _place(tree: dict[str, Any], replaces: Callable[[Any], bool]) -> int | None:
    """Return which of the results is to be replaced, if one is."""
    return next((place for place, one in enumerate(_results(tree)) if replaces(one)), None)


def _meant(tree: dict[str, Any], model: str, result: Result, place: int | None) -> dict[str, Any]:
    """Return what the card is to say: all that it says, and the result."""
    results = list(_results(tree))
    if place is None:
        results.append(result)
    else:
        results[place] = result
    # Copied on the way there alone: what an alias repeats elsewhere is to stay as it was.
    first, *others = tree.get(_KEY) or [{"name": model}]
    return {**tree, _KEY: [{**first, "results": results}, *others]}


def _edit(block: str, model: str, result: Result, place: int | None) -> _Edit:
    """Return what to change in the text so that it says so too."""
    key, index = _child(yaml.compose(block, yaml.SafeLoader), _KEY)
    if key is None:
        return _Edit(len(block), len(block), _new_index(model, result))
    if not _in_lines(index):
        if _in_brackets(index):
            raise _cannot("it is written in one line")
        return _Edit(key.start_mark.index, _line_end(block, index), _new_index(model, result))
    first = index.value[0]
    if not _in_lines(first):
        raise _cannot("its first model is written in one line")
    name, results = _child(first, "results")
    if name is None:
        end = _line_end(block, first)
        column = first.value[0][0].start_mark.column
        return _Edit(end, end, _indented(_new_results(result), column))
    if not _in_lines(results):
        if _in_brackets(results):
            raise _cannot("its results are written in one line")
        column = name.start_mark.column
        text = _indented(_new_results(result), column)
        return _Edit(name.start_mark.index, _line_end(block, results), text.lstrip(" "))
    dash = block.rindex("-", 0, results.value[0].start_mark.index)
    text = _indented(_dumped([result]), dash - (block.rfind("\n", 0, dash) + 1))
    if place is None:
        end = _line_end(block, results)
        return _Edit(end, end, text)
    # The first may lie behind the dash of its model, on one line with it: that dash is no part of it.
    start = block.rindex("-", 0, results.value[place].start_mark.index)
    return _Edit(start, _line_end(block, results.value[place]), text.lstrip(" "))


def _child(node: _Node, name: str) -> tuple[_Node, _Node]:
    """Return key and value of a map's entry; `None` for both if it has none."""
    for key, value in getattr(node, "value", None) or ():
        if key.value == name:
            return key, value
    return None, None


def _in_lines(node: _Node) -> bool:
    """Whether a list or map is written line by line, and not in brackets."""
    return isinstance(node, yaml.CollectionNode) and not node.flow_style and bool(node.value)


def _in_brackets(node: _Node) -> bool:
    """Whether it is a list or map that is written in brackets, and not empty."""
    return isinstance(node, yaml.CollectionNode) and bool(node.value)


def _line_end(block: str, node: _Node) -> int:
    """Return where the line after a value begins; a comment on its last line belongs to it."""
    while _in_lines(node):
        node = node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1]
    end: int = node.end_mark.index
    if block[end - 1 : end] == "\n":  # a text of several lines ends there itself
        return end
    found = block.find("\n", end)
    return len(block) if found < 0 else found + 1


def _new_index(model: str, result: Result) -> str:
    return _dumped({_KEY: [{"name": model, "results": [result]}]})


def _new_results(result: Result) -> str:
    return _dumped({"results": [result]})


def _dumped(value: Any) -> str:
    return dump_yaml(value, sort_keys=False, width=1 << 20)


def _indented(text: str, column: int) -> str:
    return "".join(f"{' ' * column}{line}\n" for line in text.splitlines())


def _lines(text: str, newline: str) -> str:
    return text.replace("\n", newline)
