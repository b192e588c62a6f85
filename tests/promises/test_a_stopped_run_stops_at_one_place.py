"""A command with a rule stops at one place: a function of its episodes' outcomes, not of when they were finished.

Every run here is a real command on a simulator that fails in one session and works in the next. It must come to
what the same command comes to on a simulator that never fails.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from harness import SUPPORT, flags, run_cli, start_cli, stored, tiny_tree, wait_until

FAILS = " ".join(f"step.raise:a:{index}:1" for index in (0, 3, 4, 9, 11))


def arguments(directory: Path, mischief: str = "", **eval_: Any) -> list[str]:
    settings = {"stop_when": "ci<=0.15", "max_attempts": 1, **eval_}
    env = {"max_steps": 8, "mischief": mischief}
    return flags(tiny_tree(directory, task="a", n_episodes=400, env=env, eval=settings))


def command(directory: Path, mischief: str = "", **eval_: Any) -> int:
    return run_cli("eval", *arguments(directory, mischief, **eval_)).returncode


def result(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "eval_info.json").read_text())
    return found


def stop(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = result(directory)["run"]["stopped"]
    return found


def outcomes(directory: Path) -> list[tuple[int, str, bool | None, str | None]]:
    rows = result(directory)["per_episode"]
    return [(row["episode_index"], row["status"], row["success"], row["digest"]) for row in rows]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("clean") / "run"
    assert command(directory) == 0
    assert 20 < stop(directory)["episodes"] < 100
    return directory


def test_a_run_stops_where_it_would_have_stopped_without_the_errors_that_were_retried_since(
    tmp_path: Path, clean: Path
) -> None:
    directory = tmp_path / "run"
    assert command(directory, FAILS) == 3
    first, seen = stop(directory), outcomes(directory)
    assert first["episodes"] != stop(clean)["episodes"], "the errors must matter, or this test shows nothing"
    assert first["interval"]["n_episodes"] == first["episodes"] - 5
    # While they go on failing, the stop stays where it is.
    assert command(directory, FAILS, batch_size=4) == 3
    assert (stop(directory), outcomes(directory)) == (first, seen)
    assert command(directory) == 0
    assert stop(directory) == stop(clean)
    assert outcomes(directory) == outcomes(clean)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("workers", [1, 4])
def test_it_makes_no_difference_whether_errors_were_retried_before_the_stop_or_after(
    tmp_path: Path, clean: Path, workers: int
) -> None:
    directory = tmp_path / "run"
    assert command(directory, f"{FAILS} step.regicide:a:20:1", batch_size=workers) < 0
    assert command(directory, batch_size=workers) == 0
    assert stop(directory) == stop(clean)
    assert outcomes(directory) == outcomes(clean)


@pytest.mark.slow
def test_an_interrupted_retry_takes_no_stop_away(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    assert command(directory, "step.raise:a:0:1") == 3
    first, seen = stop(directory), outcomes(directory)
    before = stored(directory)
    process = start_cli("eval", *arguments(directory, "reset.hang:a:0:0"))
    # Others go on meanwhile, beyond the place at which the run had stopped.
    wait_until(lambda: stored(directory) > before)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped with 1 episode to go" in said
    assert (stop(directory), outcomes(directory)) == (first, seen)


@pytest.mark.slow
def test_so_it_is_for_a_rule_that_compares(tmp_path: Path) -> None:
    def race(place: str, push: float, mischief: str = "", rival: str = "none") -> int:
        policy = {"path": f"{SUPPORT / 'tiny_policies.py'}:Constant", "kwargs": json.dumps({"push": push})}
        eval_ = {"until_better_than": rival, "max_attempts": 1}
        tree = tiny_tree(
            tmp_path / place, task="a", n_episodes=60, policy=policy, env={"mischief": mischief}, eval=eval_
        )
        return run_cli("eval", *flags(tree)).returncode

    weak = str(tmp_path / "weak")
    assert race("weak", 0.0) == 0
    assert race("strong", 3.0, rival=weak) == 0
    assert stop(tmp_path / "strong")["decision"] == "better"
    fails = " ".join(f"step.raise:a:{index}:1" for index in range(5))
    assert race("flaky", 3.0, fails, weak) == 3
    assert stop(tmp_path / "flaky")["episodes"] != stop(tmp_path / "strong")["episodes"]
    assert race("flaky", 3.0, rival=weak) == 0
    assert stop(tmp_path / "flaky") == stop(tmp_path / "strong")
