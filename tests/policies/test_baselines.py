"""The policies that need no training: chance, and doing nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.config.settings import PolicySettings
from proctor.engine.policy_session import PolicySession, answer, check_fit
from proctor.policies.baselines import RandomPolicy, ZeroPolicy
from proctor.policies.protocol import Policy
from proctor.types import BenchmarkSpec, Episode, Feature, Task

TASK = Task("easy", 23, "reach-v3", "reach", 500)


def benchmark(size: int = 4, low: float = -1.0, high: float = 1.0) -> BenchmarkSpec:
    features = {"observation.image": Feature((8, 8, 3), "uint8", drawn=True)}
    return BenchmarkSpec("bench", features, size, low, high)


def seats(policy: Policy, *indices: int) -> list[PolicySession]:
    return [PolicySession(policy, Episode(TASK, index, 1000 + index)) for index in indices]


@pytest.mark.parametrize("kind", [RandomPolicy, ZeroPolicy])
def test_a_baseline_fits_any_benchmark_and_nothing_is_drawn_for_it(kind: type[Policy]) -> None:
    policy = kind.from_settings(PolicySettings(), benchmark(7))
    check_fit(policy.spec, benchmark(7))
    assert policy.spec.observation_keys == ()
    assert policy.spec.action_size == 7
    assert policy.spec.fingerprint is not None
    assert policy.light


@pytest.mark.parametrize("kind", [RandomPolicy, ZeroPolicy])
def test_a_baselines_chunks_have_the_length_that_it_declares(kind: type[Policy]) -> None:
    policy = kind.from_settings(PolicySettings(), benchmark(3))
    (chunk,) = answer(policy, 3, seats(policy, 0), [({},)])
    assert chunk.shape == (policy.spec.action_steps, 3)


def test_zero_does_nothing() -> None:
    policy = ZeroPolicy(benchmark(4))
    chunks = answer(policy, 4, seats(policy, 0, 1), [({},), ({},)])
    assert [chunk.tolist() for chunk in chunks] == [[[0.0] * 4]] * 2
    assert not policy.spec.stochastic


@settings(deadline=None, max_examples=40)
@given(size=st.integers(1, 8), low=st.integers(-5, 0), width=st.integers(1, 5), index=st.integers(0, 99))
def test_random_actions_lie_in_the_action_space(size: int, low: int, width: int, index: int) -> None:
    policy = RandomPolicy(benchmark(size, float(low), float(low + width)))
    (seat,) = seats(policy, index)
    for _ in range(5):
        (chunk,) = answer(policy, size, [seat], [({},)])
        assert chunk.shape == (1, size)
        assert chunk.min() >= low
        assert chunk.max() <= low + width


def test_random_actions_fill_the_action_space_evenly() -> None:
    policy = RandomPolicy(benchmark(4, -2.0, 2.0))
    (seat,) = seats(policy, 0)
    drawn = np.concatenate([answer(policy, 4, [seat], [({},)])[0] for _ in range(500)])
    counts, _ = np.histogram(drawn, bins=8, range=(-2.0, 2.0))
    # 250 expected in each; the numbers are fixed by the seed, so this cannot fail by chance.
    assert counts.min() > 180
    assert counts.max() < 320


def test_random_says_that_it_draws() -> None:
    assert RandomPolicy(benchmark()).spec.stochastic


def test_an_episodes_random_actions_are_its_own_whoever_shares_the_batch() -> None:
    policy = RandomPolicy(benchmark())
    together, alone = seats(policy, 0, 1, 2), seats(policy, 0, 1, 2)
    for _ in range(4):
        batch = answer(policy, 4, together[::-1], [({},)] * 3)[::-1]
        single = [answer(policy, 4, [seat], [({},)])[0] for seat in alone]
        assert [chunk.tolist() for chunk in batch] == [chunk.tolist() for chunk in single]
    assert len({chunk.tobytes() for chunk in batch}) == 3
