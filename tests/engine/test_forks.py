"""A policy or simulator that forks and lets both go on: only one of them is heard, and nothing changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cases import crossed
from harness import SUPPORT, Digests, digests, flags, run_cli, tiny_tree
from proctor.store.episodes import EpisodeTable
from tiny_policies import aside

FORKING = f"{SUPPORT / 'tiny_policies.py'}:Forking"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("placement", ["central", "inline", "worker"])
def test_a_policy_that_forks_and_goes_on_is_heard_once(tmp_path: Path, placement: str, reference: Digests) -> None:
    policy = {
        "path": FORKING,
        "kwargs": f'{{"once": "{aside(tmp_path / "marker")}"}}',
        "placement": "auto" if placement == "inline" else placement,
    }
    tree = tiny_tree(tmp_path / "run", policy=policy, eval={"use_async_envs": placement != "inline"})
    done = run_cli("eval", *flags(tree))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "marker").exists()
    assert digests(tmp_path / "run") == reference


@pytest.mark.sampled(1)
@pytest.mark.parametrize("placement", ["worker", "central", "inline"])
def test_a_child_of_the_policy_that_exits_is_not_the_policy(
    tmp_path: Path, placement: str, reference: Digests
) -> None:
    policy = {
        "path": FORKING,
        "kwargs": f'{{"once": "{aside(tmp_path / "marker")}", "exits": true}}',
        "placement": "auto" if placement == "inline" else placement,
    }
    tree = tiny_tree(tmp_path / "run", policy=policy, eval={"use_async_envs": placement != "inline"})
    done = run_cli("eval", *flags(tree))
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "run") == reference
    info = json.loads((tmp_path / "run" / "eval_info.json").read_text())
    assert info["run"]["complete"]
    with EpisodeTable(tmp_path / "run" / "run.sqlite", read_only=True) as table:
        assert [session.ending for session in table.sessions()] == [None]
        assert table.attempts() == []


@pytest.mark.parametrize(("deed", "use_async_envs"), crossed(["twin", "offspring"], [True, False]))
def test_a_simulator_that_forks_and_goes_on_is_heard_once(
    tmp_path: Path, use_async_envs: bool, deed: str, reference: Digests
) -> None:
    tree = tiny_tree(
        tmp_path / "run", env={"mischief": f"step.{deed}!:a:1:1"}, eval={"use_async_envs": use_async_envs}
    )
    done = run_cli("eval", *flags(tree))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mischief-0").exists()
    assert digests(tmp_path / "run") == reference
    with EpisodeTable(tmp_path / "run" / "run.sqlite", read_only=True) as table:
        assert table.attempts() == []
