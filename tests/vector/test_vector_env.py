"""Vector environments in this process and in workers: the same, lazy, and gone when they are closed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from harness import SUPPORT, descendants, is_over, run_tiny, wait_until
from proctor.errors import SimulatorError, UsageError
from proctor.policies.python import as_policy
from proctor.vector.env import NEW_ROLLOUT
from tiny_vectors import tiny, workers

KINDS = pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])

Results = dict[int, tuple[int, float, bool]]


def make(use_async: bool, n_envs: int = 2, **fields: Any) -> VectorEnv:
    return tiny(**fields).create_envs(n_envs, use_async)["a"][0]


def action(step: int) -> np.ndarray[Any, Any]:
    return np.asarray([np.sin(step), 0.5], np.float32)


def play(env: VectorEnv, rounds: int, seed: int) -> tuple[Results, list[Any]]:
    """Play some episodes in each environment; return what each came to, and everything that was seen."""
    n: int = env.num_envs
    seen, info = env.reset(seed=seed)
    everything: list[Any] = [seen]
    index, steps, rewards, played = list(info["episode_index"]), [0] * n, [0.0] * n, [0] * n
    results: Results = {}
    over = [False] * n
    while min(played) < rounds:
        seen, reward, terminated, truncated, info = env.step(np.stack([action(step) for step in steps]))
        everything.append((seen, reward, terminated, truncated))
        for i in range(n):
            if over[i]:  # this step was its reset
                index[i], steps[i], rewards[i], over[i] = info["episode_index"][i], 0, 0.0, False
                continue
            steps[i], rewards[i] = steps[i] + 1, rewards[i] + reward[i]
            over[i] = bool(terminated[i] or truncated[i])
            if over[i]:
                played[i] += 1
                results[int(index[i])] = (steps[i], rewards[i], bool(info["final_info"]["is_success"][i]))
                assert info["is_success"][i] == info["final_info"]["is_success"][i]
    return results, everything


def equal(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(equal(first[key], second[key]) for key in first)
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(map(equal, first, second))
    return first.dtype == second.dtype and bool((first == second).all())


LIVE_ONE = {"path": "live:scripted", "type": "python"}


class Scripted:
    """Acts by the number of the step, as `play` does."""

    def reset(self) -> None:
        self._step = -1

    def act(self, observation: Any) -> Any:
        self._step += 1
        return action(self._step)


def test_both_kinds_play_a_plans_episodes_as_an_evaluation_does(tmp_path: Path) -> None:
    played = []
    for use_async in (False, True):
        env = make(use_async, max_steps=12)
        played.append(play(env, rounds=3, seed=1000))
        env.close()
    assert equal(played[0][1], played[1][1])
    live = as_policy(Scripted(), "scripted")
    run = run_tiny(tmp_path / "run", live, task="a", n_episodes=6, env={"max_steps": 12}, policy=LIVE_ONE)
    assert run.error is None
    for results, _ in played:
        for record in run.records:
            steps, rewards, success = results[record.episode_index]
            assert (steps, success) == (record.steps, record.success)
            assert rewards == pytest.approx(record.sum_reward, rel=1e-12)  # summed in another way
    assert {success for _, _, success in played[0][0].values()} == {True, False}


@KINDS
def test_everything_is_known_before_anything_is_started(use_async: bool) -> None:
    env = make(use_async, n_envs=3, max_steps=17)
    assert isinstance(env, AsyncVectorEnv if use_async else SyncVectorEnv)
    assert env.num_envs == 3
    assert env.single_observation_space["pixels"].shape == (8, 6, 3)
    assert env.observation_space["agent_pos"].shape == (3, 3)
    assert env.action_space.shape == (3, 2)
    assert env.metadata["render_fps"] == 30
    assert env.render_mode == "rgb_array"
    assert env.call("task_description") == ("do a",) * 3
    assert env.get_attr("task") == ("a",) * 3
    assert env.call("_max_episode_steps")[0] == 17
    for act in (env.render, lambda: env.step(np.zeros((3, 2), np.float32)), lambda: env.call("render")):
        with pytest.raises(ResetNeeded):
            act()
    assert "num_envs=3" in repr(env)
    assert descendants(os.getpid()) == []
    env.close()


@KINDS
def test_closing_frees_and_resetting_starts_again(use_async: bool) -> None:
    env = make(use_async)
    first, _ = env.reset(seed=7)
    assert len(workers()) == (2 if use_async else 0)
    assert env.call("task_description") == ("do a",) * 2
    assert [frame.shape for frame in env.render()] == [(8, 6, 3)] * 2
    env.close()
    assert workers() == []
    assert env.closed
    assert env.call("task") == ("a", "a")
    again, _ = env.reset(seed=7)
    assert not env.closed
    assert equal(first, again)
    env.close()
    env.close()
    assert workers() == []


def test_an_environment_that_nobody_holds_any_more_takes_its_workers_along() -> None:
    env = make(True)
    env.reset(seed=7)
    assert len(workers()) == 2
    del env
    assert workers() == []


@KINDS
def test_seeds_as_a_number_as_a_list_and_the_episodes_of_ones_choice(use_async: bool) -> None:
    env = make(use_async)
    spread, info = env.reset(seed=1000)
    assert info["seed"].tolist() == [1000, 1001]
    listed, info = env.reset(seed=[1000, 1001])
    assert equal(spread, listed)
    _, info = env.reset(seed=[1002, 1003])
    assert info["episode_index"].tolist() == [2, 3]
    _, info = env.reset()
    assert info["episode_index"].tolist() == [4, 5]
    _, info = env.reset(options={"episode_index": 0})
    assert (info["episode_index"].tolist(), info["seed"].tolist()) == ([0, 1], [1000, 1001])
    env.close()


@KINDS
def test_a_space_that_was_seeded_before_the_start_stays_seeded(use_async: bool) -> None:
    env = make(use_async)
    env.action_space.seed(5)
    expected = env.action_space.sample()
    env.action_space.seed(5)
    env.reset(seed=1)
    assert (env.action_space.sample() == expected).all()
    assert env.observation_space is make(use_async).observation_space
    env.close()


@KINDS
def test_an_attribute_can_be_set(use_async: bool) -> None:
    env = make(use_async)
    with pytest.raises(ResetNeeded):
        env.set_attr("note", 1)
    env.reset(seed=1)
    env.set_attr("note", [1, 2])
    assert env.get_attr("note") == (1, 2)
    env.close()


@KINDS
def test_a_simulator_that_raises_ends_nothing_but_the_episode(use_async: bool, tmp_path: Path) -> None:
    env = make(use_async, scratch=tmp_path, mischief="step.raise!:a:1:2")
    env.reset(seed=1000)
    env.step(np.zeros((2, 2), np.float32))
    with pytest.raises(SimulatorError, match="a: step raised RuntimeError: the simulator fell over"):
        env.step(np.zeros((2, 2), np.float32))
    env.reset(seed=1000)
    for _ in range(3):
        env.step(np.zeros((2, 2), np.float32))
    env.close()


@pytest.mark.parametrize("where", ["step", "reset", "build"])
def test_a_worker_that_dies_is_told_of_and_replaced(where: str, tmp_path: Path) -> None:
    env = make(True, scratch=tmp_path, mischief=f"{where}.kill!:a:*:{2 if where == 'step' else '*'}")

    def play_on() -> None:
        env.reset(seed=1000)
        for _ in range(3):
            env.step(np.zeros((2, 2), np.float32))

    with pytest.raises(SimulatorError, match=r"a: the process of environment [01] was killed by SIGKILL"):
        play_on()
    assert workers() == []
    play_on()
    env.close()


def test_a_worker_that_is_killed_while_nobody_asks() -> None:
    env = make(True)
    env.reset(seed=1000)
    victim = workers()[0]
    victim.kill()
    wait_until(lambda: is_over(victim))
    with pytest.raises(SimulatorError, match=r"was killed by SIGKILL.*reset\(\) starts new ones"):
        env.step(np.zeros((2, 2), np.float32))
    assert workers() == []


def test_workers_that_hang_are_ended_by_closing() -> None:
    env = make(True, mischief="step.hang:a:*:1")
    env.reset(seed=1000)
    env.step_async(np.zeros((2, 2), np.float32))
    env.close()
    assert workers() == []


def test_a_ctrl_c_that_the_caller_outlives_leaves_the_workers_alone() -> None:
    env = make(True)
    env.reset(seed=1000)
    for worker in workers():
        worker.send_signal(signal.SIGINT)  # as the terminal would
    env.step(np.zeros((2, 2), np.float32))
    env.close()


def test_a_mistake_of_the_caller_costs_no_worker() -> None:
    env = make(True)
    env.reset(seed=1000)
    for given, words in (
        ({"seed": [1, 2, 3]}, "give a whole number, or 2 of them"),
        ({"seed": 2**70}, "whole numbers from 0 to"),
        ({"seed": 2**32 - 1}, "whole numbers from 0 to"),  # the second environment's is one more
        ({"seed": [1.5, 2]}, r"seed=1\.5: simulators take whole numbers"),
        ({"seed": "a"}, "give a whole number"),
        ({"options": 5}, "options=5: must be a dict"),
    ):
        with pytest.raises(UsageError, match=words):
            env.reset(**given)
    assert len(workers()) == 2
    env.step(np.zeros((2, 2), np.float32))
    env.reset(seed=np.int64(1000))
    env.close()


STILL = np.zeros((2, 2), np.float32)


@KINDS
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (STILL[0], r"to be 1-D \(shape \(action_dim,\)\), but got shape \(\) with ndim=0"),
        (STILL[:, None], r"Expected action to be 1-D .* but got shape \(1, 2\) with ndim=2"),
        (STILL[:1], r"one action for each environment, .* = \(2, 2\), but got shape \(1, 2\)"),
        (np.zeros((3, 2)), r"got shape \(3, 2\)"),
        (np.zeros(5), r"got shape \(5,\)"),
        (np.float32(1), r"got shape \(\)"),
        (STILL[None], r"got shape \(1, 2, 2\)"),
        (np.zeros((2, 3)), r"Expected action to have shape \(2,\), but got shape \(3,\)"),
        (np.full((2, 2), np.nan), "finite numbers"),
        ([["up", "down"]] * 2, "finite numbers"),
        (np.zeros((2, 2), bool), "finite numbers"),
    ],
)
def test_a_wrong_action_is_the_callers_mistake_and_moves_nothing(use_async: bool, wrong: Any, words: str) -> None:
    env, other = make(use_async), make(False)
    env.reset(seed=1000)
    other.reset(seed=1000)
    before = {worker.pid for worker in workers()}
    with pytest.raises(ValueError, match=words):
        env.step(wrong)
    assert {worker.pid for worker in workers()} == before
    assert equal(list(env.step(STILL.tolist())[:2]), list(other.step(STILL)[:2]))
    env.close()
    other.close()


@KINDS
def test_what_lerobot_starts_ahead_in_a_thread_is_what_the_reset_uses(use_async: bool) -> None:
    env = make(use_async)
    ahead = threading.Thread(target=env._ensure, daemon=True)
    ahead.start()
    ahead.join()
    started = {worker.pid for worker in workers()}
    assert len(started) == (2 if use_async else 0)
    with pytest.raises(ResetNeeded):
        env.envs[0].step(STILL[0]) if not use_async else make(True).step(STILL)
    env._ensure()
    seen, _ = env.reset(seed=7)
    assert {worker.pid for worker in workers()} == started
    other = make(False)
    assert equal(seen, other.reset(seed=7)[0])
    env.close()
    assert workers() == []


def test_environments_may_be_started_from_several_threads_at_once() -> None:
    envs = [make(True) for _ in range(3)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda env: env._ensure(), [*envs, envs[0]]))
    assert len(workers()) == 6
    for env in envs:
        env.close()


def lerobots_rollout(env: VectorEnv, **options: Any) -> Any:
    """Step as LeRobot's loop does, until the last is done; return what the reset said."""
    _, info = env.reset(options={NEW_ROLLOUT: True}, **options)
    done = np.zeros(env.num_envs, bool)
    while not done.all():
        *_, terminated, truncated, _ = env.step(np.ones((env.num_envs, 2), np.float32))
        done |= terminated | truncated
    return info


