"""The guide "Add a benchmark" says what is true: its program runs, its snippets are those of the example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import proctor

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "add-a-benchmark.md").read_text()
EXAMPLE = ROOT / "examples" / "proctor-breeze"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


@pytest.fixture
def hover(tmp_path: Path) -> Path:
    file = tmp_path / "hover.py"
    file.write_text(blocks("python")[0])
    return file


def test_the_first_program_keeps_the_contract_and_its_pilot_succeeds(hover: Path) -> None:
    results = proctor.check_benchmark(f"{hover}:Hover", policy=f"{hover}:pilot")
    assert [str(result) for result in results if not result.ok] == []
    assert {result.name: result.state for result in results}["after success"] == "passed"
    # And the guide's table has every check.
    table = GUIDE.partition("## What is checked")[2]
    assert [result.name for result in results] == re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


def test_the_first_program_can_be_evaluated(hover: Path, tmp_path: Path) -> None:
    result = proctor.evaluate(
        f"{hover}:pilot", benchmark=f"{hover}:Hover", n_episodes=4, output_dir=tmp_path / "run", display="none"
    )
    assert result.success_rate.successes == 4


def test_the_other_snippets_are_taken_from_the_example() -> None:
    files = [file.read_text() for file in EXAMPLE.rglob("*") if file.suffix in (".py", ".toml")]
    invented = [
        block
        for block in [*blocks("python")[1:], *blocks("toml")]
        if not any(block.strip("\n") in text for text in files) and "draws_on_look" not in block
    ]
    assert invented == []
