"""What a command spent its time on."""

from __future__ import annotations

import re
from pathlib import Path

from harness import SUPPORT, run_cli
from proctor.events import Stage
from proctor.report.command_clock import STARTING, CommandClock


def test_the_parts_are_the_whole_and_none_is_lost() -> None:
    clock = CommandClock()
    clock.enter("loading the policy")
    clock.doing(Stage("loading the policy", "simulators 1/2"))
    clock.enter("episodes")
    clock.enter("loading the policy")
    names = [name for name, _ in clock.spans()]
    assert names == [STARTING, "loading the policy", "episodes"]
    assert all(seconds >= 0 for _, seconds in clock.spans())


def test_the_last_lines_account_for_the_whole_command(tmp_path: Path) -> None:
    done = run_cli(
        "eval",
        f"--env.type={SUPPORT / 'tiny.py'}:Tiny",
        "--env.task=a,b",
        f"--env.scratch={tmp_path}",
        f"--policy.path={SUPPORT / 'tiny_policies.py'}:Thoughtful",
        "--eval.n_episodes=2",
        f"--output_dir={tmp_path / 'run'}",
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if " in all" in line]
    total = int(re.match(r"(\d+) s in all", line)[1])  # type: ignore[index]
    parts = [int(seconds) for seconds in re.findall(r" (\d+) s[,.]", line)]
    assert abs(sum(parts) - total) <= 1 + len(parts)  # each is rounded, and what is short is left out
