"""CI runs no action that can change under its feet."""

from __future__ import annotations

import re
from pathlib import Path

WORKFLOWS = Path(__file__).parents[1] / ".github" / "workflows"


def test_every_action_is_named_by_its_commit_with_the_version_beside_it() -> None:
    uses = [
        line.strip()
        for file in sorted(WORKFLOWS.glob("*.yml"))
        for line in file.read_text().splitlines()
        if "uses:" in line
    ]
    pinned = re.compile(r"- uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [line for line in uses if not pinned.fullmatch(line)] == []
    assert len(set(uses)) == len({line.partition("@")[0] for line in uses})  # one version of each
    assert uses
