"""Files count by what they hold, not by where they lie."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.config.content_hashes import (
    UnreadFiles,
    by_content,
    content_hash,
    files_named_in,
    is_own,
    source_hash,
)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A policy of several files: a neighbour, a package with a lazy import, and what nobody imports."""
    folder = tmp_path / "code"
    (folder / "parts").mkdir(parents=True)
    (folder / "policy.py").write_text("import numpy\nimport neighbour\nfrom parts import arm\nclass Own: ...\n")
    (folder / "neighbour.py").write_text("GAIN = 1\n")
    (folder / "parts" / "__init__.py").write_text("")
    (folder / "parts" / "arm.py").write_text("def act():\n    from . import hand\n    return hand\n")
    (folder / "parts" / "hand.py").write_text("GRIP = 1\n")
    (folder / "unrelated.py").write_text("x = 1\n")
    return folder


def hashed(folder: Path) -> str | None:
    return source_hash(f"{folder / 'policy.py'}:Own")


@pytest.mark.parametrize(
    "name", ["policy.py", "neighbour.py", "parts/__init__.py", "parts/arm.py", "parts/hand.py"]
)
def test_an_edit_of_any_file_that_is_imported_is_another_source(code: Path, name: str) -> None:
    before = hashed(code)
    (code / name).write_text((code / name).read_text() + "\n# edited\n")
    assert hashed(code) != before


def test_a_file_that_nobody_imports_does_not_matter(code: Path) -> None:
    before = hashed(code)
    (code / "unrelated.py").write_text("x = 2\n")
    assert hashed(code) == before


def test_the_same_files_elsewhere_are_the_same_source(code: Path, tmp_path: Path) -> None:
    assert hashed(Path(shutil.copytree(code, tmp_path / "elsewhere"))) == hashed(code)


def test_imports_that_lead_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import b\n")
    (tmp_path / "b.py").write_text("import a\n")
    assert source_hash(f"{tmp_path / 'a.py'}:x")


def test_a_module_of_a_package_is_known_by_its_files(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(code)
    before = source_hash("parts.arm:act")
    (code / "parts" / "hand.py").write_text("GRIP = 2\n")
    assert source_hash("parts.arm:act") != before
    assert is_own("parts.arm")
    assert not is_own("numpy")
    assert not is_own("json")


def test_proctor_itself_is_known_by_its_version() -> None:
    assert source_hash("proctor.policies.baselines:ExpertPolicy") is None


@pytest.mark.parametrize(
    "wrap", [lambda p: p, lambda p: [p], lambda p: {"deep": [{"er": p}]}, lambda p: ("x", p), Path]
)
def test_a_file_counts_by_its_content_at_any_depth(tmp_path: Path, wrap: Callable[[Any], Any]) -> None:
    first, second = tmp_path / "a" / "weights.bin", tmp_path / "b" / "other.bin"
    for file in (first, second):
        file.parent.mkdir()
        file.write_bytes(b"same")
    before = by_content(wrap(str(first)))
    assert before == by_content(wrap(str(second)))
    assert str(tmp_path) not in str(before)
    second.write_bytes(b"edited")
    assert by_content(wrap(str(second))) != before
    assert list(files_named_in([wrap(str(first))])) == [str(first)]


def test_a_directory_counts_by_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_text("x")
    (tmp_path / "d" / "b").write_text("")
    before = content_hash(tmp_path / "d")
    (tmp_path / "d" / "a").rename(tmp_path / "d" / "c")
    assert content_hash(tmp_path / "d") != before


@pytest.mark.parametrize("value", ["cuda:0", "ws://127.0.0.1:80", "a" * 5000, "nul\0byte", "", 3, None, 2.5, True])
def test_what_is_no_file_stays_what_it_is(value: Any) -> None:
    assert by_content(value) == value


def test_links_are_followed_and_those_that_lead_back_end(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_text("x")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "to").symlink_to(tmp_path / "real")
    before = content_hash(linked)
    (tmp_path / "real" / "a").write_text("y")
    assert content_hash(linked) != before
    (tmp_path / "real" / "back").symlink_to(linked)
    assert content_hash(linked)


def test_a_change_is_noticed_in_what_may_yet_be_read_until_it_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "a").write_text("1")
    unread = UnreadFiles([], {"weights": str(tmp_path / "weights")})
    assert not unread.changed()
    (tmp_path / "weights" / "b").write_text("put there later")
    assert unread.changed()
    assert unread.changed()
    unread.look_again()
    assert not unread.changed()
    (tmp_path / "weights" / "a").write_text("2 ")
    assert unread.changed()


@pytest.mark.parametrize("inside", [False, True])
def test_a_pipe_or_a_device_is_refused_and_not_waited_for(tmp_path: Path, inside: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        content_hash(tmp_path if inside else tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        content_hash(Path("/dev/zero"))
