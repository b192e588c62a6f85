"""Settings as YAML: those of a run, changed here and there, and text that is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from hypothesis import strategies as st

from fuzz.values import BENCH, WORDS, of_type
from hostile_runs import BOMB

_RAW = (
    "", "#", "---\n", "--- a\n--- b\n", "[1, 2]", "7", "null", "a", ": :", "\t", "{", "a: &x [*x]", "&a a: *a",
    "<<: *a",
    "a: 1\na: 2", "policy: &p {path: x}\nenv: *p", "<<: {seed: 7}", "? [a, b]\n: c", "1: 2", "null: 1", "true: 1",
    "seed: !!int '7'", "seed: !!python/name:os.system", "!!binary aGk=", "seed: 0o17", "seed: 1:30", "seed: .inf",
    "seed: .nan", "seed: yes", "seed: 2026-01-31", "seed: " + "9" * 5000, "seed: 0x" + "f" * 5000, "a: |\n  b\n c",
    "%YAML 9.9\n---\na: 1", "%TAG ! tag:x,2000:\n--- !a b", "a: 'b", 'a: "\\x"', 'a: "\\ud800"', "a: \x07",
    "- " * 3000, "[" * 3000, "{a: " * 200, BOMB, "a: !!timestamp 9999-99-99", "a: !!float x", "a: !!set {b, c}",
    "a: !!omap [b: 1]", "eval: 7", "policy: []", "env: null", "eval: {n_episodes: [1]}", "\ufeffseed: 7",
    "a: \u2028b",
)  # fmt: skip


_ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 7, 2**64, 10**400, 1.5, [], {}, [[]], {"a": {}}, {1: 2}, b"\xff", ".inf", ".nan",
    "2026-01-31", "1:30",
)  # fmt: skip
_SCALARS = st.one_of(WORDS, st.sampled_from(_ODD), st.integers(-3, 3))


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.one_of(st.sampled_from(("a", "type", "path", 0, None)), st.text(max_size=3))
    return st.one_of(inner, st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3))


_TREES = _nested(_nested(_SCALARS))


@st.composite
def documents(draw: st.DrawFn, places: list[str], types: Mapping[str, Any]) -> bytes:
    """Draw the bytes of a settings file.

    Args:
        draw: from hypothesis.
        places: paths of every kind.
        types: the dotted names of known settings, and their types.
    """
    wild = draw(st.booleans())
    if wild and draw(st.booleans()):
        text = draw(st.one_of(st.sampled_from(_RAW), st.text(max_size=40)))
        return _encoded(draw, text)
    tree: dict[Any, Any] = {
        "policy": {"type": "python", "path": f"{BENCH}:Still"},
        "env": {"type": f"{BENCH}:{draw(st.sampled_from(('OneStep', 'Reached')))}", "task": "a"},
        "eval": {"n_episodes": 1, "use_async_envs": False},
        "seed": 7,
    }
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(sorted(types)))
        *parents, leaf = name.split(".")
        branch: Any = tree
        for parent in parents:
            branch = branch.setdefault(parent, {}) if isinstance(branch, dict) else {}
        if isinstance(branch, dict):
            mild = of_type(types[name], places).map(_read)
            branch[leaf] = draw(st.one_of(_TREES, st.sampled_from(places), _SCALARS) if wild else mild)
    if wild and not draw(st.integers(0, 5)):
        tree[draw(st.sampled_from(("policy", "env", "eval", "extra", "limits", 7)))] = draw(_TREES)
    text = yaml.dump(tree, allow_unicode=draw(st.booleans()), default_flow_style=draw(st.booleans()))
    if not wild:
        return text.encode()
    data = _encoded(draw, text)
    return data if draw(st.integers(0, 2)) else damaged(draw, data)


def _read(text: str) -> Any:
    """Return a flag's text as YAML would have it, if it would."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return text


def _encoded(draw: st.DrawFn, text: str) -> bytes:
    codec = draw(st.sampled_from(("utf-8", "utf-8", "utf-8", "utf-8", "utf-16", "utf-8-sig", "latin-1", "utf-32")))
    return text.encode(codec, "replace")


def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Return bytes with a few changed, cut off, doubled, or put in."""
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(0, len(data) - 1)))
        kind = draw(st.sampled_from(("flip", "cut", "double", "put", "empty", "zero")))
        if kind == "flip":
            data = data[:place] + bytes([draw(st.integers(0, 255))]) + data[place + 1 :]
        elif kind == "zero":
            data = data[:place] + bytes(min(64, len(data) - place)) + data[place + 64 :]
        elif kind == "cut":
            data = data[:place]
        elif kind == "double":
            data = data[:place] + data[place:] + data[place:]
        elif kind == "put":
            data = data[:place] + draw(st.binary(min_size=1, max_size=9)) + data[place:]
        else:
            data = b""
    return data[: 4 << 20]
