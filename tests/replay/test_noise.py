"""A run with noise on its actions: what is stored was executed, and whoever runs it again adds the same noise."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import THOUGHTFUL, digests, flags, run_cli, tiny_tree


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("noisy") / "run"
    tree = tiny_tree(place, task="a", n_episodes=4, env={"max_steps": 5}, eval={"noise": "0.4", "batch_size": 1})
    assert run_cli("eval", *flags(tree)).returncode == 0
    return place


def test_stored_actions_are_not_made_noisy_again(noisy: Path) -> None:
    done = run_cli("replay", str(noisy))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_policy_is_asked_under_the_same_noise(noisy: Path) -> None:
    done = run_cli("verify", str(noisy), "--sample=4", f"--policy.path={THOUGHTFUL}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 of 4 differ" in done.stdout


def test_failures_are_run_again_under_the_same_noise(noisy: Path, tmp_path: Path) -> None:
    done = run_cli("eval", f"--failed={noisy}", f"--output_dir={tmp_path / 'again'}", "--display=none")
    assert done.returncode == 0, done.stderr
    again = digests(tmp_path / "again")
    assert again
    assert again.items() <= digests(noisy).items()
