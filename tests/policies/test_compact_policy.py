"""Compact policies: those that come with Proctor do what their model cards say, and none does what it cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import model_card
import pytest

import proctor
from compact_checkpoints import made_checkpoint
from harness import SUPPORT, digests, run_cli
from proctor.errors import UsageError
from proctor.policies.compact.policy import CHECKPOINTS
from proctor.results import ScoredRun

MT50 = CHECKPOINTS / "metaworld-mt50"
PIXELS = CHECKPOINTS / "metaworld-mt10-pixels"
TINY = f"{SUPPORT / 'tiny.py'}:Tiny"


def check_card(checkpoint: Path, run: Path) -> None:
    """Every outcome is the card's; every digest too, where trajectories can be the same."""
    card, found = (
        json.loads((checkpoint / model_card.OUTCOMES).read_text()),
        model_card.outcomes(ScoredRun.open(run)),
    )
    words, equal = model_card.check(card, found)
    assert equal, words
    if card["surroundings"] == found["surroundings"]:
        for name, task in found["tasks"].items():
            places = [card["tasks"][name]["seeds"].index(seed) for seed in task["seeds"]]
            assert task["digests"] == [card["tasks"][name]["digests"][place] for place in places], name


def test_the_state_policy_does_what_its_card_says(tmp_path: Path) -> None:
    pytest.importorskip("metaworld")
    done = run_cli("eval", "--eval.n_episodes=1", f"--output_dir={tmp_path / 'run'}")
    assert done.returncode == 0, done.stderr
    assert "policy proctor/metaworld-mt50" in done.stdout
    check_card(MT50, tmp_path / "run")


@pytest.mark.slow
def test_the_state_policy_does_all_that_its_card_says(tmp_path: Path) -> None:
    pytest.importorskip("metaworld")
    assert run_cli("eval", f"--output_dir={tmp_path / 'run'}").returncode == 0
    check_card(MT50, tmp_path / "run")


@pytest.mark.gl
@pytest.mark.parametrize(
    ("task", "episodes"), [("button-press-topdown-v3", 1), pytest.param("mt10", 2, marks=pytest.mark.slow)]
)
def test_the_pixel_policy_does_what_its_card_says(tmp_path: Path, task: str, episodes: int) -> None:
    pytest.importorskip("metaworld")
    size = ["--env.observation_height=96", "--env.observation_width=96"]
    which = ["--policy.path=proctor/metaworld-mt10-pixels", "--env.type=metaworld", f"--env.task={task}"]
    done = run_cli("eval", *which, *size, f"--eval.n_episodes={episodes}", f"--output_dir={tmp_path / 'run'}")
    assert done.returncode == 0, done.stderr
    check_card(PIXELS, tmp_path / "run")


@pytest.mark.parametrize("checkpoint", [MT50, PIXELS])
def test_a_card_lists_every_task_as_it_came_out(checkpoint: Path) -> None:
    card, outcomes = (checkpoint / "README.md").read_text(), json.loads((checkpoint / "outcomes.json").read_text())
    config = json.loads((checkpoint / "config.json").read_text())
    assert sorted(outcomes["tasks"]) == sorted(config["tasks"])
    for name, task in outcomes["tasks"].items():
        assert task["seeds"] == list(range(1000, 1010))
        assert f"| {name} | {sum(task['successes'])}/10 |" in card
    won = sum(sum(task["successes"]) for task in outcomes["tasks"].values())
    assert f"**{100 * won / (10 * len(config['tasks'])):.1f} %** ({won} of" in card
    assert config["n_action_steps"] >= 5


def test_the_checkpoints_are_small() -> None:
    size = {folder: sum(file.stat().st_size for file in folder.iterdir()) for folder in (MT50, PIXELS)}
    assert size[MT50] <= 8_000_000
    assert size[PIXELS] <= 10_000_000


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    made_checkpoint(images=False, tasks=("a", "b")).write(tmp_path)
    return tmp_path


def evaluate(policy: Path | str, place: Path, **options: Any) -> Any:
    env = {"max_steps": 12}
    given = {"benchmark": TINY, "task": "a,b", "n_episodes": 3, "env": env, "output_dir": place, **options}
    return proctor.evaluate(policy, **given)


@pytest.mark.parametrize("placement", ["central", "worker"])
def test_episodes_are_the_same_wherever_it_runs(tiny: Path, tmp_path: Path, placement: str) -> None:
    inline = evaluate(tiny, tmp_path / "inline", settings={"eval": {"use_async_envs": False}})
    there = evaluate(tiny, tmp_path / placement, settings={"policy": {"placement": placement}})
    assert digests(there.path) == digests(inline.path)


def test_a_task_that_it_was_not_trained_on_is_refused(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not trained on c\. It knows a, b"):
        evaluate(tiny, tmp_path / "run", task="a,c")


def test_a_task_may_be_known_by_its_prompt(tmp_path: Path) -> None:
    made_checkpoint(tasks=("do a", "do b")).write(tmp_path)
    assert len(evaluate(tmp_path, tmp_path / "run")) == 6


def test_pictures_of_another_size_are_refused_with_the_flags_for_the_right_one(tmp_path: Path) -> None:
    made_checkpoint(images=True).write(tmp_path)
    with pytest.raises(UsageError, match="observation_height=8"):
        evaluate(tmp_path, tmp_path / "run")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--policy.path=proctor/metaworld-mt5"], "Did you mean 'proctor/metaworld-mt50'"),
        (["--policy.type=compact", "--policy.n_action_steps=11"], "more than the 10 of chunk_size"),
        (["--policy.type=compact", "--policy.n_action_steps=0"], "--policy.n_action_steps=0"),
        (["--policy.type=compact", "--policy.path=/nowhere"], "config.json"),
    ],
)
def test_a_wrong_flag_is_one_line(flags: list[str], words: str) -> None:
    pytest.importorskip("metaworld")
    done = run_cli("eval", *flags, "--env.type=metaworld", "--env.task=reach-v3", "--eval.n_episodes=1")
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
