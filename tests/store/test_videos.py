"""The one way from a stored record to its video."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from made_runs import make_run
from proctor.errors import StoreError
from proctor.store.episodes import EpisodeTable
from proctor.store.schema import EpisodeRecord
from proctor.store.videos import bring_video, check_place, links_among, open_video, video_file, video_place

SOURCE = Path(__file__).parents[2] / "src" / "proctor"


def the_record(run: Path) -> EpisodeRecord:
    with EpisodeTable(run / "run.sqlite", read_only=True) as table:
        (record,) = list(table.records())
    return record


def test_a_video_is_found_where_the_run_has_written_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"a": [True]}, videos=True)
    record = the_record(run)
    video = run / "videos/a_0/eval_episode_0.mp4"
    video.write_bytes(b"film")
    assert video_file(run, record.key) == video
    bring_video(run, record.key, tmp_path / "run")  # it is there already
    (tmp_path / "other").mkdir()
    bring_video(run, record.key, tmp_path / "other")
    assert (tmp_path / "other" / video_place(record.key)).read_bytes() == b"film"
    video.unlink()
    assert video_file(run, record.key) is None
    assert links_among(run, [record.key]) is None


def test_a_link_in_its_place_is_no_video(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"a": [True]}, videos=True)
    record = the_record(run)
    video = run / video_place(record.key)
    video.unlink()
    video.symlink_to("/etc/hostname")
    assert video_file(run, record.key) is None
    with pytest.raises(OSError, match="a link"), open_video(run, record.key):
        pass
    bring_video(run, record.key, tmp_path)
    assert not (tmp_path / "videos").exists()
    assert "Left out." in str(links_among(run, [record.key, record.key]))


def test_a_merged_run_s_videos_are_not_written_through_a_link(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"a": [True]}, videos=True)
    (tmp_path / "target").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "target" / "videos").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="is a link"):
        bring_video(run, the_record(run).key, tmp_path / "target")
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    "stored", ["/etc/passwd", "../x.mp4", "videos/a_0/eval_episode_1.mp4", "", "videos", "\0"]
)
def test_a_table_that_names_any_other_file_is_refused(tmp_path: Path, stored: str) -> None:
    run = make_run(tmp_path / "run", {"a": [True]})
    record = replace(the_record(run), video_path=stored)
    with pytest.raises(StoreError, match="changed by hand") as caught:
        check_place(run, record.key, stored)
    assert len(str(caught.value)) < 1000
    check_place(run, record.key, video_place(record.key))
    check_place(run, record.key, None)


def test_nobody_else_joins_a_stored_path_to_a_directory() -> None:
    joined = re.compile(r"/ (str\()?\w*\.?video_path\b")
    for file in SOURCE.rglob("*.py"):
        assert not joined.search(file.read_text()), f"{file}: use proctor.store.videos.video_file"
