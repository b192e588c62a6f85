"""Images are resized as openpi's own client does it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.policies.remote.messages import resize_with_pad

Image = pytest.importorskip("PIL.Image", reason="Pillow is what the result is compared with")


@settings(deadline=None, max_examples=60)
@given(width=st.integers(4, 80), tall=st.floats(0.1, 1.5), size=st.integers(8, 64), seed=st.integers(0, 99))
def test_the_result_has_pillows_bits(width: int, tall: float, size: int, seed: int) -> None:
    image = np.random.default_rng(seed).integers(0, 256, (max(1, int(width * tall)), width, 3), np.uint8)
    height = image.shape[0]
    ratio = max(width / size, height / size)
    rows, columns = int(height / ratio), int(width / ratio)
    if not rows or not columns:
        return
    canvas = Image.new("RGB", (size, size), 0)
    small = Image.fromarray(image).resize((columns, rows), resample=Image.Resampling.BILINEAR)
    canvas.paste(small, (int((size - columns) / 2), int((size - rows) / 2)))
    assert np.array_equal(resize_with_pad(image, size), np.asarray(canvas))


def test_an_image_of_the_right_size_is_left_alone() -> None:
    image = np.zeros((5, 5, 3), np.uint8)
    assert resize_with_pad(image, 5) is image
