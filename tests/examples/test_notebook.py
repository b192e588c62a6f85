"""The example notebook, run by a kernel of its own; and what a cell shows while a run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "evaluate.ipynb"


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Run it in an empty folder; returns its cells of code."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    place = tmp_path_factory.mktemp("notebook")
    nbclient.NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(place)}}).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(cells: list[Any], source: str) -> list[Any]:
    (cell,) = (cell for cell in cells if source in cell.source)
    return list(cell.outputs)


def test_a_run_shows_one_line_and_then_its_table(cells: list[Any]) -> None:
    line, table = outputs(cells, "result = proctor.evaluate(")
    assert line.output_type == "display_data"
    assert line.data["text/plain"].startswith("metaworld: 10 episodes of 2 tasks")
    assert "/10 episodes, success" in line.data["text/plain"]
    assert table.data["text/html"].count("<tr>") == 4
    assert "5/5" in table.data["text/html"]


def test_rates_read_as_numbers_with_intervals(cells: list[Any]) -> None:
    (tasks,) = outputs(cells, "result.tasks")
    assert "rate=100.0 % (5/5, 56.6–100.0)" in tasks.data["text/plain"]


def test_nothing_was_printed_as_an_error(cells: list[Any]) -> None:
    every = [output for cell in cells for output in cell.outputs]
    assert not [output for output in every if output.output_type == "error" or output.get("name") == "stderr"]
    verdict = outputs(cells, "proctor.compare(")
    assert verdict[0].text.strip()