@KINDS
@pytest.mark.parametrize("max_steps", [3, 40])
def test_a_plain_reset_after_lerobots_rollout_begins_the_next_episodes(use_async: bool, max_steps: int) -> None:
    env, fresh = make(use_async, max_steps=max_steps), make(False, max_steps=max_steps)
    lerobots_rollout(env, seed=[1000, 1001])
    observation, info = env.reset()
    assert (info["episode_index"].tolist(), info["seed"].tolist()) == ([2, 3], [1002, 1003])
    fresh.reset(seed=1000)
    assert equal(observation, fresh.reset(seed=[1002, 1003])[0])
    assert env.reset()[1]["episode_index"].tolist() == [4, 5]
    assert lerobots_rollout(env)["episode_index"].tolist() == [6, 7]
    assert lerobots_rollout(env)["episode_index"].tolist() == [8, 9]
    env.close()
    fresh.close()


@KINDS
def test_lerobots_rollouts_in_several_threads_at_once_are_warned_of(use_async: bool) -> None:
    envs = [make(use_async, max_steps=3) for _ in range(2)]
    both = threading.Barrier(2)

    def roll(env: VectorEnv) -> None:
        both.wait()
        lerobots_rollout(env, seed=[1, 2])
        both.wait()

    with (
        pytest.warns(UserWarning, match=r"share one policy.*Use max_parallel_tasks=1"),
        ThreadPoolExecutor(2) as two,
    ):
        list(two.map(roll, envs))
    with warnings.catch_warnings(action="error"):  # one after the other
        for env in envs:
            lerobots_rollout(env, seed=[1, 2])
    for env in envs:
        env.close()


