"""Vector environments of Meta-World: pixels, in this process and in workers, and those of an evaluation."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import TESTS

import proctor
from proctor.benchmarks.gl import find_renderer
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
    """Print what is seen in this process, of each task alone, in turns, and from another thread.

    A process of its own: GL is chosen before MuJoCo is imported, and a wrong picture would be a wrong picture for
    all tests that follow.
    """
    tasks = ("reach-v3", "door-open-v3")
    alone = []
    for task in tasks:
        env = make(task, 2)[task][0]
        alone.append(play(env))
        env.close()
    both = [made[0] for made in make(",".join(tasks), 2).values()]
    turns = [[[seen(env.reset(seed=1000)[0], place) for place in range(2)]] for env in both]
    for step in range(STEPS):
        for env, found in zip(both, turns, strict=True):
            observation, reward, *_ = env.step(np.stack([actions(step)] * 2))
            found.append(([seen(observation, place) for place in range(2)], reward.tolist()))
    with ThreadPoolExecutor(1) as another:
        elsewhere = another.submit(play, both[0]).result()
    for env in both:
        env.close()
    print(json.dumps({"alone": alone, "turns": turns, "elsewhere": elsewhere, "gl": os.environ["MUJOCO_GL"]}))


@pytest.fixture(scope="module")
def here() -> Any:
    try:
        find_renderer()
    except NoPicturesError as error:
        pytest.skip(str(error))
    env = {key: value for key, value in os.environ.items() if key not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    env["PYTHONPATH"] = os.pathsep.join([str(TESTS), *sys.path])
    done = subprocess.run([sys.executable, __file__], env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.gl
def test_a_gl_is_chosen_where_nobody_has(here: Any) -> None:
    assert here["gl"] in ("egl", "osmesa")


@pytest.mark.gl
def test_tasks_that_draw_in_turns_in_one_process_draw_what_they_draw_alone(here: Any) -> None:
    assert here["turns"] == [found[:-1] for found in here["alone"]]
    assert len({found[0][0] for found in here["alone"]}) == 2


@pytest.mark.gl
def test_another_thread_may_go_on_with_an_environment(here: Any) -> None:
    assert here["elsewhere"] == here["alone"][0]


@pytest.mark.gl
def test_workers_show_the_same_bits(here: Any) -> None:
    env = make("door-open-v3", 2, use_async=True)["door-open-v3"][0]
    try:
        assert json.loads(json.dumps(play(env))) == here["alone"][1]
    finally:
        env.close()


class Scripted:
    """Acts by the number of the step; remembers what it saw in which episode."""

    saw: list[list[str]] = []

    def reset(self) -> None:
        self._own: list[str] = []
        Scripted.saw.append(self._own)

    def act(self, observation: Any) -> Any:
        named = {"pixels": observation["observation.image"][None], "agent_pos": observation["observation.state"][None]}
        self._own.append(seen(named))
        return actions(len(self._own) - 1)


@pytest.mark.gl
def test_an_evaluation_sees_the_same_bits_and_gives_the_same_rewards(here: Any, tmp_path: Path) -> None:
    Scripted.saw.clear()
    result = proctor.evaluate(
        Scripted(), task="reach-v3", n_episodes=2, workers=1, env=SIZE, display="none", output_dir=tmp_path / "run"
    )
    first, *steps, _ = here["alone"][0]
    for place, record in enumerate(result):
        assert Scripted.saw[place] == [first[place], *(looks[place] for looks, _ in steps[:-1])]
        assert record.sum_reward == pytest.approx(sum(rewards[place] for _, rewards in steps), rel=1e-12)
        assert record.steps == STEPS


@pytest.mark.gl
def test_gymnasiums_own_checker_is_content_with_meta_world(here: Any, tmp_path: Path) -> None:
    script = tmp_path / "check.py"
    script.write_text(
        "import proctor\n"
        "from gymnasium.utils.env_checker import check_env\n"
        "env = proctor.make_env_config('metaworld', task='push-v3', obs_type='state').create_envs(1)['push-v3'][0]\n"
        "check_env(env.factories[0]())\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", str(script)], check=True, timeout=120)


if __name__ == "__main__":
    main()
