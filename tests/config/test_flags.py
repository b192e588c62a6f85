"""Flags mean the same however people type them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.config.flags import merge, nest, parse_flags
from proctor.errors import UsageError

SWITCH = "eval.use_async_envs"

words = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)
parts = st.lists(words, min_size=1, max_size=3).map("_".join)
names = st.lists(parts, min_size=1, max_size=3).map(".".join)
# What follows a space and starts with two dashes is the next flag, so such a value needs the equals sign.
values = st.text(max_size=12).filter(lambda value: not value.startswith("--"))
trees = st.recursive(
    st.dictionaries(words, st.integers(), max_size=3),
    lambda inner: st.dictionaries(words, st.one_of(st.integers(), inner), max_size=3),
    max_leaves=8,
)


def is_switch(name: str) -> bool:
    return name == SWITCH


def parse(*arguments: str) -> dict[str, str]:
    return parse_flags(arguments, is_switch)


def spellings(name: str, value: str) -> list[list[str]]:
    hyphened = name.replace("_", "-")
    return [
        [f"--{name}={value}"],
        [f"--{name}", value],
        [f"{name}={value}"],
        [f"--{hyphened}={value}"],
        [f"--{hyphened}", value],
        [f"{hyphened}={value}"],
    ]


@settings(deadline=None)
@given(name=names, value=values)
def test_every_way_to_write_a_flag_means_the_same(name: str, value: str) -> None:
    assert [parse(*spelling) for spelling in spellings(name, value)] == [{name: value}] * 6


@settings(deadline=None, max_examples=50)
@given(flags=st.dictionaries(names, values, max_size=6), data=st.data())
def test_a_command_line_may_mix_all_the_ways(flags: dict[str, str], data: st.DataObject) -> None:
    line: list[str] = []
    for name, value in flags.items():
        line += data.draw(st.sampled_from(spellings(name, value)))
    assert parse(*line) == flags


@settings(deadline=None)
@given(name=names, first=values, second=values)
def test_of_two_flags_with_one_name_the_later_wins(name: str, first: str, second: str) -> None:
    assert parse(f"--{name}={first}", f"{name.replace('_', '-')}={second}") == {name: second}


def test_a_value_may_hold_equals_signs_dashes_and_dots() -> None:
    assert parse("--policy.path=a-b/c.py:D=e") == {"policy.path": "a-b/c.py:D=e"}


def test_a_value_may_be_a_negative_number() -> None:
    assert parse("--seed", "-5") == {"seed": "-5"}


@pytest.mark.parametrize("following", [[], ["--seed=1"], ["seed=1"], ["--seed", "1"]])
def test_a_switch_may_stand_without_a_value(following: list[str]) -> None:
    assert parse(f"--{SWITCH}", *following)[SWITCH] == "true"


# The words that settings take as a truth value after an equals sign.
@pytest.mark.parametrize("word", ["true", "False", "yes", "no", "on", "OFF", "1", "0", "t", "f", "y", "n"])
def test_a_switch_takes_the_same_words_after_a_space_as_after_an_equals_sign(word: str) -> None:
    assert parse(f"--{SWITCH}", word) == parse(f"--{SWITCH}={word}") == {SWITCH: word}


@pytest.mark.parametrize("line", [["--seed"], ["--seed", "--job_name=x"], ["--job_name=x", "--seed"]])
def test_a_flag_without_its_value_is_refused_by_name(line: list[str]) -> None:
    with pytest.raises(UsageError, match=r"--seed needs a value: --seed=\.\.\."):
        parse(*line)


@pytest.mark.parametrize("word", ["reach-v3", "-seed=1", "=5", "5=5", ""])
def test_a_word_that_is_no_flag_is_refused_with_the_form_of_one(word: str) -> None:
    with pytest.raises(UsageError, match="expected --name=value"):
        parse(word)


@settings(deadline=None, max_examples=50)
@given(flags=st.dictionaries(names, values, max_size=6))
def test_dotted_names_become_a_tree_from_which_each_value_is_reached(flags: dict[str, str]) -> None:
    # A name that is also the beginning of another cannot hold a value and a branch.
    leaves = {
        name: value
        for name, value in flags.items()
        if not any(other != name and other.startswith(f"{name}.") for other in flags)
    }
    tree = nest(leaves)
    for name, value in leaves.items():
        found: object = tree
        for part in name.split("."):
            assert isinstance(found, dict)
            found = found[part]
        assert found == value


def test_a_name_that_has_a_value_takes_no_inner_names() -> None:
    with pytest.raises(UsageError, match=r"--env=metaworld: 'env' is a section; set --env\.task"):
        nest({"env": "metaworld", "env.task": "reach-v3"})


@settings(deadline=None)
@given(below=trees, above=trees)
def test_merging_twice_changes_nothing_more_and_the_upper_tree_wins(
    below: dict[str, object], above: dict[str, object]
) -> None:
    merged = merge(below, above)
    assert merge(merged, above) == merged
    assert merged.keys() == below.keys() | above.keys()
    for key, value in above.items():
        if not isinstance(value, dict):
            assert merged[key] == value
    for key in below.keys() - above.keys():
        assert merged[key] == below[key]


def test_merging_goes_into_sections_and_leaves_both_trees_as_they_were() -> None:
    below, above = {"env": {"type": "metaworld", "task": "easy"}}, {"env": {"task": "hard"}, "seed": 1}
    assert merge(below, above) == {"env": {"type": "metaworld", "task": "hard"}, "seed": 1}
    assert below == {"env": {"type": "metaworld", "task": "easy"}}
    assert above == {"env": {"task": "hard"}, "seed": 1}
