"""One task as a Gymnasium environment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from proctor.benchmarks.facts import learn
from proctor.config.load import make_env_config
from proctor.config.registry import benchmark_path, load_object
from proctor.errors import SimulatorError, UsageError
from proctor.vector.env import NEW_ROLLOUT, SimulatorEnv
from tiny_vectors import tiny

STILL, PUSH = np.zeros(2, np.float32), np.ones(2, np.float32)


def make(place: int = 0, stride: int = 1, **fields: Any) -> SimulatorEnv:
    settings = tiny(**fields)
    path = benchmark_path(settings.type)
    facts = learn(path, settings)
    return SimulatorEnv(load_object(path)(settings), facts.spec, facts.tasks[0], place, stride)


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return first.keys() == second.keys() and all((first[key] == second[key]).all() for key in first)


@pytest.mark.filterwarnings("ignore:.*Not able to test alternative render modes:UserWarning")  # no gymnasium.make
@pytest.mark.filterwarnings("ignore:.*A Box observation space m[ai][xn]imum value is -?infinity:UserWarning")
def test_gymnasiums_own_checker_is_content() -> None:
    env = make()
    check_env(env)
    env.close()


def test_what_lerobot_asks_an_environment_for() -> None:
    env = make(max_steps=17)
    assert (env.task, env.task_description, env.task_id) == ("a", "do a", 0)
    assert env._max_episode_steps == 17
    assert env.metadata == {"render_modes": ["rgb_array"], "render_fps": 30}
    assert env.render_mode == "rgb_array"


def test_the_step_limit_truncates_and_the_end_is_told_twice() -> None:
    env = make(max_steps=3)
    _, info = env.reset(seed=4)
    assert info == {"task": "a", "is_success": False, "episode_index": 0, "seed": 4}
    steps = [env.step(-PUSH) for _ in range(3)]
    assert [(terminated, truncated) for _, _, terminated, truncated, _ in steps] == [
        (False, False),
        (False, False),
        (False, True),
    ]
    assert ["final_info" in info for *_, info in steps] == [False, False, True]
    assert steps[-1][4]["final_info"] == {"task": "a", "is_success": False}
    assert set(steps[0][4]["metrics"]) == {"height"}
    with pytest.raises(ResetNeeded, match="no episode is running"):
        env.step(STILL)


def test_success_terminates() -> None:
    env = make()
    env.reset(seed=1000)
    for _ in range(40):
        *_, terminated, truncated, info = env.step(PUSH)
        if terminated:
            break
    assert (terminated, truncated) == (True, False)
    assert info["is_success"] is True
    assert info["final_info"]["is_success"] is True


def test_index_and_seed_of_the_episodes() -> None:
    env = make(place=1, stride=2)
    played = [
        env.reset(seed=1001)[1],
        env.reset()[1],
        env.reset(options={"episode_index": 6})[1],
        env.reset(options={"episode_index": [4, 2]})[1],
        env.reset(seed=9, options={"episode_index": 0})[1],
    ]
    assert [(info["episode_index"], info["seed"]) for info in played] == [
        (1, 1001),
        (3, 1003),
        (7, 1007),
        (2, 1002),
        (1, 9),
    ]


@pytest.mark.parametrize("asked", [-3, [1, 2, 3], "x", 1.5])
def test_an_episode_index_that_cannot_be(asked: Any) -> None:
    with pytest.raises(UsageError, match="episode_index"):
        make(place=1, stride=2).reset(seed=1, options={"episode_index": asked})


def test_without_a_seed_episodes_differ_from_environment_to_environment() -> None:
    first, second = make(), make()
    assert not same(first.reset()[0], second.reset()[0])


def test_nothing_is_there_before_a_reset_nor_after_a_close_and_a_reset_starts_again() -> None:
    env = make()
    for act in (lambda: env.step(STILL), env.render):
        with pytest.raises(ResetNeeded):
            act()
    seen, _ = env.reset(seed=5)
    assert env.render().shape == (8, 6, 3)
    env.close()
    with pytest.raises(ResetNeeded):
        env.render()
    assert same(env.reset(seed=5)[0], seen)


@pytest.mark.parametrize("where", ["build", "reset", "step", "observe"])
def test_a_simulator_that_raises_is_told_of_dropped_and_built_again(where: str, tmp_path: Path) -> None:
    env = make(scratch=str(tmp_path), mischief=f"{where}.raise!:a:*:*")

    def play() -> None:
        env.reset(seed=5)
        env.step(STILL)

    with pytest.raises(SimulatorError, match=r"a: \w+ raised RuntimeError: the simulator fell over"):
        play()
    if where == "step":
        with pytest.raises(ResetNeeded):
            env.step(STILL)
    assert same(env.reset(seed=5)[0], make().reset(seed=5)[0])


def test_nan_is_the_simulators_error() -> None:
    env = make(mischief="step.nan:a:*:2")
    env.reset(seed=5)
    env.step(STILL)
    with pytest.raises(SimulatorError, match="NaN"):
        env.step(STILL)


def test_in_lerobots_rollout_an_environment_that_is_done_stands_still() -> None:
    env = make(max_steps=2)
    env.reset(seed=1000, options={NEW_ROLLOUT: True})
    env.step(-PUSH)
    seen, reward, *_ = env.step(-PUSH)
    assert reward != 0
    again, _ = env.reset()  # what the vector environment does
    assert same(again, seen)
    for _ in range(3):
        later, reward, terminated, truncated, info = env.step(PUSH)
        assert (reward, terminated, truncated) == (0.0, False, True)
        assert same(later, seen)
        assert info["is_success"] is False
    _, info = env.reset(options={NEW_ROLLOUT: True})
    assert (info["episode_index"], info["seed"]) == (1, 1001)
    assert env.step(-PUSH)[1] != 0
    _, info = env.reset(seed=1000)
    assert info["episode_index"] == 0
    env.step(-PUSH)
    env.step(-PUSH)
    assert env.reset()[1]["episode_index"] == 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (PUSH[None], r"Expected action to be 1-D \(shape \(action_dim,\)\), but got shape \(1, 2\) with ndim=2"),
        (np.float32(1), "Expected action to be 1-D"),
        (np.ones(3), r"Expected action to have shape \(2,\), but got shape \(3,\)"),
        (np.array([1, np.inf]), "finite numbers"),
    ],
)
def test_a_wrong_action_is_the_callers_mistake(wrong: Any, words: str) -> None:
    env, other = make(), make()
    env.reset(seed=1000)
    other.reset(seed=1000)
    with pytest.raises(ValueError, match=words):
        env.step(wrong)
    assert same(env.step(PUSH)[0], other.step(PUSH)[0])


ALONE = """
import time
import numpy as np
from tiny import Tiny, TinySimulator

CALLED = []


class Alone(Tiny):
    def make_simulator(self, task):
        return Shy(task, self.settings)


def alone(method):
    def called(*arguments):
        CALLED.append(1)
        assert len(CALLED) == 1, "two simulators were called at once"
        time.sleep(0.002)
        try:
            return method(*arguments)
        finally:
            CALLED.pop()

    return called


class Shy(TinySimulator):
    reset, step, close = alone(TinySimulator.reset), alone(TinySimulator.step), alone(TinySimulator.close)
"""


def test_simulators_of_one_process_are_called_one_at_a_time_from_whatever_threads(tmp_path: Path) -> None:
    file = tmp_path / "alone.py"
    file.write_text(ALONE)
    settings = make_env_config(f"{file}:Alone", task="a,b", max_steps=5)
    envs = [group[0] for group in settings.create_envs(2).values()]

    def play(env: Any) -> None:
        env.reset(seed=1)
        for _ in range(10):
            env.step(np.stack([STILL, STILL]))
        env.close()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(play, envs))
