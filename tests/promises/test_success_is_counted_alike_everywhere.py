"""An episode that reports no success counts alike in every number that is shown, whatever the outcomes.

The environments are real ones of a common sort: `info` has `is_success` only when it happens. A policy that never
succeeds on one of two tasks must not get rid of that task.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest

from harness import SUPPORT, run_cli, viewed
from shy_rooms import Baseline, Candidate, Table

EPISODES, SEED = 30, 1000
EXPLICIT = "--env.success_key=is_success"


def evaluate(output: Path, policy: str, *more: str) -> CompletedProcess[str]:
    return run_cli(
        "eval",
        "--env.type=gym",
        "--env.task=shy/X-v0,shy/Y-v0",
        "--env.package=shy_rooms",
        f"--policy.path={SUPPORT / 'shy_rooms.py'}:{policy}",
        f"--eval.n_episodes={EPISODES}",
        f"--seed={SEED}",
        "--eval.batch_size=2",
        f"--output_dir={output}",
        *more,
        extra_env={"PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])},
    )


def truth(policy: type[Table]) -> list[int]:
    """Return how many episodes of each task succeed, by what the environment is."""
    bars = [np.random.Generator(np.random.PCG64(SEED + index)).uniform() for index in range(EPISODES)]
    return [sum(skill > bar for bar in bars) for skill in policy.skills]


def info(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "eval_info.json").read_text())
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    for name in ("Baseline", "Candidate"):
        done = evaluate(place / name, name, EXPLICIT)
        assert done.returncode == 0, done.stderr
        (place / f"{name}.txt").write_text(done.stdout)
    return place


@pytest.mark.parametrize("policy", [Baseline, Candidate])
def test_every_episode_without_the_flag_is_a_failure_in_every_number(runs: Path, policy: type[Table]) -> None:
    name, counts = policy.__name__, truth(policy)
    rate = f"{100 * sum(counts) / (2 * EPISODES):.1f}"
    found = info(runs / name)
    assert found["overall"]["pc_success"] == pytest.approx(100 * sum(counts) / (2 * EPISODES))
    assert [task["successes"] for task in found["intervals"]["per_task"]] == counts
    assert [task["n_episodes"] for task in found["intervals"]["per_task"]] == [EPISODES] * 2
    assert f"{rate} %" in (runs / f"{name}.txt").read_text()
    page = (runs / name / "report.html").read_text()
    assert re.search(rf'class="value">{re.escape(rate)}&nbsp;%', page)
    row = next(line for line in viewed(runs).split("<tr") if f">{name}</a>" in line)
    assert f">{rate} %<" in row
    assert f">{sum(counts)}/{2 * EPISODES}<" in row


def test_comparing_afterwards_and_stopping_early_come_to_the_same_verdict(runs: Path, tmp_path: Path) -> None:
    done = run_cli("compare", str(runs / "Baseline"), str(runs / "Candidate"), "--json")
    found = json.loads(done.stdout)
    (overall,) = [row for row in found["comparisons"][0]["rows"] if row["kind"] == "overall"]
    assert overall["verdict"] == "worse"
    for side, policy in (("first", Baseline), ("second", Candidate)):
        assert overall[side]["successes"] == sum(truth(policy)), side
        assert overall[side]["episodes"] == 2 * EPISODES, side
    rule = f"--eval.until_better_than={runs / 'Baseline'}"
    done = evaluate(tmp_path / "ruled", "Candidate", EXPLICIT, rule)
    assert done.returncode == 0, done.stderr
    # Worse, or so far behind that the rest of the plan cannot show anything else.
    assert info(tmp_path / "ruled")["run"]["stopped"]["decision"] in ("worse", "hopeless")


def test_a_flag_that_nobody_announced_ends_the_run_instead_of_changing_what_counts(tmp_path: Path) -> None:
    done = evaluate(tmp_path / "run", "Candidate")
    assert done.returncode == 1
    assert "--env.success_key=is_success" in done.stderr
    assert info(tmp_path / "run")["overall"]["pc_success"] is None
    assert not re.search(r"\d\.\d %", done.stdout), "no rate is printed of the episodes that had ended"


def test_no_success_at_all_is_no_rate_or_zero_but_the_same_for_every_policy(tmp_path: Path) -> None:
    # Nothing was said and nothing seen: there is no rate, and a line says how to get one.
    done = evaluate(tmp_path / "silent", "Hopeless")
    assert done.returncode == 0, done.stderr
    assert info(tmp_path / "silent")["overall"]["pc_success"] is None
    assert "reports no success flag" in done.stdout
    # The flag was named: then never seeing it is 0 %, and a mistyped name is suspected aloud.
    done = evaluate(tmp_path / "named", "Hopeless", EXPLICIT)
    assert info(tmp_path / "named")["overall"]["pc_success"] == 0
    assert "had no such entry in info" in done.stdout + done.stderr


ODD = """
import gymnasium, numpy as np

class Odd(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-9, 9, (1,), np.float64)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float64)

    def __init__(self, flag="False", reward="0.0", terminated="False"):
        self.flag, self.reward, self.terminated = eval(flag), eval(reward), eval(terminated)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        return np.zeros(1), self.reward, self.terminated, False, {"is_success": self.flag}

gymnasium.register("Odd-v0", Odd, max_episode_steps=3)
"""


def odd(tmp_path: Path, **kwargs: str) -> tuple[int, dict[str, Any]]:
    (tmp_path / "odd_env.py").write_text(ODD)
    done = run_cli(
        "eval", "--env.type=gym", "--env.task=Odd-v0", "--env.package=odd_env", "--env.success_key=is_success",
        f"--env.kwargs={json.dumps(kwargs)}", "--policy.type=zero", "--eval.n_episodes=2",
        "--eval.max_attempts=1", "--eval.batch_size=1", "--display=none", f"--output_dir={tmp_path / 'run'}",
        extra_env={"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
    )  # fmt: skip
    return done.returncode, json.loads((tmp_path / "run" / "eval_info.json").read_text())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("flag", ["np.array([1.0])", "1", "1.0", "np.float32(1)"])
def test_a_flag_may_be_a_number_that_is_0_or_1(tmp_path: Path, flag: str) -> None:
    status, told = odd(tmp_path, flag=flag)
    assert (status, told["overall"]["pc_success"]) == (0, 100.0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "strange",
    [
        {"flag": "float('nan')"}, {"terminated": "float('nan')"}, {"reward": "float('nan')"},
        {"flag": "0.5"}, {"flag": "'False'"}, {"flag": "[False, True]"}, {"reward": "float('inf')"},
    ],
)  # fmt: skip
def test_what_is_neither_true_nor_false_nor_a_number_is_the_simulators_error(
    tmp_path: Path, strange: dict[str, str]
) -> None:
    status, told = odd(tmp_path, **strange)
    assert status == 3
    assert told["overall"]["n_episodes"] == 0
    assert told["errors"]["n_errors"] == 2
