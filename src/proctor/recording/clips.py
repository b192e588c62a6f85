"""A camera's view of one episode as a video that lerobot reads frame by frame.

Each episode is encoded on its own, in the worker that runs it. Afterwards the episodes' packets are copied one
behind the other into larger files: nothing is encoded twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.video_format import add_stream

CONTAINER = "mp4"
"""What LeRobotDataset v3 prescribes; a run's own videos have theirs (`video_format.py`)."""
CODEC = "libx264"
# A key frame at every second frame, as LeRobot has it: training reads frames in any order. Without B-frames the
# order of packets is the order of frames. Without a look ahead, too: of frames below 48 pixels x264 looks at
# memory that nobody has written.
OPTIONS = {"crf": "18", "preset": "veryfast", "g": "2", "bf": "0", "rc-lookahead": "0"}

# Without the box of bit rates, which would tell of the first clip where it came from.
_MUXER = {"movflags": "faststart", "write_btrt": "0"}


@dataclass(frozen=True)
class Clip:
    """The frames of one episode in a video file."""

    path: Path
    start: int
    frames: int


class ClipWriter:
    """Encodes one camera's frames of one episode."""

    def __init__(self, path: Path, fps: int, shape: tuple[int, ...]) -> None:
        import av

        self._container: Any = av.open(str(path), "w", format=CONTAINER)
        size = shape[0], shape[1]
        self._stream = add_stream(self._container, CODEC, Fraction(fps), size, pixel_format(shape), OPTIONS)

    def add(self, frame: NDArray[np.uint8]) -> None:
        """Encode one frame."""
        import av

        image = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
        self._container.mux(self._stream.encode(image))

    def finish(self) -> None:
        """Write the rest."""
        self._container.mux(self._stream.encode())
        self._container.close()

    def abandon(self) -> None:
        """Close it, whatever becomes of the file."""
        with contextlib.suppress(OSError):
            self._container.close()


class Reel:
    """Puts clips one behind the other into one file."""

    def __init__(self, path: Path, fps: int, head: bytes) -> None:
        import av

        self.frames = 0
        self.head = head
        self._fps = fps
        self._container: Any = av.open(str(path), "w", format=CONTAINER, options=_MUXER)
        self._stream: Any = None

    def add(self, clip: Clip) -> int:
        """Copy a clip's packets; returns how many bytes they have."""
        import av

        written = 0
        with av.open(str(clip.path)) as source:
            if self._stream is None:
                self._stream = self._container.add_stream_from_template(source.streams.video[0])
                self._stream.time_base = Fraction(1, self._fps)
            for packet in _packets(source, clip):
                packet.stream = self._stream
                packet.time_base = Fraction(1, self._fps)
                packet.pts = packet.dts = self.frames
                packet.duration = 1
                written += packet.size
                self._container.mux(packet)
                self.frames += 1
        return written

    def close(self) -> None:
        """Write the index."""
        self._container.close()


def head_of(clip: Clip) -> bytes:
    """Return what a decoder must know before the first frame: only clips with the same one share a file."""
    import av

    with av.open(str(clip.path)) as source:
        return bytes(source.streams.video[0].codec_context.extradata or b"")


def pixel_format(shape: tuple[int, ...]) -> str:
    """Return the pixel format for frames of this shape: colour at half resolution needs even sides.

    >>> pixel_format((480, 480, 3)), pixel_format((95, 96, 3))
    ('yuv420p', 'yuv444p')
    """
    return "yuv444p" if shape[0] % 2 or shape[1] % 2 else "yuv420p"


def _packets(source: Any, clip: Clip) -> Iterator[Any]:
    stream = source.streams.video[0]
    rate = stream.average_rate
    if clip.start:
        source.seek(int(clip.start / rate / stream.time_base), stream=stream)
    left = clip.frames
    for packet in source.demux(stream):
        # A seek lands on a key frame at or before the place.
        if packet.dts is None or round(packet.pts * stream.time_base * rate) < clip.start:
            continue
        if left == 0:
            return
        left -= 1
        yield packet
    if left:
        raise ValueError(f"{clip.path} ends {left} frames too early")
