"""YAML is counted before it is built."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from hostile_runs import BOMB
from proctor.config.flags import FlagText
from proctor.config.yaml_files import MOST_VALUES, TooLargeError, YamlError, dump_yaml, parse_yaml

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(PLAIN)
@example({"\x85": "a\u2028b"})
def test_what_is_written_is_read(value: object) -> None:
    assert parse_yaml(dump_yaml(value)) == value


def test_aliases_are_fine_as_long_as_what_they_repeat_is() -> None:
    same = [1, 2]
    text = yaml.safe_dump({"a": same, "b": same})
    assert "*id001" in text
    assert parse_yaml(text) == {"a": [1, 2], "b": [1, 2]}
    assert parse_yaml("a: &x {y: 1}\nb: {<<: *x, z: 2}") == {"a": {"y": 1}, "b": {"y": 1, "z": 2}}


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "&a [*a]",
        "&a {x: *a}",
        "x: &a [*b]\ny: &b [*a]",
        "[" * 65 + "]" * 65,
        "\n".join("- x" for _ in range(MOST_VALUES)),
        "- " + "x" * (1 << 21),
        "a: &a " + "x" * 100_000 + "\nb: [" + "*a, " * 100 + "]",
    ],
)
def test_what_would_become_too_much_is_refused(text: str) -> None:
    with pytest.raises(TooLargeError) as caught:
        parse_yaml(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "text", ["[", "a: b: c", "'", "\x01", "!!python/object:os.system {}", "1" * 5000, "*nobody"]
)
def test_what_is_no_yaml_is_one_line(text: str) -> None:
    with pytest.raises(YamlError) as caught:
        parse_yaml(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_halves_of_characters_and_texts_of_flags_are_read() -> None:
    assert parse_yaml('"\\udc80"') == "\udc80"
    assert parse_yaml(FlagText("{a: 1}")) == {"a": 1}
