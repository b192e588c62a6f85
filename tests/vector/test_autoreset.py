"""Gymnasium's three ways to go on after the end of an episode, and what is known of it in each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv

import proctor
from proctor.vector.env import NEW_ROLLOUT
from tiny_vectors import tiny

KINDS = pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])
STEPS = 3
DOWN = np.full((2, 2), -1, np.float32)


def make(mode: Any, use_async: bool, **fields: Any) -> VectorEnv:
    return proctor.make_env(tiny(max_steps=STEPS, **fields), 2, use_async, autoreset_mode=mode)["a"][0]


def to_the_end(env: VectorEnv) -> Any:
    for _ in range(STEPS):
        step = env.step(DOWN)
    assert step[3].all()
    return step


@KINDS
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_mode_is_announced_before_the_start_and_kept(mode: AutoresetMode, use_async: bool) -> None:
    env = make(mode.value, use_async)
    assert env.metadata["autoreset_mode"] is mode
    env.reset(seed=1)
    assert env.metadata["autoreset_mode"] is env.autoreset_mode is mode
    env.close()


@KINDS
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_the_final_info_tells_of_the_episode_that_ended_in_every_mode(
    mode: AutoresetMode, use_async: bool
) -> None:
    env = make(mode, use_async)
    _, info = env.reset(seed=1000)
    assert "final_info" not in info
    *_, info = to_the_end(env)
    assert info["final_info"]["is_success"].tolist() == [False, False]
    assert info["_final_info"].all()
    assert list(info["final_info"]["task"]) == ["a", "a"]
    env.close()


@KINDS
def test_next_step_shows_the_last_observation_and_resets_with_the_step_after(use_async: bool) -> None:
    env = make("NextStep", use_async)
    env.reset(seed=1000)
    last, *_ = to_the_end(env)
    first, reward, terminated, truncated, info = env.step(DOWN)
    assert (reward.tolist(), terminated.any(), truncated.any()) == ([0, 0], False, False)
    assert info["episode_index"].tolist() == [2, 3]
    assert not np.array_equal(first["agent_pos"], last["agent_pos"])
    assert np.array_equal(first["agent_pos"], env.reset(seed=[1002, 1003])[0]["agent_pos"])
    env.close()


@KINDS
def test_same_step_shows_the_next_beginning_and_keeps_the_last_observation_in_info(use_async: bool) -> None:
    env, other = make("SameStep", use_async), make("NextStep", False)
    env.reset(seed=1000)
    other.reset(seed=1000)
    first, reward, _, truncated, info = to_the_end(env)
    last, expected, *_ = to_the_end(other)
    assert (truncated.all(), reward.tolist()) == (True, expected.tolist())
    assert [seen["agent_pos"].tolist() for seen in info["final_obs"]] == last["agent_pos"].tolist()
    assert info["episode_index"].tolist() == [2, 3]
    assert np.array_equal(first["agent_pos"], other.step(DOWN)[0]["agent_pos"])
    env.close()
    other.close()


@KINDS
def test_disabled_resets_those_that_a_mask_names(use_async: bool) -> None:
    env = make("Disabled", use_async)
    env.reset(seed=1000)
    last, *_ = to_the_end(env)
    options = {"reset_mask": np.array([True, False])}
    seen, info = env.reset(options=options)
    assert info["episode_index"].tolist()[0] == 2
    assert "reset_mask" in options  # the caller's dict is the caller's
    assert np.array_equal(seen["agent_pos"][1], last["agent_pos"][1])
    assert not np.array_equal(seen["agent_pos"][0], last["agent_pos"][0])
    env.close()


@KINDS
def test_lerobots_loop_reads_the_same_success_in_same_step_mode(use_async: bool) -> None:
    read = []
    for mode in ("NextStep", "SameStep"):
        env = make(mode, use_async)
        env.reset(seed=[1000, 1001], options={NEW_ROLLOUT: True})
        steps = [env.step(-DOWN) for _ in range(STEPS)]
        read.append([info["final_info"]["is_success"].tolist() for *_, info in steps if "final_info" in info])
        env.close()
    assert read[0] == read[1] != []
