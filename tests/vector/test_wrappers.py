"""Gymnasium's own wrappers around vector environments of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import vector as wrappers

from tiny_vectors import tiny

KINDS = pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])
STEPS = 3
DOWN = np.full((2, 2), -1, np.float32)


def make(use_async: bool, **fields: Any) -> VectorEnv:
    return tiny(max_steps=STEPS, **fields).create_envs(2, use_async)["a"][0]


def play(env: Any, steps: int = STEPS) -> list[Any]:
    env.reset(seed=1000)
    return [env.step(DOWN) for _ in range(steps)]


@KINDS
def test_the_statistics_of_an_episode_are_its_own(use_async: bool) -> None:
    env = wrappers.RecordEpisodeStatistics(make(use_async))
    rewards = np.sum([reward for _, reward, *_ in play(env)], axis=0)
    *_, info = play(env)[-1]
    assert info["episode"]["l"].tolist() == [STEPS, STEPS]
    assert info["episode"]["r"] == pytest.approx(rewards)
    _, _, _, _, info = env.step(DOWN)  # the reset
    assert "episode" not in info
    assert [env.step(DOWN)[4] for _ in range(STEPS)][-1]["episode"]["l"].tolist() == [STEPS, STEPS]
    env.close()


@KINDS
def test_infos_as_a_list_have_the_final_info_of_each(use_async: bool) -> None:
    env = wrappers.DictInfoToList(make(use_async))
    _, infos = env.reset(seed=1000)
    assert [info["episode_index"] for info in infos] == [0, 1]
    *_, infos = play(env)[-1]
    assert [info["final_info"]["is_success"] for info in infos] == [False, False]
    assert all(set(info["metrics"]) >= {"height"} for info in infos)
    env.close()


def to_state(env: VectorEnv) -> Any:
    return wrappers.FilterObservation(env, ["agent_pos"])


OBSERVATIONS: dict[str, tuple[Callable[[VectorEnv], Any], Callable[[Any, Any], bool]]] = {
    "filter": (to_state, lambda seen, plain: list(seen) == ["agent_pos"]),
    "flatten": (
        lambda env: wrappers.FlattenObservation(to_state(env)),
        lambda seen, plain: np.array_equal(seen, plain["agent_pos"]),
    ),
    "transform": (
        lambda env: wrappers.TransformObservation(
            env, lambda seen: seen["agent_pos"] * 2, Box(-np.inf, np.inf, (2, 3)), Box(-np.inf, np.inf, (3,))
        ),
        lambda seen, plain: np.array_equal(seen, 2 * plain["agent_pos"]),
    ),
    "normalize": (
        lambda env: wrappers.NormalizeObservation(wrappers.FlattenObservation(to_state(env))),
        lambda seen, plain: seen.shape == (2, 3) and bool(np.isfinite(seen).all()),
    ),
}


@KINDS
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observations_are_wrapped_as_any_others(name: str, use_async: bool) -> None:
    wrap, holds = OBSERVATIONS[name]
    env, plain = wrap(make(use_async)), make(False)
    seen, before = env.reset(seed=1000)[0], plain.reset(seed=1000)[0]
    assert holds(seen, before)
    for _ in range(2 * STEPS):
        assert holds(env.step(DOWN)[0], plain.step(DOWN)[0])
    env.close()
    plain.close()


@KINDS
def test_actions_and_rewards_are_wrapped_as_any_others(use_async: bool) -> None:
    plain = make(False)
    expected = np.array([step[1] for step in play(plain)])
    scaled = wrappers.RescaleAction(make(use_async), np.float32(-5), np.float32(5))
    scaled.reset(seed=1000)
    assert np.array([scaled.step(5 * DOWN)[1] for _ in range(STEPS)]) == pytest.approx(expected)
    clipped = wrappers.ClipReward(wrappers.ClipAction(scaled.env), -0.1, 0.1)
    assert np.array_equal([step[1] for step in play(clipped)], np.clip(expected, -0.1, 0.1))
    normal = wrappers.NormalizeReward(scaled.env)
    assert np.isfinite([step[1] for step in play(normal, 2 * STEPS)]).all()
    for env in (plain, scaled):
        env.close()


@KINDS
def test_seeds_and_options_go_through_wrappers(use_async: bool) -> None:
    env = wrappers.RecordEpisodeStatistics(to_state(make(use_async)))
    assert env.reset(seed=[7, 8])[1]["seed"].tolist() == [7, 8]
    assert env.reset()[1]["seed"].tolist() == [9, 10]
    assert env.reset(options={"episode_index": 0})[1]["seed"].tolist() == [7, 8]
    assert (env.num_envs, env.unwrapped.call("task_description")) == (2, ("do a", "do a"))
    with pytest.raises(ValueError, match="Expected one action for each environment"):
        env.step(DOWN[:1])
    env.close()
