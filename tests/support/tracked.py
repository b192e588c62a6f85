"""A small run, and its continuation, reported to a real tracker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness import flags, run_cli, tiny_tree


def evaluate_and_extend(place: Path, report_to: str, extra_env: dict[str, str], **options: Any) -> dict[str, Any]:
    """Run 9 episodes, then 12, an error among them; returns the result."""
    for episodes in (3, 4):
        tree = tiny_tree(
            place,
            n_episodes=episodes,
            report_to=report_to,
            env={"mischief": "reset.raise:c:1:0"},
            eval={"max_episodes_rendered": 1, "max_attempts": 1},
            display="plain",
            **options,
        )
        done = run_cli("eval", *flags(tree), extra_env=extra_env)
        assert done.returncode == 3, done.stderr
        assert f"{report_to}: " not in done.stdout, done.stdout
    info: dict[str, Any] = json.loads((place / "eval_info.json").read_text())
    return info
