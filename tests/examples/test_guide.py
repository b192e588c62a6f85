"""The guide "Add a benchmark" names every check, and its program passes them.

tests/docs/test_blocks.py runs the page itself.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import proctor
from doc_blocks import blocks_of

ROOT = Path(__file__).parents[2]
PAGE = "docs/add-a-benchmark.md"
GUIDE = (ROOT / PAGE).read_text()


@pytest.fixture
def hover(tmp_path: Path) -> Path:
    file = tmp_path / "hover.py"
    file.write_text(next(block.text for block in blocks_of(PAGE) if block.file == "hover.py"))
    return file


def test_the_first_program_keeps_the_contract_and_its_pilot_succeeds(hover: Path) -> None:
    results = proctor.check_benchmark(f"{hover}:Hover", policy=f"{hover}:pilot")
    assert [str(result) for result in results if not result.ok] == []
    assert {result.name: result.state for result in results}["after success"] == "passed"
    # And the guide's table has every check.
    table = GUIDE.partition("## What is checked")[2]
    assert [result.name for result in results] == re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
