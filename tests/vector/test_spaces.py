"""Features as LeRobot's environments lay them out."""

from __future__ import annotations

import numpy as np
import pytest

from proctor.errors import UsageError
from proctor.types import BenchmarkSpec, Feature
from proctor.vector.spaces import action_space, arranged, observation_space, places

IMAGE = Feature((8, 6, 3), "uint8", drawn=True)


def spec(**features: Feature) -> BenchmarkSpec:
    named = {f"observation.{key.replace('__', '.')}": feature for key, feature in features.items()}
    return BenchmarkSpec("some", named, action_size=2, action_low=-2.0, action_high=3.0)


def test_one_camera_the_robot_and_the_rest() -> None:
    some = spec(image=IMAGE, state=Feature((4,), "float64"), environment_state=Feature((9,), "float32"))
    space = observation_space(some)
    assert set(space) == {"pixels", "agent_pos", "environment_state"}
    assert (space["pixels"].shape, space["pixels"].dtype) == ((8, 6, 3), np.uint8)
    assert (space["pixels"].low.min(), space["pixels"].high.max()) == (0, 255)
    assert (space["agent_pos"].dtype, space["environment_state"].dtype) == (np.float64, np.float32)
    assert np.isinf(space["agent_pos"].high).all()


def test_several_cameras_are_a_dict_of_pixels() -> None:
    some = spec(images__front=IMAGE, images__wrist=IMAGE, flag=Feature((1,), "bool"), count=Feature((2,), "int64"))
    space = observation_space(some)
    assert set(space) == {"pixels", "flag", "count"}
    assert set(space["pixels"]) == {"front", "wrist"}
    seen = arranged(dict.fromkeys(some.features, "x"), places(some.features))
    assert seen == {"pixels": {"front": "x", "wrist": "x"}, "flag": "x", "count": "x"}


def test_equal_spaces_of_pixels_are_one_object_single_and_batched() -> None:
    assert observation_space(spec(image=IMAGE)) is observation_space(spec(image=IMAGE))
    assert observation_space(spec(image=IMAGE), 3) is observation_space(spec(image=IMAGE), 3)
    assert observation_space(spec(image=IMAGE), 3)["pixels"].shape == (3, 8, 6, 3)


@pytest.mark.parametrize("other", ["images__front", "pixels"])
def test_features_that_would_share_a_place_are_refused(other: str) -> None:
    with pytest.raises(UsageError, match="do not all fit into LeRobot's layout"):
        observation_space(spec(image=IMAGE, **{other: IMAGE}))


def test_a_feature_that_would_come_back_under_another_name_is_refused() -> None:
    with pytest.raises(UsageError, match="do not all fit"):
        places(["observation.agent_pos"])


def test_actions_have_the_benchmarks_bounds_and_their_own_generator() -> None:
    first, second = action_space(spec(image=IMAGE)), action_space(spec(image=IMAGE))
    assert (first.shape, first.dtype) == ((2,), np.float32)
    assert first.low.tolist() == [-2, -2]
    assert first.high.tolist() == [3, 3]
    first.seed(1)
    second.seed(2)
    assert (first.sample() != second.sample()).all()
