"""What an episode draws in a batch is what it would have drawn alone after `torch.manual_seed`."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from proctor.policies.lerobot.randomness import (
    EpisodeRandomness,
    HiddenDraw,
    InseparableDraw,
    RowRandomness,
    own_generators,
    untouched_generators,
)

SEEDS = (11, 22, 33)

DRAWS: dict[str, Callable[[int], Any]] = {
    "randn": lambda rows: torch.randn(rows, 5, 2),
    "randn by size": lambda rows: torch.randn(size=(rows, 40), dtype=torch.float64),
    "rand of a tuple": lambda rows: torch.rand((rows, 3)),
    "randn_like": lambda rows: torch.randn_like(torch.zeros(rows, 6)),
    "rand_like": lambda rows: torch.rand_like(torch.zeros(rows, 6)),
    "normal by size": lambda rows: torch.normal(mean=0.5, std=2.0, size=(rows, 7)),
    "normal of tensors": lambda rows: torch.normal(torch.ones(rows, 3), torch.full((rows, 3), 0.1)),
    "multinomial": lambda rows: torch.multinomial(torch.full((rows, 9), 1.0), 4, replacement=True),
    "bernoulli": lambda rows: torch.bernoulli(torch.full((rows, 30), 0.5)),
    "in place": lambda rows: torch.empty(rows, 8).uniform_(-1, 1),
    "distribution": lambda rows: torch.distributions.Normal(torch.zeros(rows, 4), torch.ones(rows, 4)).sample(),
    "several": lambda rows: torch.cat([torch.randn(rows, 4), torch.rand(rows, 4), torch.randn(rows, 4)], dim=1),
    "generator=None": lambda rows: torch.randn((rows, 4), generator=None),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
def test_each_row_is_what_its_episode_draws_alone(draw: Callable[[int], Any]) -> None:
    alone = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        alone.append(torch.stack([draw(1)[0], draw(1)[0]]))
    episodes = [EpisodeRandomness(seed) for seed in SEEDS]
    with torch.inference_mode(), RowRandomness(episodes):
        together = torch.stack([draw(3), draw(3)], dim=1)
    assert torch.equal(together, torch.stack(alone))
    reordered = [EpisodeRandomness(seed) for seed in SEEDS[::-1]]
    with RowRandomness(reordered):
        assert torch.equal(draw(3).flip(0), torch.stack(alone)[:, 0])


def test_torchs_own_generator_is_neither_read_nor_moved() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with RowRandomness([EpisodeRandomness(1)]):
        torch.randn(4)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_draw_that_belongs_to_no_row_is_refused() -> None:
    with RowRandomness([EpisodeRandomness(1), EpisodeRandomness(2)]):
        with pytest.raises(InseparableDraw):
            torch.randn(6, 2)
        with pytest.raises(InseparableDraw):
            torch.randint(0, 5, (2, 2))


def test_threads_do_not_disturb_each_other() -> None:
    def draw(seed: int) -> Any:
        with RowRandomness([EpisodeRandomness(seed)]):
            return torch.cat([torch.randn(1, 100) for _ in range(200)])

    alone = [draw(seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(draw, range(8)))
    assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))


def test_torchs_own_generator_can_be_an_episodes_and_is_given_back() -> None:
    torch.manual_seed(3)
    expected = [torch.rand(4), torch.rand(4)]
    torch.manual_seed(8)
    before = torch.get_rng_state()
    episode = EpisodeRandomness(3)
    for one in expected:
        with own_generators(episode, "cpu"):
            assert torch.equal(torch.rand(4), one)
        assert torch.equal(torch.get_rng_state(), before)


def test_the_generators_of_python_and_numpy_are_the_episodes_too() -> None:
    random.seed(3)
    np.random.seed(3)
    expected = [(random.random(), np.random.normal()) for _ in range(2)]
    random.seed(8)
    np.random.seed(8)
    before = random.getstate()
    episode = EpisodeRandomness(3)
    for one in expected:
        with own_generators(episode, "cpu"):
            assert (random.random(), np.random.normal()) == one
        assert random.getstate() == before


HIDDEN: dict[str, Callable[[], Any]] = {
    "Python": random.random,
    "NumPy": lambda: np.random.uniform(),
    "torch": lambda: torch.nn.functional.dropout(torch.ones(9), training=True),
    "attention": lambda: torch.nn.functional.scaled_dot_product_attention(
        *[torch.ones(1, 2, 3, 4)] * 3, dropout_p=0.5
    ),
}


@pytest.mark.parametrize("draw", HIDDEN.values(), ids=HIDDEN.keys())
def test_a_draw_from_a_generator_of_the_process_is_noticed(draw: Callable[[], Any]) -> None:
    with pytest.raises(HiddenDraw), untouched_generators("cpu"):
        draw()


def test_no_draw_is_taken_for_one() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5)).eval()
    with untouched_generators("cpu"), RowRandomness([EpisodeRandomness(1)]):
        layer(torch.zeros(2, 4))
        torch.nn.functional.scaled_dot_product_attention(*[torch.ones(1, 2, 3, 4)] * 3)
        torch.randn(3)
