"""The queueing model keeps to the laws that every such network obeys."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.tuning.model import Round, Service, asks_per_second

NEAR = 0.1
"""What the play of chance and the short time leave open."""

seconds = st.floats(1e-4, 0.5)


def test_one_worker_takes_one_round_after_the_other() -> None:
    assert asks_per_second(Round(0.1, gpu=0.02, delay=0.03), None, 1, 4) == pytest.approx(1 / 0.15, rel=NEAR)


def test_workers_add_up_until_the_cores_are_busy() -> None:
    rates = [asks_per_second(Round(0.1), None, workers, 4) for workers in (1, 2, 4, 8)]
    assert rates == pytest.approx([10, 20, 40, 40], rel=NEAR)


def test_a_wait_for_nothing_of_ours_is_filled_by_more_workers() -> None:
    rates = [asks_per_second(Round(0.1, delay=0.3), None, workers, 4) for workers in (4, 8, 32)]
    assert rates == pytest.approx([10, 20, 40], rel=NEAR)


def test_drawing_and_inference_share_one_gpu() -> None:
    rate = asks_per_second(Round(0.001, gpu=0.004), Service(rows=16, lanes=2, gpu=0.016), 64, 16)
    assert rate == pytest.approx(1 / (0.004 + 0.016 / 16), rel=NEAR)


def test_a_policy_on_the_cores_takes_its_share_of_them() -> None:
    rate = asks_per_second(Round(0.15), Service(rows=1, lanes=2, core=0.1), 4, 2)
    assert rate == pytest.approx(2 / 0.25, rel=NEAR)


def test_one_lane_answers_one_after_the_other() -> None:
    assert asks_per_second(Round(0.001), Service(1, 1, delay=0.02), 16, 16) == pytest.approx(50, rel=NEAR)
    assert asks_per_second(Round(0.001), Service(8, 1, delay=0.02), 16, 16) == pytest.approx(400, rel=NEAR)


@settings(deadline=None, max_examples=200)
@given(
    core=seconds,
    gpu=st.just(0.0) | seconds,
    delay=st.just(0.0) | seconds,
    service=st.none()
    | st.builds(
        Service,
        rows=st.sampled_from([1, 4, 16]),
        lanes=st.integers(1, 4),
        core=st.just(0.0) | seconds,
        gpu=st.just(0.0) | seconds,
        delay=seconds,
    ),
    workers=st.integers(1, 40),
    cores=st.integers(1, 16),
)
def test_no_resource_gives_more_than_it_has(
    core: float, gpu: float, delay: float, service: Service | None, workers: int, cores: int
) -> None:
    rate = asks_per_second(Round(core, gpu, delay), service, workers, cores)
    alone = core + gpu + delay
    bounds = [cores / core, *([1 / gpu] if gpu else [])]
    if service is not None:
        taken = service.core + service.gpu + service.delay
        alone += taken
        bounds += [
            cores / (core + service.core / service.rows),
            service.rows * service.lanes / taken,
        ]
        if gpu + service.gpu:
            bounds.append(1 / (gpu + service.gpu / service.rows))
    bounds.append(workers / alone)
    # 24 rounds a worker, each of a length that varies.
    assert 0 < rate <= min(bounds) * 1.35


@settings(deadline=None, max_examples=60)
@given(core=seconds, service=st.floats(0.001, 0.1), cores=st.integers(1, 8), workers=st.integers(1, 16))
def test_more_workers_never_do_harm_where_nothing_is_batched(
    core: float, service: float, cores: int, workers: int
) -> None:
    one = Service(1, cores, core=service)
    few, many = (asks_per_second(Round(core), one, count, cores) for count in (workers, 2 * workers))
    assert many >= few * (1 - 2 * NEAR)


def test_the_same_question_gets_the_same_answer() -> None:
    asked = (Round(0.01, 0.002), Service(8, 2, gpu=0.01), 24, 8)
    assert asks_per_second(*asked) == asks_per_second(*asked)
