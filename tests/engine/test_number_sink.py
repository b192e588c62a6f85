"""Of what can be observed, a film keeps the first numbers, by the policy's names, and says how many there are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from proctor.engine import number_sink
from proctor.engine.number_sink import NumberSink
from proctor.store.observed import MOST_COLUMNS, read_observed
from proctor.store.videos import numbers_place
from proctor.types import BenchmarkSpec, EpisodeKey, Feature

KEY = EpisodeKey("a", 0, 0)


def sink(run: Path, **privileged: Feature) -> NumberSink:
    features = {
        "observation.image": Feature((4, 4, 3), "uint8", drawn=True),
        "observation.state": Feature((2, 2), "float64"),
        "time": Feature((), "int64"),
    }
    spec = BenchmarkSpec("b", features, 2, privileged=privileged, sources={"observation.state": "state"})
    return NumberSink(run / numbers_place(KEY), spec)


def observation(step: int, hidden: int = 0) -> dict[str, np.ndarray]:
    found = {"state": np.arange(4.0).reshape(2, 2) + step, "time": np.asarray(step)}
    return {**found, "hidden": np.full(hidden, step)} if hidden else found


def test_every_number_has_its_name_and_pictures_are_none(tmp_path: Path) -> None:
    numbers = sink(tmp_path)
    assert numbers.look == {"state", "time"}
    for step in range(3):
        numbers.add(observation(step))
    numbers.finish(steps=2)
    found = read_observed(tmp_path, KEY, steps=2)
    assert found is not None
    assert list(found.names) == [*(f"observation.state {number}" for number in range(4)), "time"]
    assert found.values.tolist() == [[step, 1 + step, 2 + step, 3 + step, step] for step in range(3)]
    assert found.there == 5


def test_of_many_numbers_the_first_are_kept_and_the_file_says_how_many_there_are(tmp_path: Path) -> None:
    numbers = sink(tmp_path, hidden=Feature((90,), "int64"))
    for step in range(2):
        numbers.add(observation(step, hidden=90))
    numbers.finish(steps=1)
    found = read_observed(tmp_path, KEY, steps=1)
    assert found is not None
    assert (len(found.names), found.names[-1], found.there) == (MOST_COLUMNS, "hidden 58", 95)


def test_an_episode_that_is_too_long_or_incomplete_keeps_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(number_sink, "MOST_KEPT", 10)
    numbers = sink(tmp_path)
    for step in range(3):
        numbers.add(observation(step))
    numbers.finish(steps=2)
    assert not (tmp_path / numbers_place(KEY)).exists()


def test_what_is_abandoned_leaves_no_file(tmp_path: Path) -> None:
    numbers = sink(tmp_path)
    numbers.add(observation(0))
    numbers.finish(steps=0)
    assert (tmp_path / numbers_place(KEY)).exists()
    numbers.abandon()
    assert not (tmp_path / numbers_place(KEY)).exists()