SCRIPT = f"""
import os, sys, numpy as np, proctor
settings = proctor.make_env_config({str(SUPPORT / "tiny.py")!r} + ":Tiny", task="a", mischief=sys.argv[-1])
env = settings.create_envs(2, use_async_envs=True)["a"][0]
observation, info = env.reset(seed=1000)
print(info["seed"].tolist(), flush=True)
env.step(np.zeros((2, 2), np.float32))
env.close()
"""


@pytest.mark.parametrize("how", ["file", "stdin"])
def test_a_script_needs_no_guard(how: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script) if how == "file" else "-", ""]
    words = None if how == "file" else SCRIPT
    done = subprocess.run(command, input=words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[1000, 1001]\n", "")


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A script whose workers hang in their first step."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script), "step.hang:a:*:1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "[1000, 1001]\n"
        yield process
        process.kill()


def test_workers_that_hang_do_not_outlive_a_parent_that_is_killed(hanging: subprocess.Popen[str]) -> None:
    family = descendants(hanging.pid)
    assert len(family) == 4  # two workers, the fork server and the resource tracker
    hanging.kill()
    hanging.wait()
    wait_until(lambda: all(map(is_over, family)))


def test_ctrl_c_ends_a_step_that_hangs_and_the_workers_with_it(hanging: subprocess.Popen[str]) -> None:
    family = descendants(hanging.pid)
    hanging.send_signal(signal.SIGINT)
    _, words = hanging.communicate(timeout=60)
    assert hanging.returncode == -signal.SIGINT
    assert words.count("Traceback") == 1
    assert "KeyboardInterrupt" in words
    wait_until(lambda: all(map(is_over, family)))


def test_one_environment_is_in_this_process() -> None:
    assert isinstance(make(True, n_envs=1), SyncVectorEnv)
