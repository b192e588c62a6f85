"""Gymnasium's spaces as observation keys and flat actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from numpy.typing import NDArray

from proctor.benchmarks.gym.spaces import action_form, leaves, look_up
from proctor.errors import UsageError
from proctor.policies.baselines import ActionSampler, ZeroPolicy
from proctor.types import BenchmarkSpec, Feature

PICTURE = spaces.Box(0, 255, (4, 5, 3), np.uint8)
THREE = spaces.Box(-1, 1, (3,))


def keys(space: spaces.Space[Any]) -> dict[str, Feature]:
    return {key: leaf.feature for key, leaf in leaves(space, "Task-v0").items()}


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (THREE, {"observation.state": Feature((3,), "float32")}),
        (PICTURE, {"observation.image": Feature((4, 5, 3), "uint8", drawn=True)}),
        (spaces.Discrete(5), {"observation.state": Feature((1,), "int64")}),
        (spaces.MultiDiscrete([2, 3]), {"observation.state": Feature((2,), "int64")}),
        (spaces.MultiBinary(4), {"observation.state": Feature((4,), "int8")}),
        (spaces.Box(-1, 1, ()), {"observation.state": Feature((1,), "float32")}),
        (
            spaces.Dict({"pixels": PICTURE, "agent_pos": THREE, "environment_state": THREE}),
            {
                "observation.image": Feature((4, 5, 3), "uint8", drawn=True),
                "observation.state": Feature((3,), "float32"),
                "observation.environment_state": Feature((3,), "float32"),
            },
        ),
        (
            spaces.Dict({"pixels": spaces.Dict({"top": PICTURE, "left": PICTURE})}),
            {f"observation.images.{name}": Feature((4, 5, 3), "uint8", drawn=True) for name in ("top", "left")},
        ),
        (
            spaces.Dict({"observation": THREE, "achieved_goal": THREE, "desired_goal": THREE}),
            {
                f"observation.{name}": Feature((3,), "float32")
                for name in ("state", "achieved_goal", "desired_goal")
            },
        ),
        (spaces.Dict({"arm": spaces.Dict({"left": THREE})}), {"observation.arm.left": Feature((3,), "float32")}),
        (
            spaces.Tuple([THREE, spaces.Discrete(2)]),
            {"observation.0": Feature((3,), "float32"), "observation.1": Feature((1,), "int64")},
        ),
        # Words are left out; a name of its own is not taken over by another's.
        (
            spaces.Dict({"image": PICTURE, "mission": spaces.Text(9)}),
            {"observation.image": Feature((4, 5, 3), "uint8", drawn=True)},
        ),
        (
            spaces.Dict({"agent_pos": THREE, "state": spaces.Box(-1, 1, (2,))}),
            {"observation.agent_pos": Feature((3,), "float32"), "observation.state": Feature((2,), "float32")},
        ),
    ],
)
def test_every_array_gets_a_key(space: spaces.Space[Any], expected: dict[str, Feature]) -> None:
    assert keys(space) == expected


@pytest.mark.parametrize(
    "space", [spaces.Sequence(THREE), spaces.Dict({"a": spaces.Sequence(THREE)}), spaces.Text(3)]
)
def test_what_has_no_fixed_shape_is_refused(space: spaces.Space[Any]) -> None:
    with pytest.raises(UsageError, match=r"--env\.task=Task-v0 has"):
        leaves(space, "Task-v0")


def test_an_observation_is_given_in_the_type_that_its_space_promises_and_never_changes_later() -> None:
    (leaf,) = leaves(THREE, "Task-v0").values()
    theirs = np.array([0.1, 0.2, 0.3])
    ours = leaf.read(theirs)
    theirs[:] = 9
    assert ours.dtype == np.float32
    assert ours.tolist() == np.array([0.1, 0.2, 0.3], np.float32).tolist()
    (leaf,) = leaves(spaces.Discrete(5), "Task-v0").values()
    assert leaf.read(np.int64(3)).tolist() == [3]
    (picture,) = leaves(PICTURE, "Task-v0").values()
    with pytest.raises(TypeError, match="cast"):  # a picture of floats would come out black
        picture.read(np.zeros((4, 5, 3)))


SPACES = {
    "Discrete": spaces.Discrete(3, start=2),
    "MultiDiscrete": spaces.MultiDiscrete([2, 5], start=[0, -2]),
    "MultiBinary": spaces.MultiBinary(3),
    "Box": spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 5.0], np.float32)),
    "matrix": spaces.Box(
        np.array([[-1, 0], [-5, 2]], np.float64), np.array([[1, 7], [0, 3]], np.float64), dtype=np.float64
    ),
    "integers": spaces.Box(-3, 3, (2,), np.int32),
    "unbounded": spaces.Box(
        np.array([0, -np.inf, -np.inf], np.float32), np.array([np.inf, 2, np.inf], np.float32)
    ),
    "largest": spaces.Box(np.finfo(np.float64).min, np.finfo(np.float64).max, (2,), np.float64),
}


def spec_of(space: spaces.Space[Any]) -> BenchmarkSpec:
    form = action_form(space, "Task-v0")
    low, high = form.bounds
    return BenchmarkSpec("bench", {}, form.size, low, high, action_integers=form.integers)


@pytest.mark.parametrize("name", SPACES)
def test_random_and_zero_policies_act_within_every_space_and_use_all_of_it(name: str) -> None:
    space, spec = SPACES[name], spec_of(SPACES[name])
    form = action_form(space, "Task-v0")
    assert BenchmarkSpec.from_wire(spec.to_wire()) == spec
    drawn = ActionSampler(spec).draw(np.random.default_rng(0), 300)
    assert drawn.shape == (300, form.size)
    for row in drawn:
        assert space.contains(form.action(row)), form.action(row)
    assert space.contains(form.action(ZeroPolicy(spec).act([()], [None], []).chunks[0][0]))
    if form.integers:
        choices = np.asarray(form.high) - np.asarray(form.low) + 1
        assert [len(set(column)) for column in drawn.T] == choices.tolist()
    else:
        assert all(len(set(column)) == 300 for column in drawn.T)


def test_the_random_policy_draws_what_it_always_drew_where_bounds_are_plain() -> None:
    plain = ActionSampler(BenchmarkSpec("bench", {}, 4)).draw(np.random.default_rng(3), 1)
    assert plain.tobytes() == np.random.default_rng(3).uniform(-1, 1, (1, 4)).astype(np.float32).tobytes()


@pytest.mark.parametrize(
    ("name", "numbers", "action"),
    [("Discrete", [3.2], 3), ("MultiDiscrete", [1, -2], [1, -2]), ("MultiBinary", [0.9, 0, 1], [1, 0, 1])],
)
def test_the_nearest_whole_number_counts(name: str, numbers: list[float], action: Any) -> None:
    form = action_form(SPACES[name], "Task-v0")
    made = form.action(np.array(numbers))
    assert np.array_equal(made, action)
    assert SPACES[name].contains(made)


@pytest.mark.parametrize(("name", "numbers"), [("Discrete", [1]), ("Discrete", [5]), ("MultiBinary", [0, 0, 2])])
def test_a_number_that_is_no_action_is_refused(name: str, numbers: list[int]) -> None:
    with pytest.raises(ValueError, match="whole numbers from"):
        action_form(SPACES[name], "Task-v0").action(np.array(numbers))


def test_continuous_actions_are_not_clipped_and_not_shared() -> None:
    row: NDArray[np.float32] = np.array([3.0, -9.0], np.float32)
    action = action_form(SPACES["Box"], "Task-v0").action(row)
    assert action.tolist() == [3.0, -9.0]
    action[:] = 0
    assert row.tolist() == [3.0, -9.0]


def test_actions_that_are_no_array_are_refused() -> None:
    with pytest.raises(UsageError, match="Tuple space"):
        action_form(spaces.Tuple([spaces.Discrete(2)]), "Task-v0")


@pytest.mark.parametrize(
    ("info", "name", "value"),
    [
        ({"success": True}, "success", True),
        ({"a": {"b": 2.5}}, "a.b", 2.5),
        ({"a.b": 1}, "a.b", 1),
        ({"final_info": {"a": {"b": 3}}}, "a.b", 3),
        ({"a": 1}, "a.b", None),
        ({"final_info": None}, "x", None),
        ({}, "x", None),
    ],
)
def test_entries_of_info_are_found_by_dotted_names(info: dict[str, Any], name: str, value: Any) -> None:
    assert look_up(info, name) == value
