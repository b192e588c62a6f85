"""A file is whole or not there, and JSON is strict."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.errors import EXIT_FAILED, StoreError
from proctor.store.filesystem import finite, write_json, write_text

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def files(directory: Path) -> set[str]:
    return {entry.name for entry in directory.iterdir()}


def strict(text: str) -> Any:
    """Parse JSON as a strict reader does: NaN and Infinity are errors."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_text_is_written_and_written_over_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "old, and longer than what follows")
    write_text(tmp_path / "file", "neu: ä€")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "neu: ä€"
    assert files(tmp_path) == {"file"}


def test_a_reader_that_opened_the_old_file_keeps_the_old_text(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "old")
    with (tmp_path / "file").open() as reader:
        write_text(tmp_path / "file", "new")
        assert reader.read() == "old"


def test_a_file_that_cannot_be_replaced_leaves_no_half_written_one(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(StoreError, match=str(tmp_path / "file")) as caught:
        write_text(tmp_path / "file", "text")
    assert caught.value.exit_status == EXIT_FAILED
    assert files(tmp_path) == {"file"}


def test_a_directory_that_is_gone_is_told_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no such file or folder"):
        write_text(tmp_path / "gone" / "file", "text")


def test_running_out_of_space_keeps_the_old_file_whole(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "old")
    # The kernel refuses to let a file grow beyond the limit, as it does on a full disk.
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from proctor.errors import StoreError\n"
        "from proctor.store.filesystem import write_text\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n"
        "try:\n"
        "    write_text(Path(sys.argv[1]), 'x' * (1 << 20))\n"
        "except StoreError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "file")], capture_output=True, text=True, check=True
    )
    assert "File too large" in done.stdout
    assert "then try again" in done.stdout
    assert (tmp_path / "file").read_text() == "old"
    assert files(tmp_path) == {"file"}


@settings(deadline=None)
@given(value=plain)
def test_whatever_is_finite_is_kept_and_the_rest_becomes_null(value: Any) -> None:
    assert strict(json.dumps(finite(value), allow_nan=False)) == _expected(value)


def _expected(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _expected(item) for key, item in value.items()}
    return [_expected(item) for item in value] if isinstance(value, list) else value


def test_json_on_disk_is_strict(tmp_path: Path) -> None:
    write_json(
        tmp_path / "file", {"a": [math.nan, math.inf, -math.inf, 1.5], "b": (1, math.nan), "c": {"d": None}}
    )
    text = (tmp_path / "file").read_text()
    assert strict(text) == {"a": [None, None, None, 1.5], "b": [1, None], "c": {"d": None}}
    assert text.endswith("\n")
