"""Videos: H.264 that plays in a browser, encoded frame by frame while the episode runs.

Memory stays bounded whatever the episode's length. The file gets its name only when it is whole.
"""

from __future__ import annotations

import contextlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.rendering import as_rgb, is_picture
from proctor.errors import SimulatorError
from proctor.video_format import CODEC, add_stream, create_video


class VideoError(Exception):
    """A video could not be written: disk full, or the directory is gone."""


class VideoWriter:
    """Writes frames to a video file.

    Args:
        path: where the finished video goes.
        rate: frames a second.
    """

    def __init__(self, path: Path, rate: Fraction) -> None:
        self._path = path
        self._partial = path.with_name(path.name + ".part")
        self._rate = rate
        self._container: Any = None
        self._stream: Any = None

    def add(self, frame: NDArray[np.uint8]) -> None:
        """Encode one frame. Raises `SimulatorError` if it is no picture."""
        import av

        if not is_picture(frame):
            kind = f"{frame.dtype}{frame.shape}" if isinstance(frame, np.ndarray) else type(frame).__name__
            raise SimulatorError(f"render() gave {kind}, no picture (uint8, height by width by 3)")
        try:
            if self._container is None:
                self._open(frame.shape[1], frame.shape[0])
            fitted = _fitted(as_rgb(frame), self._stream.height, self._stream.width)
            image = av.VideoFrame.from_ndarray(fitted, format="rgb24")
            for packet in self._stream.encode(image):
                self._container.mux(packet)
        except OSError as error:
            raise VideoError(f"cannot write {self._path}: {error}") from error

    def finish(self) -> None:
        """Write the rest and give the file its name."""
        try:
            for packet in self._stream.encode():
                self._container.mux(packet)
            self._container.close()
            self._partial.replace(self._path)
        except OSError as error:
            raise VideoError(f"cannot write {self._path}: {error}") from error

    def abandon(self) -> None:
        """Drop a half-written video."""
        if self._container is not None:
            with contextlib.suppress(OSError):  # the disk is full or gone; what matters is the removal below
                self._container.close()
        with contextlib.suppress(OSError):
            self._partial.unlink()

    def _open(self, width: int, height: int) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # faststart moves the index to the front, so that a browser plays before it has the whole file.
        self._container = create_video(self._partial, {"movflags": "faststart"})
        even = height + height % 2, width + width % 2  # H.264 with 4:2:0 colour needs even sides
        # x264's macroblock tree goes by memory that nobody has written, at 480 pixels for one: the same frames
        # would become other pictures next time.
        options = {"crf": "23", "preset": "veryfast", "mbtree": "0"}
        self._stream = add_stream(self._container, CODEC, self._rate, even, "yuv420p", options)


class VideoSink(VideoWriter):
    """Writes one episode's frames to a video file.

    Args:
        path: where the finished video goes.
        step_rate: the simulator's steps a second.
        most_fps: drawing every step is dear; only every k-th is drawn, so that at most this many frames
            make a second of video, and it still plays in real time.
    """

    def __init__(self, path: Path, step_rate: int, most_fps: int) -> None:
        self._stride = -(-step_rate // most_fps)
        super().__init__(path, Fraction(step_rate, self._stride))

    def wants(self, step: int) -> bool:
        """Whether the state after `step` steps is drawn."""
        return step % self._stride == 0


def _fitted(frame: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return a frame of the video's size: its edge is repeated where it is too small, and cut off if too large."""
    frame = frame[:height, :width]
    missing = ((0, height - frame.shape[0]), (0, width - frame.shape[1]), (0, 0))
    return np.ascontiguousarray(np.pad(frame, missing, "edge") if any(map(any, missing)) else frame)
