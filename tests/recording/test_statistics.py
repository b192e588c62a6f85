"""Statistics of a dataset: exact ones are, and quantiles are what they say."""

from __future__ import annotations

import numpy as np

from proctor.recording.statistics import QUANTILES, ImageStats, aggregate, stats_of


def test_aggregated_statistics_are_those_of_all_values_together() -> None:
    generator = np.random.default_rng(1)
    parts = [generator.normal(size=(n, 3)) for n in (1, 7, 50)]
    together, whole = aggregate([stats_of(part) for part in parts]), stats_of(np.concatenate(parts))
    for name in ("min", "max", "mean", "std", "count"):
        np.testing.assert_allclose(together[name], whole[name], rtol=1e-12)
    np.testing.assert_allclose(together["q50"], whole["q50"], atol=0.3)


def test_the_statistics_of_images_are_those_of_their_values_between_0_and_1() -> None:
    generator = np.random.default_rng(2)
    frames = generator.integers(0, 256, (5, 20, 30, 3), np.uint8)
    frames[..., 2] //= 2
    images = ImageStats()
    for frame in frames:
        images.add(frame)
    found = images.stats()
    values = frames.reshape(-1, 3) / 255
    for name, expected in (
        ("min", values.min(0)),
        ("max", values.max(0)),
        ("mean", values.mean(0)),
        ("std", values.std(0)),
    ):
        np.testing.assert_allclose(found[name].reshape(3), expected, rtol=1e-9)
        assert found[name].shape == (3, 1, 1)
    for name, share in QUANTILES.items():
        expected = np.quantile(values, share, axis=0, method="inverted_cdf")
        np.testing.assert_allclose(found[name].reshape(3), expected)
    assert found["count"].tolist() == [5]


def test_large_images_are_thinned_out() -> None:
    frame = np.zeros((480, 640, 3), np.uint8)
    frame[::3, ::3] = 255
    images = ImageStats()
    images.add(frame)
    assert images.stats()["min"].reshape(3).tolist() == [1.0, 1.0, 1.0]
