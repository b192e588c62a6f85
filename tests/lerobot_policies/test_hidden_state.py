"""Whatever a policy keeps, and wherever: an episode's actions are those of LeRobot's own loop on it alone."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import digests
from hidden_policies import STEPS, Asking, lerobots_actions, load_hidden, proctors_actions, save_hidden
from lerobot_runs import evaluate

EPISODES = (0, 1, 2)

STATEFUL = (
    "a step counter",
    "blending across chunks",
    "noise from the third pass",
    "an in-place buffer",
    "moving weights",
)
STATELESS = ("nothing", "a race", "bits of its threads")
RANDOM = ("NumPy's random numbers", "Python's random numbers", "dropout in attention")


@pytest.mark.parametrize("hides", [*STATELESS, *STATEFUL, *RANDOM])
def test_interleaved_episodes_act_as_in_lerobots_own_loop(hides: str, tmp_path: Path) -> None:
    checkpoint = save_hidden(tmp_path / "checkpoint", hides)
    found = proctors_actions(load_hidden(checkpoint), EPISODES)
    for episode in EPISODES:
        assert found[episode] == lerobots_actions(checkpoint, episode), f"episode {episode}"


@pytest.mark.parametrize("hides", STATEFUL)
def test_a_policy_with_a_state_takes_the_slow_way_and_the_run_says_why(hides: str, tmp_path: Path) -> None:
    policy = load_hidden(save_hidden(tmp_path / "checkpoint", hides))
    assert policy.spec.action_steps == 1
    assert any("copy of the policy" in note for note in policy.spec.notes), policy.spec.notes


def test_a_policy_without_one_is_still_asked_by_chunks(tmp_path: Path) -> None:
    for hides in STATELESS:
        policy = load_hidden(save_hidden(tmp_path / hides, hides))
        assert (policy.spec.action_steps, policy.spec.notes) == (4, ()), hides


@pytest.mark.parametrize("hides", ["a race", "an in-place buffer", "noise from the third pass"])
def test_lanes_side_by_side_do_not_meet_in_the_policy(hides: str, tmp_path: Path) -> None:
    checkpoint = save_hidden(tmp_path / "checkpoint", hides)
    policy = load_hidden(checkpoint)

    def play(episode: int) -> list[bytes]:
        asking = Asking(policy, episode)
        while len(asking.actions) < STEPS:
            asking.ask()
        return asking.actions[:STEPS]

    with ThreadPoolExecutor(policy.spec.lanes) as pool:
        found = list(pool.map(play, EPISODES))
    assert found == [lerobots_actions(checkpoint, episode) for episode in EPISODES]


@pytest.mark.parametrize("hides", [*RANDOM, "noise from the third pass"])
def test_random_numbers_from_anywhere_make_a_policy_stochastic(hides: str, tmp_path: Path) -> None:
    spec = load_hidden(save_hidden(tmp_path / "checkpoint", hides)).spec
    assert spec.stochastic
    assert spec.reproducible


def test_random_numbers_that_cannot_be_seeded_are_said(tmp_path: Path) -> None:
    spec = load_hidden(save_hidden(tmp_path / "checkpoint", "the machine's entropy")).spec
    assert not spec.reproducible
    assert any("not reproducible" in note for note in spec.notes), spec.notes


def test_random_numbers_that_begin_after_the_rehearsal_end_the_run(tmp_path: Path) -> None:
    policy = load_hidden(save_hidden(tmp_path / "checkpoint", "noise at an open gripper"))
    with pytest.raises(Exception, match="random numbers from the generator of NumPy"):
        proctors_actions(policy, EPISODES)


@pytest.mark.parametrize("hides", ["nothing", "an in-place buffer"])
def test_what_an_episode_had_is_freed_with_it(hides: str, tmp_path: Path) -> None:
    from lerobot.policies.pretrained import PreTrainedPolicy

    policy = load_hidden(save_hidden(tmp_path / "checkpoint", hides))

    def policies() -> int:
        return sum(issubclass(type(one), PreTrainedPolicy) for one in gc.get_objects())

    proctors_actions(policy, (0,))
    gc.collect()
    gc.disable()
    try:
        before = policies()
        proctors_actions(policy, (1, 2, 3))
        assert policies() == before
        asking = Asking(policy, 4)
        asking.ask()
        memory = weakref.ref(asking.memory)
        del asking
        assert memory() is None
        assert policies() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("hides", ["a step counter", "noise from the third pass", "NumPy's random numbers"])
def test_any_number_of_workers_gives_the_same_run(hides: str, tmp_path: Path) -> None:
    checkpoint = save_hidden(tmp_path / "checkpoint", hides)
    one = evaluate(tmp_path / "one", checkpoint, eval={"n_episodes": 2, "batch_size": 1})
    four = evaluate(tmp_path / "four", checkpoint, eval={"n_episodes": 2, "batch_size": 4})
    assert digests(one) == digests(four)
