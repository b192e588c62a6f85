"""Numbers beside a film come back as they were, and nobody's file is taken for an episode's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from proctor.store.observed import ObservedNumbers, pack_observed, read_observed
from proctor.store.trajectories import pack_array
from proctor.store.videos import numbers_place
from proctor.types import EpisodeKey

KEY = EpisodeKey("a", 0, 3)
VALUES = np.arange(8, dtype=np.float32).reshape(4, 2)


def put(run: Path, content: bytes) -> Path:
    file = run / numbers_place(KEY)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def test_numbers_come_back_for_the_episode_that_has_as_many_steps(tmp_path: Path) -> None:
    put(tmp_path, pack_observed(ObservedNumbers(["x", "y"], VALUES, 97)))
    found = read_observed(tmp_path, KEY, steps=3)
    assert found is not None
    assert (list(found.names), found.there) == (["x", "y"], 97)
    assert np.array_equal(found.values, VALUES)
    assert read_observed(tmp_path, KEY, steps=4) is None, "they are another episode's"
    assert read_observed(tmp_path, EpisodeKey("a", 0, 4), steps=3) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xc1",
        msgpack.packb(7),
        msgpack.packb([2, ["x", "y"], pack_array(VALUES), 2]),
        msgpack.packb([1, ["x"], pack_array(VALUES), 2]),
        msgpack.packb([1, ["x", 5], pack_array(VALUES), 2]),
        msgpack.packb([1, ["x", "y" * 999], pack_array(VALUES), 2]),
        msgpack.packb([1, ["x", "y"], pack_array(VALUES), -1]),
        msgpack.packb([1, ["x", "y"], pack_array(VALUES), True]),
        msgpack.packb([1, ["x", "y"], pack_array(VALUES.astype("f8")), 2]),
        msgpack.packb([1, ["x", "y"], ["<f4", [1 << 23, 2], b""], 2]),
        msgpack.packb([1, ["x", "y"], ["O", [4, 2], b""], 2]),
        msgpack.packb([1, [str(n) for n in range(99)], pack_array(np.zeros((4, 99), "f4")), 99]),
    ],
)
def test_what_is_something_else_is_not_shown(tmp_path: Path, content: Any) -> None:
    put(tmp_path, content)
    assert read_observed(tmp_path, KEY, steps=3) is None


def test_no_link_is_followed(tmp_path: Path) -> None:
    elsewhere = put(tmp_path / "other", pack_observed(ObservedNumbers(["x", "y"], VALUES, 2)))
    file = put(tmp_path / "run", b"")
    file.unlink()
    file.symlink_to(elsewhere)
    assert read_observed(tmp_path / "run", KEY, steps=3) is None
