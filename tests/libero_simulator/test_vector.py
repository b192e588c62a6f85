"""LIBERO as vector environments: in this process and in workers the same, and the episodes of an evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import proctor
from libero_assets import PICK_AND_PLACE
from tiny_vectors import stop_fork_server

SUITE, TASK = PICK_AND_PLACE
STEPS = 4
FIELDS: dict[str, Any] = {
    "task": SUITE,
    "task_ids": (TASK,),
    "observation_height": 48,
    "observation_width": 64,
    "episode_length": STEPS,
}


class Steady:
    """Does the same in every step; remembers what it saw in which episode."""

    action: ClassVar[Any] = np.array([0.3, -0.2, 0.4, 0.1, 0.0, -0.1, -1.0], np.float32)
    saw: ClassVar[list[list[Any]]] = []

    def reset(self) -> None:
        self._own: list[Any] = []
        Steady.saw.append(self._own)

    def act(self, observation: Any) -> Any:
        keys = ("observation.state", "observation.images.image", "observation.images.image2")
        self._own.append([observation[key].copy() for key in keys])
        return self.action


def config(assets: Path, **fields: Any) -> Any:
    return proctor.make_env_config("libero", **{**FIELDS, "assets_path": str(assets), **fields})


def action(n: int) -> Any:
    return np.tile(Steady.action, (n, 1))


def play(env: Any) -> list[Any]:
    """Return all that one episode of each shows and yields, the beginning of the next one included."""
    observation, info = env.reset(seed=1000)
    assert (info["episode_index"].tolist(), info["seed"].tolist()) == ([0, 1], [1000, 1001])
    seen = [observation]
    rewards = []
    for _ in range(STEPS):
        observation, reward, _, truncated, info = env.step(action(env.num_envs))
        seen.append(observation)
        rewards.append(reward.tolist())
    assert truncated.all()
    assert info["final_info"]["is_success"].tolist() == [False, False]
    seen.append(env.reset()[0])
    return [rewards, *([value.tolist() for value in flat(each)] for each in seen)]


def flat(observation: Any) -> list[Any]:
    return [observation["agent_pos"], observation["pixels"]["image"], observation["pixels"]["image2"]]


@pytest.fixture(scope="module")
def here(assets: Path) -> Any:
    env = config(assets).create_envs(2)[SUITE][TASK]
    assert env.call("task_description")[0].startswith("pick up the black bowl")
    found = play(env)
    frame = env.render()[0]
    env.close()
    assert frame.shape == (48, 64, 3)
    return found


def test_workers_show_the_same_bits(here: Any, assets: Path) -> None:
    env = config(assets).create_envs(2, use_async_envs=True)[SUITE][TASK]
    try:
        assert play(env) == here
    finally:
        env.close()
        stop_fork_server()


def test_every_episode_begins_in_its_own_initial_state(here: Any) -> None:
    first, following = here[1], here[-1]
    pictures = [str(picture) for picture in (*first[1], *following[1])]
    assert len(set(pictures)) == 4


def test_an_evaluation_sees_the_same_bits_and_gives_the_same_rewards(
    here: Any, assets: Path, tmp_path: Path
) -> None:
    Steady.saw.clear()
    result = proctor.evaluate(
        Steady(),
        benchmark="libero",
        task=SUITE,
        n_episodes=2,
        workers=1,
        env={**{name: value for name, value in FIELDS.items() if name != "task"}, "assets_path": str(assets)},
        display="none",
        output_dir=tmp_path / "run",
    )
    rewards, *looks = here
    for place, record in enumerate(result):
        expected = [[parts[place] for parts in look] for look in looks[:STEPS]]
        assert [[part.tolist() for part in saw] for saw in Steady.saw[place]] == expected
        assert record.sum_reward == pytest.approx(sum(step[place] for step in rewards))


def test_a_wrong_action_leaves_the_simulator_where_it_is(here: Any, assets: Path) -> None:
    env = config(assets).create_envs(2)[SUITE][TASK]
    env.reset(seed=1000)
    with pytest.raises(ValueError, match=r"Expected action to have shape \(7,\)"):
        env.step(np.zeros((2, 8)))
    assert [value.tolist() for value in flat(env.step(action(2))[0])] == here[2]
    env.close()
