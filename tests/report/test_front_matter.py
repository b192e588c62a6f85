"""A result goes into a model card, and all else in the card stays as it was written, byte for byte."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
import yaml

from proctor.errors import UsageError
from proctor.report.front_matter import with_result

NEW = {"task": {"type": "robotics"}, "metrics": [{"type": "success_rate", "value": 85.0, "name": "85 of 100: ok"}]}


def ours(result: Any) -> bool:
    return isinstance(result, dict) and result.get("task") == {"type": "robotics"}


def put(card: str, result: dict[str, Any] = NEW) -> str:
    """Put a result into a card; fails if a second time would change it again."""
    once = with_result(card, "model", result, ours)
    assert with_result(once, "other", result, ours) == once
    return once


def block(card: str) -> Any:
    return yaml.safe_load(card.split("---")[1])


def lost(before: str, after: str) -> list[str]:
    """Return the lines of a card that are no more in it."""
    changes = difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True))
    return [line[2:] for line in changes if line.startswith("- ")]


PLAIN = """---
# a comment
license:   apache-2.0 # odd spaces
tags: [ robotics,lerobot ]
---

# A model  \t

--- not the end
---
"""

OTHERS = """---
library_name: lerobot
model-index: # why
  - name:  "my model" # who
    results:
      -   task: {type: other, name: Other}
          dataset: {type: d, name: D}
          metrics: [{type: wer, value: 1}] # this
      # between
      - task:
          type: another
        metrics:
          - {type: acc, value: 2}
    # after the results
  - name: second
    results: []
datasets:
- x
---
text
"""


def test_a_card_without_yaml_gets_some_and_its_text_stays() -> None:
    for text in ("", "# A model\n\ntext", "text --- more\n---\n", "\r\n# crlf\r\n"):
        card = put(text)
        assert card.endswith(text)
        assert block(card) == {"model-index": [{"name": "model", "results": [NEW]}]}


def test_yaml_without_an_index_gets_one_below_what_is_there() -> None:
    card = put(PLAIN)
    assert lost(PLAIN, card) == []
    assert block(card)["model-index"] == [{"name": "model", "results": [NEW]}]
    assert block(card)["tags"] == ["robotics", "lerobot"]
    assert card.endswith(PLAIN.partition("]\n")[2])


def test_other_results_stay_and_the_new_one_comes_after_them() -> None:
    card = put(OTHERS)
    assert lost(OTHERS, card) == []
    results = block(card)["model-index"][0]["results"]
    assert [result["task"]["type"] for result in results] == ["other", "another", "robotics"]
    assert results[2] == NEW
    assert block(card)["model-index"][1] == {"name": "second", "results": []}


@pytest.mark.parametrize("card", ["", PLAIN, OTHERS])
def test_a_new_result_takes_the_place_of_the_earlier_one(card: str) -> None:
    first, other = put(card), {**NEW, "metrics": [{"type": "success_rate", "value": 12.5}]}
    second = put(first, other)
    assert put(second) == first  # as if the other had never been there
    assert block(second)["model-index"][0]["results"][-1] == other


def test_what_comes_after_the_earlier_one_stays() -> None:
    card = put(OTHERS).replace("    # after the results\n", "      # mine\n      - task: {type: last}\n")
    changed = put(card, {**NEW, "more": 1})
    assert [result["task"]["type"] for result in block(changed)["model-index"][0]["results"]][2:] == [
        "robotics",
        "last",
    ]
    assert "      # mine\n      - task: {type: last}\n" in changed


@pytest.mark.parametrize(
    "index",
    [
        "model-index:\n", "model-index: []\n", "model-index: # none\n", "model-index: null\n",
        "model-index:\n- name: m\n", "model-index:\n- name: m\n  results: []\n", "'model-index':\n- name: m\n",
        "model-index:\n- results:\n  name: m\n", "model-index:\n- results:\n  - task: {type: a}\n  name: m\n",
        "model-index:\n-\n  name: m\n  results:\n  - a\n", "model-index:\n- name: m\n  results: null # so far\n",
        "model-index:\n- name: m\n  results:\n  - text: |\n      long\n\n      text\n",
        "model-index:\n- name: m\n  results:\n    - a: >-\n        folded\n        text\n    - b\n",
    ],
)  # fmt: skip
def test_an_index_may_be_written_in_many_ways(index: str) -> None:
    for after in ("", "license: mit\n", "# a comment\nlicense: mit\n"):
        card = f"---\n{index}{after}---\ntext\n"
        changed = put(card)
        assert NEW in block(changed)["model-index"][0]["results"]
        gone = {line.strip() for line in lost(card, changed)}
        assert all(line.startswith(("model-index:", "- results:", "results:")) for line in gone)
        assert not any("task" in line for line in gone)
        assert changed.endswith(f"{after}---\ntext\n") or after == ""


def test_line_ends_are_those_of_the_card() -> None:
    for text in (PLAIN, OTHERS):
        card = put(text.replace("\n", "\r\n"))
        assert card.replace("\r\n", "\n") == put(text)
        assert card.count("\n") == card.count("\r\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("model-index: [{name: m, results: []}]", "written in one line"),
        ("model-index:\n- {name: m}", "first model is written in one line"),
        ("model-index:\n- name: m\n  results: [{task: 1}]", "results are written in one line"),
        ("model-index: 5", "no list of models"),
        ("model-index:\n- a", "no list of models"),
        ("model-index:\n- name: m\n  results: 7", "are no list"),
        ("a: &x\n- name: m\nmodel-index: *x", "cannot be added to"),
        ("- a", "no map"),
        ("a: [", "cannot be read"),
        ("a: !!python/object:os.system {}", "cannot be read"),
        (
            "a: &a [x]\n"
            + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{f'*{chr(97 + i)},' * 9}x]\n" for i in range(9)),
            "read",
        ),
    ],
)
def test_a_card_that_cannot_be_added_to_is_refused_in_words(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        with_result(f"---\n{text}\n---\n", "model", NEW, ours)
    assert str(refused.value).startswith("README.md: ")
    assert "\n" not in str(refused.value)
