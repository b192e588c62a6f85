"""Pages of the docs: pictures exist and are used, promises name tests that there are, and mistakes are twenty."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from doc_blocks import PRINTS, ROOT, blocks_of

PICTURES = ROOT / "docs" / "pictures"
MOST_BYTES = 1_500_000
MARKDOWN = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def shown_on(page: Path) -> set[Path]:
    """Return the pictures that a page shows."""
    named = re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)|<img [^>]*src=\"([^\"]+)\"", page.read_text())
    return {(page.parent / (markdown or html)).resolve() for markdown, html in named}


def test_every_picture_that_a_page_shows_exists_and_every_picture_is_shown() -> None:
    shown = set().union(*map(shown_on, MARKDOWN))
    assert shown == set(PICTURES.iterdir())


def test_pictures_are_small_and_ask_nothing_of_other_machines() -> None:
    assert sum(path.stat().st_size for path in PICTURES.iterdir()) < MOST_BYTES
    for path in PICTURES.glob("*.svg"):
        ElementTree.parse(path)
        assert re.findall(r"(?:url\(|href=|src=)[\"']?https?:[^\"')]+", path.read_text()) == []


def test_every_promise_names_tests_that_there_are() -> None:
    rows = (ROOT / "docs" / "promises.md").read_text().splitlines()
    promises = [row.strip("| ").split(" | ") for row in rows if row.startswith("| ")][1:]
    assert len(promises) > 40
    for promise, tests in promises:
        named = re.findall(r"`((?:tests|benchmarks)/[\w./]+)`", tests)
        assert named, f"no test holds: {promise}"
        assert [name for name in named if not (ROOT / name).exists()] == []


def test_there_are_twenty_mistakes_and_each_is_committed_and_answered() -> None:
    page = (ROOT / "docs" / "mistakes.md").read_text()
    numbers = re.findall(r"^## (\d+)\. ", page, re.MULTILINE)
    assert numbers == [str(number) for number in range(1, 21)]
    committed = [block for block in blocks_of("docs/mistakes.md") if block.language == "sh"]
    assert len(committed) == 20
    for block in committed:
        assert {*PRINTS} & {*block.notes}, block
        assert block.shown, block
        assert not block.why_not, block


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: page.name)
def test_a_page_links_only_to_files_that_there_are(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
