"""What is too long, too little, or no text has a defined outcome, and the right one is blamed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness import SUPPORT, flags, run_cli, tiny_tree
from proctor.store.episodes import EpisodeTable

POLICIES = SUPPORT / "tiny_policies.py"


def test_text_that_is_no_unicode_costs_no_more_than_other_text(tmp_path: Path) -> None:
    mischief = {"mischief": "step.surrogate:a:1:1"}
    tree = tiny_tree(tmp_path / "run", env=mischief, eval={"max_attempts": 2}, display="plain")
    done = run_cli("eval", *flags(tree))
    assert done.returncode == 3, done.stderr
    assert "caf\\udce9" in done.stdout
    with EpisodeTable(tmp_path / "run" / "run.sqlite", read_only=True) as table:
        assert all("caf\\udce9" in attempt.reason for attempt in table.attempts())


@pytest.mark.parametrize("placement", ["central", "worker"])
def test_a_policys_error_whose_own_words_exit_is_the_policys(tmp_path: Path, placement: str) -> None:
    policy = {"path": f"{POLICIES}:Faulty", "kwargs": '{"how": "mute"}', "placement": placement}
    done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", policy=policy)))
    assert done.returncode == 1
    assert "the policy raised MuteError: (its message cannot be shown) (task" in done.stderr


def test_an_order_of_any_length_arrives(tmp_path: Path) -> None:
    names = ",".join(["a", *(f"{'n' * 500}{number}" for number in range(400))])
    tree = tiny_tree(tmp_path / "run", n_episodes=1, env={"max_steps": 1}, eval={"batch_size": 1})
    del tree["env"]["task"]
    (tmp_path / "long.yaml").write_text(f"env: {{task: '{names}'}}\n")
    done = run_cli("eval", f"--config_path={tmp_path / 'long.yaml'}", *flags(tree))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("task", "words"), [("x" * 70_000, "at most 60,000 fit"), ("a\udcff", "is not Unicode text")]
)
def test_a_task_that_cannot_be_named_is_refused(tmp_path: Path, task: str, words: str) -> None:
    done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", task=task)))
    assert done.returncode == 2, done.stderr
    assert words in done.stderr


@pytest.mark.parametrize(("limit", "words"), [("-f 1", "ulimit -f unlimited"), ("-v 400000", "ulimit -v")])
def test_what_is_too_little_is_named(tmp_path: Path, limit: str, words: str) -> None:
    policy = {"path": f"{POLICIES}:plain", "placement": "worker"}
    command = [sys.executable, "-m", "proctor", "eval", *flags(tiny_tree(tmp_path / "run", policy=policy))]
    done = subprocess.run(
        ["sh", "-c", f'ulimit {limit}; exec "$@"', "sh", *command], capture_output=True, text=True, timeout=120
    )
    assert done.returncode in (1, 2), done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
