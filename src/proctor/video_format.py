"""How videos are encoded: the one place for their container and codec, which a browser must be able to play."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

CONTAINER, CODEC = "mp4", "libx264"
"""The file's format, which is also its ending, and what PyAV calls the encoder."""

MEDIA_TYPE = f"video/{CONTAINER}"
"""What a browser is told that such a file is."""


def create_video(path: Path, options: Mapping[str, str] | None = None) -> Any:
    """Open a video file for writing with PyAV; `options` are the container's."""
    import av

    return av.open(str(path), "w", format=CONTAINER, options=dict(options or {}))


def add_stream(
    container: Any,
    codec: str,
    rate: Fraction,
    size: tuple[int, int],
    pixel_format: str,
    options: Mapping[str, str],
) -> Any:
    """Add an encoder to a video file: `size` is height and width, `options` are the codec's.

    It has one thread: a worker owns one core, and how many threads encode decides the bits.
    """
    stream = container.add_stream(codec, rate=rate)
    stream.height, stream.width = size
    stream.pix_fmt = pixel_format
    stream.codec_context.thread_count = 1
    stream.options = dict(options)
    return stream
