"""A checkpoint's JSON files are a stranger's: each fault has one line, and nothing is waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proctor.errors import UsageError
from proctor.policies.lerobot.guard import check_adapter, read_document, read_steps, steps_in_any


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{", "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b"[" * 100_000, "is damaged (nested too deeply)"),
        (b'{"n": ' + b"9" * 5000 + b"}", "is damaged"),
        (b"[]", "is not as LeRobot writes it: a map was expected"),
    ],
)
def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "config.json").write_bytes(data)
    with pytest.raises(UsageError) as caught:
        read_document(tmp_path, "config.json")
    told = str(caught.value)
    assert told.startswith(f"{tmp_path}/config.json {words}")
    assert told.endswith("Download or save the checkpoint again.")
    assert len(told.splitlines()) == 1


def test_a_file_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert read_document(tmp_path, "config.json") is None
    assert read_steps(tmp_path, "policy_preprocessor.json") == []


def test_a_pipe_or_a_device_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    (tmp_path / "other.json").symlink_to("/dev/zero")
    for name in ("config.json", "other.json"):
        with pytest.raises(UsageError, match="not a regular file"):
            read_document(tmp_path, name)
        with pytest.raises(UsageError, match="not a regular file"):
            steps_in_any(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "'steps' is no list of maps"),
        ('{"steps": [7]}', "'steps' is no list of maps"),
        ('{"steps": [{"config": 7}]}', "the 'config' of a step is no map"),
    ],
)
def test_steps_of_another_form_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "policy_preprocessor.json").write_text(text)
    with pytest.raises(UsageError, match=words):
        read_steps(tmp_path, "policy_preprocessor.json")


def test_a_file_too_large_to_look_into_is_not_left_to_lerobot(tmp_path: Path) -> None:
    # It might name a class to call, and LeRobot has no limit.
    with (tmp_path / "policy_preprocessor.json").open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(UsageError, match="is larger than 64 MiB"):
        steps_in_any(tmp_path / "policy_preprocessor.json")


def test_a_folder_that_is_called_like_a_file_has_no_steps(tmp_path: Path) -> None:
    (tmp_path / "x.json").mkdir()
    assert steps_in_any(tmp_path / "x.json") == []


@pytest.mark.parametrize("mapping", [7, [], "os", None, {}])
def test_an_adapter_that_maps_nothing_imports_nothing(tmp_path: Path, mapping: object) -> None:
    check_adapter({"auto_mapping": mapping}, tmp_path)
