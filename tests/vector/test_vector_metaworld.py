"""Vector environments of Meta-World: pixels, in this process and in workers, and those of an evaluation."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import proctor
from harness import SUPPORT
from proctor.benchmarks.rendering import find_renderer
from proctor.errors import NoPicturesError

STEPS = 2
SIZE = {"observation_height": 48, "observation_width": 64, "episode_length": STEPS}


def actions(step: int) -> Any:
    return np.asarray([0.5, -0.3 * step, 0.2, 0.0], np.float32)


def seen(observation: Any, place: int = 0) -> str:
    parts = (np.ascontiguousarray(observation[key][place]).tobytes() for key in ("pixels", "agent_pos"))
    return hashlib.sha256(b"".join(parts)).hexdigest()


def make(task: str, n_envs: int, use_async: bool = False, **fields: Any) -> Any:
    settings = proctor.make_env_config("metaworld", task=task, **{**SIZE, **fields})
    return settings.create_envs(n_envs, use_async)


def play(env: Any) -> list[Any]:
    """Return all that one episode of each environment shows and yields."""
    observation, _ = env.reset(seed=1000)
    found: list[Any] = [[seen(observation, place) for place in range(env.num_envs)]]
    for step in range(STEPS):
        observation, reward, _, truncated, _ = env.step(np.stack([actions(step)] * env.num_envs))
        found.append(([seen(observation, place) for place in range(env.num_envs)], reward.tolist()))
    assert truncated.all()
    found.append(hashlib.sha256(b"".join(frame.tobytes() for frame in env.render())).hexdigest())
    return found


def main() -> None:
    """Print what is seen in this process, of each task alone, in turns and from other threads; run `check_env`.

    A process of its own: GL is chosen before MuJoCo is imported, and a wrong picture would be a wrong picture for
    all tests that follow.
    """
    alone = []
    for task, n_envs in (("reach-v3", 1), ("door-open-v3", 2)):
        env = make(task, n_envs)[task][0]
        alone.append(play(env))
        env.close()
    both = [made[0] for made in make("reach-v3,door-open-v3", 1).values()]
    turns: list[list[Any]] = [[seen(env.reset(seed=1000)[0])] for env in both]
    for step in range(STEPS):
        for env, looks in zip(both, turns, strict=True):
            looks.append(seen(env.step(actions(step)[None])[0]))
    with ThreadPoolExecutor(1) as another:
        elsewhere = another.submit(play, both[0]).result()
    with ThreadPoolExecutor(2) as two:
        at_once = list(two.map(play, both))
    for env in both:
        env.close()
    with warnings.catch_warnings(action="ignore"):
        check_env(make("push-v3", 1, obs_type="state", episode_length=50)["push-v3"][0].factories[0]())
    found = {
        "alone": alone,
        "turns": turns,
        "elsewhere": elsewhere,
        "at_once": at_once,
        "gl": os.environ["MUJOCO_GL"],
    }
    sys.stdout.write(json.dumps(found))


@pytest.fixture(scope="module")
def here() -> Any:
    try:
        find_renderer()
    except NoPicturesError as error:
        pytest.skip(str(error))
    env = {key: value for key, value in os.environ.items() if key not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    env["PYTHONPATH"] = os.pathsep.join([str(SUPPORT), *sys.path])
    done = subprocess.run([sys.executable, __file__], env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.gl
def test_a_gl_is_chosen_where_nobody_has(here: Any) -> None:
    assert here["gl"] in ("egl", "osmesa")


@pytest.mark.gl
def test_tasks_that_draw_in_turns_in_one_process_draw_what_they_draw_alone(here: Any) -> None:
    for turns, (first, *steps, _) in zip(here["turns"], here["alone"], strict=True):
        assert turns == [first[0], *(looks[0] for looks, _ in steps)]
    assert here["turns"][0] != here["turns"][1]


@pytest.mark.gl
def test_another_thread_may_go_on_with_an_environment(here: Any) -> None:
    assert here["elsewhere"] == here["alone"][0]


@pytest.mark.gl
def test_threads_that_step_and_draw_at_once_see_what_each_sees_alone(here: Any) -> None:
    reach, door = here["at_once"]
    assert reach == here["alone"][0]
    first, *steps, _ = here["alone"][1]
    assert door[:-1] == [[first[0]], *([[looks[0]], [rewards[0]]] for looks, rewards in steps)]


@pytest.mark.gl
def test_workers_show_the_same_bits(here: Any) -> None:
    env = make("door-open-v3", 2, use_async=True)["door-open-v3"][0]
    try:
        assert json.loads(json.dumps(play(env))) == here["alone"][1]
    finally:
        env.close()


class Scripted:
    """Acts by the number of the step; remembers what it saw in which episode."""

    saw: ClassVar[list[list[str]]] = []

    def reset(self) -> None:
        self._own: list[str] = []
        Scripted.saw.append(self._own)

    def act(self, observation: Any) -> Any:
        named = {
            "pixels": observation["observation.image"][None],
            "agent_pos": observation["observation.state"][None],
        }
        self._own.append(seen(named))
        return actions(len(self._own) - 1)


@pytest.mark.gl
def test_an_evaluation_sees_the_same_bits_and_gives_the_same_rewards(here: Any, tmp_path: Path) -> None:
    Scripted.saw.clear()
    result = proctor.evaluate(
        Scripted(),
        task="door-open-v3",
        n_episodes=2,
        workers=1,
        env=SIZE,
        display="none",
        output_dir=tmp_path / "run",
    )
    first, *steps, _ = here["alone"][1]
    for place, record in enumerate(result):
        assert Scripted.saw[place] == [first[place], *(looks[place] for looks, _ in steps[:-1])]
        assert record.sum_reward == pytest.approx(sum(rewards[place] for _, rewards in steps), rel=1e-12)
        assert record.steps == STEPS


if __name__ == "__main__":
    main()
