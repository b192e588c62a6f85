"""A video plays in a browser and in real time, and its file is whole or not there."""

from __future__ import annotations

import itertools
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from proctor.engine.video import VideoError, VideoSink
from proctor.errors import SimulatorError

av: Any = pytest.importorskip("av")


class Film(NamedTuple):
    """What a player learns from a file."""

    codec: str
    pixel_format: str
    size: tuple[int, int]
    rate: Fraction
    frames: list[NDArray[np.uint8]]


def watch(path: Path) -> Film:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
        context = stream.codec_context
        return Film(context.name, context.pix_fmt, (context.width, context.height), stream.average_rate, frames)


def frame(level: int, width: int = 64, height: int = 48) -> NDArray[np.uint8]:
    return np.full((height, width, 3), level, np.uint8)


def film(path: Path, levels: list[int], step_rate: int = 30, most_fps: int = 30, **size: int) -> None:
    sink = VideoSink(path, step_rate, most_fps)
    for level in levels:
        sink.add(frame(level, **size))
    sink.finish()


def boxes(path: Path) -> list[bytes]:
    """Return the names of an mp4's outermost boxes, in the order of the file."""
    data, found, place = path.read_bytes(), [], 0
    while place < len(data):
        found.append(data[place + 4 : place + 8])
        place += int.from_bytes(data[place : place + 4], "big")
    return found


def test_every_frame_is_there_in_order(tmp_path: Path) -> None:
    levels = list(range(0, 250, 10))
    film(tmp_path / "a.mp4", levels)
    shown = watch(tmp_path / "a.mp4").frames
    assert len(shown) == len(levels)
    # H.264 is lossy; a flat grey stays within a few levels.
    assert [round(float(picture.mean())) for picture in shown] == pytest.approx(levels, abs=4)


def test_the_format_is_one_that_browsers_play(tmp_path: Path) -> None:
    film(tmp_path / "a.mp4", [0, 100, 200])
    seen = watch(tmp_path / "a.mp4")
    assert seen.codec == "h264"
    assert seen.pixel_format == "yuv420p"
    assert seen.size == (64, 48)


def test_the_index_stands_before_the_pictures_so_that_playing_starts_at_once(tmp_path: Path) -> None:
    film(tmp_path / "a.mp4", [0, 100, 200])
    order = boxes(tmp_path / "a.mp4")
    assert order.index(b"moov") < order.index(b"mdat")


@pytest.mark.parametrize(("width", "height"), [(65, 48), (64, 49), (65, 49), (1, 1), (1, 48), (3, 2)])
def test_an_odd_side_is_repeated_once_more(tmp_path: Path, width: int, height: int) -> None:
    film(tmp_path / "odd.mp4", [90, 90], width=width, height=height)
    found = watch(tmp_path / "odd.mp4")
    assert found.size == (width + width % 2, height + height % 2)
    assert np.abs(found.frames[0].astype(int) - 90).max() <= 3


@pytest.mark.parametrize(
    "channels", [(), (1,), (2,), (3,), (4,)], ids=["grey", "grey 1", "grey+alpha", "rgb", "rgba"]
)
@pytest.mark.parametrize(("width", "height"), [(64, 48), (1, 1)])
def test_a_picture_with_any_channels_is_filmed_as_it_looks(
    tmp_path: Path, channels: tuple[int, ...], width: int, height: int
) -> None:
    picture = np.full((height, width, *channels), 120, np.uint8)
    if channels and channels[0] in (2, 4):
        picture[..., -1] = 7  # how solid it is, and no colour
    sink = VideoSink(tmp_path / "v.mp4", 30, 30)
    for _ in range(3):
        sink.add(picture)
    sink.finish()
    found = watch(tmp_path / "v.mp4")
    assert len(found.frames) == 3
    assert all(np.abs(shown.astype(int) - 120).max() <= 3 for shown in found.frames)


def test_a_frame_of_another_size_is_fitted_to_the_first(tmp_path: Path) -> None:
    sink = VideoSink(tmp_path / "v.mp4", 30, 30)
    for width, height in ((64, 48), (32, 80), (100, 10)):
        sink.add(frame(200, width, height))
    sink.finish()
    found = watch(tmp_path / "v.mp4")
    assert [shown.shape for shown in found.frames] == [(48, 64, 3)] * 3


@pytest.mark.parametrize(
    "frame", [None, "a picture", np.zeros((4, 4, 3)), np.zeros((4, 4, 5), np.uint8), np.zeros((0, 4, 3), np.uint8)]
)
def test_what_is_no_picture_is_the_simulators_fault(tmp_path: Path, frame: Any) -> None:
    with pytest.raises(SimulatorError, match=r"render\(\) gave .*, no picture"):
        VideoSink(tmp_path / "v.mp4", 30, 30).add(frame)
    assert list(tmp_path.iterdir()) == []


def test_rows_and_columns_are_not_mixed_up(tmp_path: Path) -> None:
    picture = frame(0)
    picture[:24, :32, 0] = 255  # red, top left
    sink = VideoSink(tmp_path / "a.mp4", 30, 30)
    sink.add(picture)
    sink.finish()
    (shown,) = watch(tmp_path / "a.mp4").frames
    assert shown[4:20, 4:28, 0].min() > 200
    assert shown[4:20, 4:28, 1].max() < 60
    assert shown[28:].max() < 60
    assert shown[:, 36:].max() < 60


def test_a_flipped_view_is_filmed_as_it_looks(tmp_path: Path) -> None:
    picture = frame(0)
    picture[:24] = 200
    sink = VideoSink(tmp_path / "a.mp4", 30, 30)
    sink.add(picture[::-1, ::-1])
    sink.finish()
    (shown,) = watch(tmp_path / "a.mp4").frames
    assert shown[:20].max() < 30
    assert shown[28:].min() > 170


