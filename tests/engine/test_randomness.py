"""An episode's random numbers are its own: no batch, worker or neighbour can change them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.engine.randomness import episode_generator
from proctor.plan import make_plan
from proctor.types import Episode, Task

REACH, PUSH = Task("easy", 23, "reach-v3", "reach", 500), Task("hard", 4, "push-v3", "push", 500)


def draws(episode: Episode, count: int = 4) -> list[int]:
    return [int(number) for number in episode_generator(episode).integers(0, 2**63, count)]


def test_the_numbers_are_those_of_every_run_ever_stored() -> None:
    # Philox, keyed by the first 16 bytes of SHA-256 of '[1000, "reach-v3", 2]'. A change here would make
    # every stored run of a random policy impossible to repeat.
    generator = episode_generator(Episode(REACH, 2, 1002))
    assert isinstance(generator.bit_generator, np.random.Philox)
    assert [int(generator.bit_generator.random_raw()) for _ in range(3)] == [
        6884835570375102938,
        11789231905888163493,
        8042701602369731125,
    ]


@settings(deadline=None)
@given(seed=st.integers(0, 2**63), index=st.integers(0, 10**6))
def test_an_episode_draws_the_same_numbers_every_time(seed: int, index: int) -> None:
    episode = Episode(REACH, index, seed + index)
    assert draws(episode) == draws(Episode.from_wire(episode.to_wire()))


def test_no_two_episodes_of_a_plan_share_their_numbers() -> None:
    plan = make_plan([REACH, PUSH], 100, 1000)
    assert len({tuple(draws(episode, 2)) for episode in plan}) == len(plan)


def test_another_run_seed_gives_other_numbers_even_where_the_episodes_seed_is_the_same() -> None:
    assert draws(Episode(REACH, 1, 1001)) != draws(Episode(REACH, 0, 1001))


@pytest.mark.parametrize("changed", [Task("mt10", 0, "reach-v3", "other words", 100)])
def test_group_prompt_and_step_limit_do_not_matter(changed: Task) -> None:
    assert draws(Episode(changed, 3, 1003)) == draws(Episode(REACH, 3, 1003))


@settings(deadline=None, max_examples=30)
@given(order=st.lists(st.integers(0, 2), min_size=1, max_size=30))
def test_neighbours_do_not_change_what_an_episode_draws(order: list[int]) -> None:
    episodes = [Episode(REACH, 0, 5), Episode(REACH, 1, 6), Episode(PUSH, 0, 5)]
    together = [episode_generator(episode) for episode in episodes]
    drawn: list[list[float]] = [[], [], []]
    for number in order:
        drawn[number].append(together[number].normal())
    for episode, numbers in zip(episodes, drawn, strict=True):
        alone = episode_generator(episode)
        assert numbers == [alone.normal() for _ in numbers]


def test_neither_the_process_nor_its_hash_seed_matters() -> None:
    code = (
        "from proctor.types import Episode, Task\n"
        "from proctor.engine.randomness import episode_generator\n"
        "episode = Episode(Task('easy', 23, 'reach-v3', 'reach', 500), 2, 1002)\n"
        "print([int(n) for n in episode_generator(episode).integers(0, 2**63, 4)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "123"}
    )
    assert done.stdout.strip() == str(draws(Episode(REACH, 2, 1002)))
