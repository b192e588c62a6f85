"""Noise on executed actions: within bounds, of an episode alone, and none where none is asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.config.settings import EvalConfig
from proctor.engine.action_noise import ActionNoise
from proctor.errors import UsageError
from proctor.types import BenchmarkSpec, Episode, Task

SPEC = BenchmarkSpec("b", {}, action_size=3, action_low=(-1.0, 0.0, -4.0), action_high=(1.0, 2.0, 4.0))


def episode(index: int, name: str = "reach", seed: int = 1000) -> Episode:
    return Episode(Task(name, 0, name, "", 9), index, seed + index)


def executed(noise: ActionNoise, of: Episode, actions: np.ndarray, spec: BenchmarkSpec = SPEC) -> np.ndarray:
    one = noise.of_episode(of, spec)
    return np.stack([one(action) for action in actions])


@settings(deadline=None)
@given(
    level=st.floats(0, 2),
    share=st.floats(0, 1),
    index=st.integers(0, 1000),
    wanted=st.lists(st.floats(-50, 50, width=32), min_size=3, max_size=3),
)
def test_what_is_executed_is_an_action(level: float, share: float, index: int, wanted: list[float]) -> None:
    action = np.asarray(wanted, np.float32)
    found = executed(ActionNoise((level,), share), episode(index), np.tile(action, (20, 1)))
    assert found.dtype == np.float32
    changed = (found != action).any(axis=1)
    inside = np.clip(found, SPEC.action_low, SPEC.action_high)
    assert (found[changed] == inside[changed]).all(), "what noise has touched lies within the bounds"


def test_the_noise_of_an_episode_depends_on_it_alone() -> None:
    noise, actions = ActionNoise((0.1, 0.5), 0.5), np.zeros((50, 3))
    first = executed(noise, episode(7), actions)
    executed(noise, episode(8), actions)  # another in between changes nothing
    np.testing.assert_array_equal(executed(noise, episode(7), actions), first)
    for other in (episode(8), episode(7, "push"), episode(7, seed=1001)):
        assert (executed(noise, other, actions) != first).any()


def test_levels_and_share_are_what_they_are_said_to_be() -> None:
    bounds = BenchmarkSpec("b", {}, action_size=1, action_low=-10.0, action_high=10.0)
    spreads, shares = [], []
    for index in range(200):
        found = executed(ActionNoise((0.0, 0.02), 0.25), episode(index), np.zeros((100, 1)), bounds)
        shares.append((found != 0).mean())
        spreads.append(found[found != 0].std() if shares[-1] else 0.0)
    quiet = np.asarray(shares) == 0
    assert 0.35 < quiet.mean() < 0.65, "each level is taken by about as many episodes"
    assert np.asarray(shares)[~quiet].mean() == pytest.approx(0.25, abs=0.02)
    assert np.asarray(spreads)[~quiet].mean() == pytest.approx(0.2, abs=0.02), "of half the range, which is 10"


def test_without_noise_there_is_none() -> None:
    assert ActionNoise.of(EvalConfig(), SPEC) is None
    assert ActionNoise.of(EvalConfig(noise="0,0"), SPEC) is None
    assert ActionNoise.of(EvalConfig(noise="0.1", noise_share=0), SPEC) is None


@pytest.mark.parametrize(
    "spec",
    [
        BenchmarkSpec("b", {}, action_size=1, action_low=0, action_high=4, action_integers=True),
        BenchmarkSpec("b", {}, action_size=2, action_high=(1.0, float("inf")), action_low=(0.0, 0.0)),
    ],
)
def test_actions_without_a_range_are_refused(spec: BenchmarkSpec) -> None:
    with pytest.raises(UsageError, match="no bounds"):
        ActionNoise.of(EvalConfig(noise="0.1"), spec)


@pytest.mark.parametrize("text", ["", "much", "0.1,", "-0.1", "3", "nan", "0.1;0.2"])
def test_a_level_that_is_none_is_refused(text: str) -> None:
    if text == "0.1,":
        assert ActionNoise.of(EvalConfig(noise=text), SPEC) == ActionNoise((0.1,), 0.5)
        return
    with pytest.raises(UsageError, match="must be a number from 0 to 2"):
        ActionNoise.of(EvalConfig(noise=text), SPEC)
