"""Files that may be anything: only regular ones are read, and only so much of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proctor.errors import StoreError
from proctor.files import (
    NotRegularError,
    as_written_by_proctor,
    check_regular,
    clip,
    is_below,
    open_below,
    read_json,
    read_regular,
    special_file_in,
)


def test_a_regular_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 100)
    assert read_regular(file, 100) == b"x" * 100
    with pytest.raises(OSError, match="larger than"):
        read_regular(file, 99)
    (tmp_path / "link").symlink_to(file)
    assert read_regular(tmp_path / "link", 100) == b"x" * 100


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "loop"])
def test_nothing_else_is_read_or_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)
    for read in (lambda: read_regular(path, 100), lambda: check_regular(path)):
        with pytest.raises(OSError, match=r"not a regular file|Too many levels"):
            read()


def test_what_is_not_there_may_be_made_but_not_through_a_link(tmp_path: Path) -> None:
    check_regular(tmp_path / "new")
    check_regular(tmp_path / "new" / "newer")
    (tmp_path / "nowhere").symlink_to(tmp_path / "no")
    with pytest.raises(NotRegularError):
        check_regular(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    check_regular(tmp_path / "link")
    with pytest.raises(NotRegularError, match="a link"):
        check_regular(tmp_path / "link", follow=False)


def test_only_what_lies_below_a_folder_is_opened_and_no_link_is_followed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a" / "file").write_text("inside")
    (tmp_path / "secret").write_text("outside")
    (root / "a" / "link").symlink_to(root / "a" / "file")
    (root / "b").symlink_to(root / "a")
    os.mkfifo(root / "a" / "pipe")
    with open_below(root, "a/file") as descriptor:
        assert os.read(descriptor, 10) == b"inside"
    for relative in (
        "../secret", "a/../../secret", str(tmp_path / "secret"), "a/link", "b/file", "a/pipe", "a", "", "a/file\0",
        "a/none", "..", ".",
    ):  # fmt: skip
        assert not is_below(root, relative), relative


def test_json_that_is_too_deep_is_a_value_error(tmp_path: Path) -> None:
    (tmp_path / "deep").write_text("[" * 1_000_000)
    with pytest.raises(ValueError, match="deeply"):
        read_json(tmp_path / "deep")


def test_folders_that_lead_a_writer_elsewhere_are_named(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "logs" / "wandb").mkdir(parents=True)
    (run / "logs" / "a.log").touch()
    (run / "logs" / "wandb" / "latest").symlink_to(run / "logs" / "a.log")
    (run / ".venv").symlink_to(tmp_path)
    assert special_file_in(run, ("logs", "videos")) is None
    (run / "logs" / "b.log").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").touch()
    assert "leads out" in str(special_file_in(run, ("logs", "videos")))
    (run / "videos").mkdir()
    os.mkfifo(run / "videos" / "pipe")
    assert "a named pipe" in str(special_file_in(run, ("videos",)))


def test_whatever_goes_wrong_in_a_foreign_run_is_a_line_about_it(tmp_path: Path) -> None:
    for error in (TypeError("x" * 10**6), KeyError("a"), ZeroDivisionError(), OSError("no"), RecursionError()):
        with (
            pytest.raises(StoreError, match="is not as Proctor writes it") as caught,
            as_written_by_proctor(tmp_path),
        ):
            raise error
        assert len(str(caught.value)) < 500
        assert "\n" not in str(caught.value)


def test_a_value_in_a_message_is_one_short_line() -> None:
    assert clip("short") == "short"
    assert clip(0.5) == "0.5"
    assert clip(None) == "None"
    for value in ("x" * 10**7, [["y"] * 10**4] * 10**4, dict.fromkeys(range(10**5), "z"), b"q" * 10**7):
        assert len(clip(value)) <= 203
    assert "\n" not in clip("a\nb" * 1000)


def test_a_number_that_python_does_not_write_is_told_of_all_the_same() -> None:
    assert clip(10**5000) == "a number of thousands of digits"
    assert clip({"a": [10**5000]}) == "something with a number of thousands of digits"