def test_a_single_frame_makes_a_video(tmp_path: Path) -> None:
    film(tmp_path / "a.mp4", [77])
    assert len(watch(tmp_path / "a.mp4").frames) == 1


# Time.


@settings(deadline=None)
@given(step_rate=st.integers(1, 500), most_fps=st.integers(1, 240))
def test_a_second_has_no_more_frames_than_asked_for_and_hardly_fewer(step_rate: int, most_fps: int) -> None:
    sink = VideoSink(Path("unused.mp4"), step_rate, most_fps)
    wanted = [step for step in range(step_rate) if sink.wants(step)]
    assert wanted[0] == 0
    assert len(wanted) <= most_fps
    gaps = {later - earlier for earlier, later in itertools.pairwise(wanted)}
    assert len(gaps) <= 1, "frames are not evenly spaced"
    # A gap one step shorter would give too many.
    assert all(gap == 1 or step_rate / (gap - 1) > most_fps for gap in gaps)


@pytest.mark.parametrize(
    ("step_rate", "most_fps", "rate"),
    [
        (30, 30, Fraction(30)),
        (80, 30, Fraction(80, 3)),
        (20, 30, Fraction(20)),
        (80, 80, Fraction(80)),
        (10, 3, Fraction(5, 2)),
    ],
)
def test_a_video_plays_in_the_robots_own_time(
    tmp_path: Path, step_rate: int, most_fps: int, rate: Fraction
) -> None:
    sink = VideoSink(tmp_path / "a.mp4", step_rate, most_fps)
    for step in range(2 * step_rate):
        if sink.wants(step):
            sink.add(frame(step % 250))
    sink.finish()
    seen = watch(tmp_path / "a.mp4")
    assert seen.rate == rate
    assert float(len(seen.frames) / seen.rate) == pytest.approx(2.0, abs=float(1 / rate))


# Whole or not there.


def test_the_file_gets_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "videos" / "easy_0" / "eval_episode_0.mp4"
    sink = VideoSink(path, 30, 30)
    for level in range(100):
        sink.add(frame(level))
    assert not path.exists()
    sink.finish()
    assert [entry.name for entry in path.parent.iterdir()] == ["eval_episode_0.mp4"]


def test_an_abandoned_video_leaves_nothing(tmp_path: Path) -> None:
    sink = VideoSink(tmp_path / "a.mp4", 30, 30)
    for level in range(100):
        sink.add(frame(level))
    sink.abandon()
    assert list(tmp_path.iterdir()) == []


def test_an_episode_that_dies_before_its_first_frame_leaves_nothing(tmp_path: Path) -> None:
    VideoSink(tmp_path / "videos" / "a.mp4", 30, 30).abandon()
    assert list(tmp_path.iterdir()) == []


def test_an_abandoned_attempt_does_not_harm_the_video_of_an_earlier_one(tmp_path: Path) -> None:
    film(tmp_path / "a.mp4", [10, 20])
    before = (tmp_path / "a.mp4").read_bytes()
    sink = VideoSink(tmp_path / "a.mp4", 30, 30)
    sink.add(frame(30))
    sink.abandon()
    assert (tmp_path / "a.mp4").read_bytes() == before


def test_a_second_attempt_films_over_what_a_killed_one_left(tmp_path: Path) -> None:
    (tmp_path / "a.mp4.part").write_bytes(b"half a video" * 1000)
    film(tmp_path / "a.mp4", [10, 20, 30])
    assert len(watch(tmp_path / "a.mp4").frames) == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.mp4"]


def test_a_place_that_cannot_be_written_is_told_with_the_path(tmp_path: Path) -> None:
    (tmp_path / "videos").touch()
    sink = VideoSink(tmp_path / "videos" / "a.mp4", 30, 30)
    with pytest.raises(VideoError, match=str(tmp_path / "videos" / "a.mp4")):
        sink.add(frame(0))
    sink.abandon()


FULL = """
import resource, sys
from pathlib import Path
import numpy as np
from proctor.engine.video import VideoError, VideoSink
from proctor.errors import SimulatorError
noise = np.random.default_rng(0)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
sink = VideoSink(Path(sys.argv[1]), 30, 30)
try:
    for _ in range(60):
        sink.add(noise.integers(0, 256, (96, 128, 3), np.uint8))
    sink.finish()
except VideoError as error:
    print("told:", error)
    sink.abandon()
"""


def test_a_full_disk_is_told_as_such_and_leaves_nothing(tmp_path: Path) -> None:
    # The kernel refuses to let a file grow beyond the limit, as it does on a full disk.
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path / "a.mp4")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"told: cannot write {tmp_path / 'a.mp4'}" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_same_frames_become_the_same_video_whatever_lies_in_memory(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    frames = [
        np.kron(draw.integers(0, 255, (30, 30, 3)), np.ones((16, 16, 1))).astype(np.uint8) for _ in range(12)
    ]
    videos = set()
    for attempt in range(4):
        sink = VideoSink(tmp_path / f"{attempt}.mp4", step_rate=80, most_fps=30)
        for step in range(40):
            clutter = draw.integers(0, 255, int(draw.integers(1_000, 3_000_000)), dtype=np.uint8)
            del clutter  # the encoder may be given this memory next
            sink.add(frames[step % 12].copy())
        sink.finish()
        videos.add((tmp_path / f"{attempt}.mp4").read_bytes())
    assert len(videos) == 1
