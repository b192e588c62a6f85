"""`--display=json`: lines for programs, and nothing else on the way out."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from harness import SUPPORT, Digests, flags, run_cli, start_cli, tiny_tree
from proctor.store.episodes import EpisodeTable


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line, parse_constant=_refuse) for line in text.splitlines()]


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def test_every_line_is_an_object_and_every_episode_is_told(tmp_path: Path, reference: Digests) -> None:
    mischief = {"mischief": "step.raise!:b:2:1"}
    done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", display="json", env=mischief)))
    assert done.returncode == 0, done.stderr
    told = events(done.stdout)
    kinds = [event["event"] for event in told]
    assert (kinds[0], kinds[-2:]) == ("plan", ["end", "result"])
    assert set(kinds) == {"plan", "stage", "start", "episode", "progress", "note", "end", "result"}
    episodes = [event for event in told if event["event"] == "episode"]
    keys = [(event["task_group"], event["task_id"], event["episode_index"]) for event in episodes]
    assert (
        dict(zip(keys, ((event["digest"], event["pixel_digest"]) for event in episodes), strict=True)) == reference
    )
    assert told[0]["episodes"] == 12
    assert told[0]["tasks"] == ["a", "b", "c"]
    (note,) = [event["message"] for event in told if event["event"] == "note"]
    assert "b episode 2: attempt 1 of 3 failed" in note


def test_an_episode_is_told_as_it_is_stored(tmp_path: Path) -> None:
    done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", task="a", n_episodes=1, display="json")))
    (episode,) = [event for event in events(done.stdout) if event.pop("event") == "episode"]
    with EpisodeTable(tmp_path / "run" / "run.sqlite", read_only=True) as table:
        assert [record.to_row() for record in list(table.records())] == [episode]


def test_the_last_progress_has_everything_and_the_rate(tmp_path: Path) -> None:
    done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", display="json")))
    last = [event for event in events(done.stdout) if event["event"] == "progress"][-1]
    assert (last["ended"], last["total"], last["errors"]) == (12, 12, 0)
    rate = last["rate"]
    assert (rate["episodes"], rate["running"], last["running"]) == (12, 0, [])
    assert rate["low"] < rate["successes"] / 12 == rate["value"] <= rate["high"]


def test_the_result_names_the_kind_of_error_and_the_exit_status(tmp_path: Path) -> None:
    policy = {"path": f"{SUPPORT / 'tiny_policies.py'}:Faulty", "kwargs": '{"how": "raise"}'}
    done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", policy=policy, display="json")))
    assert done.returncode == 1
    result = events(done.stdout)[-1]
    assert (result["status"], result["complete"]) == (1, False)
    assert result["error"]["kind"] == "PolicyError"
    assert "I cannot see" in result["error"]["message"]


def test_each_line_is_out_before_the_next_thing_happens(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", display="json", env={"mischief": "step.hang:c:*:1"}, eval={"stop_grace": 0})
    process = start_cli("eval", *flags(tree))
    assert process.stdout is not None
    # One worker hangs for ever: nothing ends the run, and what the other one does must be here all the same.
    seen: list[dict[str, Any]] = []
    while sum(event["event"] == "episode" for event in seen) < 3:
        seen += events(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert events(rest)[-1]["status"] == 130
