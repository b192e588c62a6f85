"""Folders for a while are gone when they are no longer needed, however that comes about."""

from __future__ import annotations

from pathlib import Path

import pytest

from proctor.machine.scratch import keep, remove_all, scratch_folder


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_goes_with_its_block_also_when_that_raises(place: Path) -> None:
    def work() -> None:
        with scratch_folder("x-") as folder:
            (folder / "log").touch()
            assert folder.stat().st_mode & 0o777 == 0o700
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert list(place.iterdir()) == []


def test_all_go_when_the_process_is_about_to_end(place: Path) -> None:
    with scratch_folder("x-") as one, scratch_folder("x-") as other:
        (one / "log").touch()
        assert one != other
        remove_all()
        assert list(place.iterdir()) == []


def test_one_that_the_user_is_told_of_stays(place: Path) -> None:
    with scratch_folder("x-") as folder:
        keep(folder)
    remove_all()
    assert list(place.iterdir()) == [folder]
