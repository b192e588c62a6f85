"""Names of tasks in columns that are too narrow for them."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from proctor.report.breakable_name import BreakableName, broken


@given(name=st.text(st.sampled_from("ab-_/. "), max_size=80), width=st.integers(1, 40))
def test_nothing_is_lost_and_every_line_fits(name: str, width: int) -> None:
    lines = broken(name, width)
    assert "".join(lines) == name
    assert all(len(line) <= width for line in lines)


@given(name=st.text(st.sampled_from("ab-_"), max_size=80), width=st.integers(4, 40))
def test_two_lines_at_most_where_there_is_no_more_room(name: str, width: int) -> None:
    lines = broken(name, width, lines=2)
    assert len(lines) <= 2
    assert all(len(line) <= width for line in lines)


def test_a_table_breaks_names_at_hyphens() -> None:
    table = Table()
    table.add_column("task")
    table.add_column("n", no_wrap=True)
    table.add_row(BreakableName("button-press-topdown-wall-v3"), "100.0 %")
    file = io.StringIO()
    Console(file=file, width=32).print(table)
    assert "│ button-press-" in file.getvalue()
    assert "│ topdown-wall-v3" in file.getvalue()
