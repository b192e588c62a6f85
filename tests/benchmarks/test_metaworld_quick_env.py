"""The quick environments yield what Meta-World's own do, bit for bit, and leave those alone."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from harness import SUPPORT
from proctor.benchmarks.metaworld.environments import stock_class
from proctor.benchmarks.metaworld.tasks import MT50


def episodes(route: str, steps: int, plays: str, *tasks: str) -> list[str]:
    """Return a line per episode, with the digest of all that it yielded."""
    command = [sys.executable, str(SUPPORT / "metaworld_episodes.py"), route, str(steps), plays, *tasks]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def both(steps: int, plays: str, *tasks: str) -> tuple[list[str], list[str]]:
    with ThreadPoolExecutor(2) as threads:
        quick, stock = threads.map(lambda route: episodes(route, steps, plays, *tasks), ("quick", "stock"))
    return quick, stock


# With a matrix for a turn, two objects, a caging reward of its own or of each density, a hand that lands elsewhere
# with every layout, a Gaussian reward and a joint, the norm of a number.
SAMPLE = (
    "pick-place-v3", "stick-push-v3", "soccer-v3", "assembly-v3", "hammer-v3", "shelf-place-v3", "door-lock-v3",
    "dial-turn-v3", "handle-press-v3",
)  # fmt: skip


def test_quick_episodes_equal_meta_worlds_own_in_every_bit() -> None:
    quick, stock = both(60, "expert:3,float32:4,expert:3", *SAMPLE)
    assert quick == stock
    assert len(set(quick)) == 2 * len(SAMPLE)  # the first episode and the third are one and the same


@pytest.mark.slow
def test_quick_episodes_equal_meta_worlds_own_on_all_fifty_tasks_over_whole_episodes() -> None:
    quick, stock = both(500, "expert:0,float32:1,expert:2,float64:3,wild:4", *MT50)
    assert quick == stock
    assert len(set(quick)) == 5 * len(MT50)


def test_a_quick_environment_changes_nothing_for_others_in_the_process() -> None:
    from metaworld import sawyer_xyz_env
    from metaworld.utils import reward_utils

    from proctor.benchmarks.metaworld.quick_env import quick_class

    stock = stock_class("pick-place-v3")
    before = dict(vars(stock)), dict(vars(sawyer_xyz_env)), dict(vars(reward_utils)), np.linalg.norm, np.clip
    quick = quick_class(stock)
    assert (
        dict(vars(stock)), dict(vars(sawyer_xyz_env)), dict(vars(reward_utils)), np.linalg.norm, np.clip
    ) == before  # fmt: skip
    assert quick is not stock
    assert not issubclass(quick, stock)
    assert stock_class("pick-place-v3") is stock


def make_env(quick: bool) -> Any:
    from proctor.benchmarks.metaworld.quick_env import quick_class

    stock = stock_class("reach-v3")
    return (quick_class(stock) if quick else stock)()


def begin(env: Any) -> None:
    env._set_task_called, env._freeze_rand_vec, env.seeded_rand_vec = True, False, True
    env.seed(1)
    env.reset()


def complaint(env: Any, action: Any) -> str:
    with pytest.raises((RuntimeError, ValueError, AssertionError)) as caught:
        env.step(action)
    return f"{type(caught.value).__name__}: {caught.value}"


def test_a_quick_environment_refuses_what_meta_worlds_own_does_in_its_words() -> None:
    found: list[list[str]] = []
    for quick in (True, False):
        env = make_env(quick)
        words = [complaint(env, np.zeros(4))]
        begin(env)
        words.append(complaint(env, np.zeros(3)))
        env.curr_path_length = env.max_path_length
        words.append(complaint(env, np.zeros(4)))
        found.append(words)
    assert found[0] == found[1]


def test_a_layout_without_a_reset_is_meta_worlds_own_too() -> None:
    found = []
    for quick in (True, False):
        env = make_env(quick)
        begin(env)
        for _ in range(3):
            env.step(np.full(4, 0.5))
        found.append(env.reset_model().tobytes())
    assert found[0] == found[1]


def test_a_quick_environment_that_nobody_needs_any_more_is_freed_with_its_model_and_data() -> None:
    env = make_env(quick=True)
    begin(env)
    env.step(np.zeros(4))
    left = weakref.ref(env), weakref.ref(env.data)
    env.close()
    del env
    gc.collect()
    assert [reference() for reference in left] == [None, None]
