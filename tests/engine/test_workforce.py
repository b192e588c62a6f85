"""Where a policy runs, by what it was measured to cost, and how many workers a run begins with."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proctor.engine.workforce import choose_placement, worker_range
from proctor.policies.protocol import Cost

CHEAP = Cost(load=0.2, act=0.002, side_by_side=1.0, memory=1 << 20)
PLENTY = 1 << 40


def test_an_unmeasured_policy_is_served_by_one_host() -> None:
    assert choose_placement(None, 1e6, 8, 8, PLENTY) == "central"


def test_a_cheap_load_and_much_to_do_make_copies_worth_it() -> None:
    assert choose_placement(CHEAP, 1e5, 8, 8, PLENTY) == "worker"


def test_a_dear_load_does_not_pay_for_a_short_run() -> None:
    assert choose_placement(CHEAP._replace(load=15.0), 1e3, 8, 8, PLENTY) == "central"


def test_lanes_that_really_run_side_by_side_need_no_copies() -> None:
    busy = CHEAP._replace(act=0.05, side_by_side=8.0, load=15.0)
    assert choose_placement(busy, 1e4, 8, 8, PLENTY) == "central"
    assert choose_placement(busy._replace(side_by_side=1.0), 1e4, 8, 8, PLENTY) == "worker"


def test_copies_that_do_not_fit_into_memory_are_not_made() -> None:
    assert choose_placement(CHEAP._replace(memory=1 << 30), 1e6, 8, 8, free_memory=4 << 30) == "central"


@given(st.floats(1, 1e7), st.integers(1, 64), st.integers(1, 64))
def test_more_to_do_never_speaks_against_copies(asks: float, workers: int, cores: int) -> None:
    if choose_placement(CHEAP, asks, workers, cores, PLENTY) == "worker":
        assert choose_placement(CHEAP, 2 * asks, workers, cores, PLENTY) == "worker"


@given(
    asked=st.integers(0, 200),
    episodes=st.integers(1, 200),
    cores=st.integers(1, 64),
    memory=st.integers(0, 1 << 38),
    files=st.integers(0, 1 << 20),
    on_gpu=st.booleans(),
)
def test_there_are_never_more_workers_than_episodes_and_never_none(
    asked: int, episodes: int, cores: int, memory: int, files: int, on_gpu: bool
) -> None:
    crew = worker_range(asked, episodes, cores, memory, files, on_gpu)
    assert 1 <= crew.start <= crew.most <= episodes
    if asked:
        assert crew == (min(asked, episodes),) * 2


def test_a_gpu_is_kept_busy_by_more_workers_than_cores() -> None:
    assert worker_range(0, 1000, 16, PLENTY, PLENTY, on_gpu=True) == (24, 64)
    assert worker_range(0, 1000, 16, PLENTY, PLENTY, on_gpu=False) == (16, 64)


def test_little_memory_means_few_workers() -> None:
    assert worker_range(0, 1000, 16, 2 << 30, PLENTY, on_gpu=True).most == 5


def test_few_descriptors_mean_few_workers() -> None:
    assert worker_range(0, 1000, 64, PLENTY, files=1024, on_gpu=True) == (96, 120)
