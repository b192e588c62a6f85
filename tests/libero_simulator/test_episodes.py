"""LIBERO's own code on miniature assets: an episode depends on itself alone, and looking changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from libero_assets import ARTICULATED, IN_A_DRAWER, PICK_AND_PLACE
from libero_rollout import EVERY, STEPS
from proctor.benchmarks.rendering import NO_GL

SCRIPT = Path(__file__).parents[1] / "support" / "libero_rollout.py"
TASKS = [PICK_AND_PLACE, ARTICULATED, IN_A_DRAWER]

Rollouts = Callable[..., list[dict[str, Any]]]


def name(task: tuple[str, int], index: int) -> str:
    return f"{task[0]}:{task[1]}:{index}"


@pytest.fixture(scope="module")
def roll(assets: Path) -> Rollouts:
    """Return a function that runs episodes one after the other in a fresh process; the same ones only once."""

    @cache
    def run(route: str, *episodes: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, str(SCRIPT), route, str(assets), *episodes],
            env={**os.environ, **(NO_GL if route == "blind" else {})},
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            check=True,
            timeout=280,
        )
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    return run


@pytest.mark.parametrize("task", TASKS, ids=[f"{suite}-{number}" for suite, number in TASKS])
def test_pictures_states_and_rewards_are_those_of_libero_as_lerobot_uses_it(
    task: tuple[str, int], roll: Rollouts
) -> None:
    [theirs] = roll("theirs", name(task, 1))
    ours = roll("looks", *[name(each, 1) for each in TASKS])[TASKS.index(task)]
    assert list(map(int, ours["images"])) == list(range(0, STEPS + 1, EVERY))
    for step, images in ours["images"].items():
        assert images == theirs["images"][step]
        state, reference = np.array(ours["states"][step]), np.array(theirs["states"][step])
        assert np.array_equal(state[[0, 1, 2, 6, 7]], reference[[0, 1, 2, 6, 7]])
        assert np.allclose(state[3:6], reference[3:6], atol=1e-5)
    assert ours["rewards"] == theirs["rewards"]
    assert ours["physics"] == theirs["physics"]
    assert not ours["dark"]


def test_a_look_shows_what_a_run_that_looks_always_shows(roll: Rollouts) -> None:
    [always] = roll("always", name(PICK_AND_PLACE, 1))
    ours = roll("looks", *[name(task, 1) for task in TASKS])[0]
    assert all(images == always["images"][step] for step, images in ours["images"].items())
    assert all(state == always["states"][step] for step, state in ours["states"].items())
    assert ours["physics"] == always["physics"]
    assert len({str(images) for images in always["images"].values()}) == STEPS + 1


def test_an_episode_is_the_same_in_a_fresh_process_and_after_other_tasks_and_episodes(roll: Rollouts) -> None:
    fresh = roll("looks", *[name(task, 1) for task in TASKS])
    # Backwards, each after another episode of its own task; the drawer task is the one with a memory of its own.
    order = [name(task, index) for task in reversed(TASKS) for index in (0, 7, 1)]
    used = roll("looks", *order)
    assert used[2::3] == fresh[::-1]
    assert len({episode["physics"] for episode in used}) == len(order)


def test_without_any_gl_the_physics_are_the_same(roll: Rollouts) -> None:
    blind = roll("blind", *[name(task, 1) for task in TASKS])
    seeing = roll("looks", *[name(task, 1) for task in TASKS])
    for without, with_gl in zip(blind, seeing, strict=True):
        assert without["physics"] == with_gl["physics"]
        assert without["states"] == with_gl["states"]
        assert without["rewards"] == with_gl["rewards"]


def test_episodes_beyond_the_initial_states_begin_with_the_first_again(roll: Rollouts) -> None:
    first, again = roll("blind", name(ARTICULATED, 3), name(ARTICULATED, 53))
    begin, begin_again = np.array(first["states"]["0"]), np.array(again["states"]["0"])
    assert np.allclose(begin, begin_again, atol=1e-4)
    assert first["physics"] != again["physics"]  # other actions, and the fixtures' places come from the seed
