"""A tracker is told what a run comes to, and can neither fail it nor hold it up."""

from __future__ import annotations

import importlib.util
import json
import signal
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

import proctor
from harness import SUPPORT, Digests, digests, flags, is_over, run_cli, start_cli, tiny_tree, wait_until
from proctor.config.combinations import tracker_names
from proctor.config.load import build_settings, settings_from_flags
from proctor.engine.evaluation import evaluate_settings
from proctor.errors import UsageError
from proctor.events import Watcher
from proctor.replay.run_films import film_run
from proctor.results import Evaluation
from proctor.trackers import group, run_trackers
from proctor.trackers.run_trackers import Trackers

INLINE = {"use_async_envs": False}


def tracker(name: str) -> str:
    return f"{SUPPORT / 'told_trackers.py'}:{name}"


class Reported(NamedTuple):
    evaluation: Evaluation
    notes: list[str]


def report(place: Path, report_to: str, **options: Any) -> Reported:
    settings = build_settings(
        tiny_tree(place, report_to=report_to, eval={**INLINE, **options.pop("eval", {})}, **options)
    )
    notes: list[str] = []
    with Trackers(settings, notes.append) as trackers:
        evaluation = film_run(evaluate_settings(settings, [trackers]), settings, Watcher())
        trackers.conclude(evaluation)
    return Reported(evaluation, notes)


def told(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (place / "told.jsonl").read_text().splitlines()]


def test_a_tracker_is_told_all_of_a_run(tmp_path: Path) -> None:
    evaluation, notes = report(
        tmp_path / "run", tracker("Notebook"), env={"mischief": "reset.raise:c:1:0"}, job_name="a name",
        eval={"max_episodes_rendered": 1},
    )  # fmt: skip
    start, *logs, end = told(tmp_path / "run")
    assert start["kind"] == "start"
    assert start["name"] == "a name"
    assert start["planned"] == 12
    assert not start["resumed"]
    assert start["settings"]["env"]["task"] == "a,b,c"
    assert start["directory"] == str(tmp_path / "run")
    assert [log["kind"] for log in logs] == ["log"] * len(logs)
    steps = [log["step"] for log in logs]
    assert steps == sorted(set(steps))
    assert steps[-1] == 12
    assert {"live/pc_success", "live/pc_success_low", "live/episodes_per_s"} <= logs[-1]["values"].keys()
    assert logs[-1]["values"]["live/errors"] == 1
    assert end["kind"] == "conclude"
    assert end["status"] == "complete"
    assert end["step"] == 12
    overall, values = evaluation.info["overall"], end["values"]
    assert values["eval/pc_success"] == pytest.approx(overall["pc_success"])
    assert values["eval/avg_sum_reward"] == pytest.approx(overall["avg_sum_reward"])
    assert values["eval/n_episodes"] == 11
    assert values["eval/n_errors"] == 1
    assert values["eval/pc_success_low"] < values["eval/pc_success"]
    assert values["task/c/n_episodes"] == 3
    assert [e["digest"] for e in end["episodes"]] == [e["digest"] for e in evaluation.info["per_episode"]]
    assert len(end["videos"]) == 3
    assert all(Path(video).exists() for video in end["videos"])
    assert any("see told.jsonl" in note for note in notes)
    assert "a tracker says hello" in (tmp_path / "run" / "logs" / "tracker-Notebook.log").read_text()


def test_a_resumed_run_is_the_same_one_to_its_tracker(tmp_path: Path) -> None:
    for episodes in (1, 2):
        report(tmp_path / "run", tracker("Notebook"), n_episodes=episodes)
    starts = [line for line in told(tmp_path / "run") if line["kind"] == "start"]
    assert starts[0]["id"] == starts[1]["id"]
    assert [start["resumed"] for start in starts] == [False, True]
    steps = [line["step"] for line in told(tmp_path / "run") if line["kind"] == "log"]
    assert steps == sorted(steps)
    assert steps[-1] == 6


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Raising", "could not log: RuntimeError: no log today. The run"),
        ("NeverStarting", "could not start: SystemExit: I leave"),
        ("Dying", "its process ended with status 9"),
    ],
)
def test_a_tracker_that_fails_costs_one_note(tmp_path: Path, reference: Digests, name: str, words: str) -> None:
    evaluation, notes = report(tmp_path / "run", tracker(name))
    assert evaluation.error is None
    assert digests(evaluation) == reference
    assert len(notes) == 1
    assert words in notes[0]


@pytest.mark.parametrize("name", ["Hanging", "HangingAtOnce"])
def test_a_tracker_that_hangs_is_left_behind(
    tmp_path: Path, reference: Digests, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "PATIENCE", 0.5)
    evaluation, notes = report(tmp_path / "run", tracker(name))
    assert digests(evaluation) == reference
    assert len(notes) == 1
    assert "left behind" in notes[0]


def test_a_tracker_that_does_not_read_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "PATIENCE", 0.5)
    monkeypatch.setattr(run_trackers, "_LEAST_SECONDS", 0.0)
    evaluation, _ = report(tmp_path / "run", tracker("HangingAtOnce"), n_episodes=150, env={"max_steps": 1})
    assert len(evaluation.records) == 450, "more was to tell than a pipe holds"


def test_one_bad_tracker_does_not_disturb_another(tmp_path: Path) -> None:
    report(tmp_path / "run", f"{tracker('Dying')},{tracker('Notebook')}")
    assert told(tmp_path / "run")[-1]["status"] == "complete"


def test_the_command_line_ends_well_with_a_tracker_that_raises(tmp_path: Path, reference: Digests) -> None:
    done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", report_to=tracker("Raising"), display="plain")))
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "run") == reference
    assert "could not" in done.stdout


def test_a_run_that_failed_says_so(tmp_path: Path) -> None:
    policy = {"path": f"{SUPPORT / 'tiny_policies.py'}:Faulty", "kwargs": {"how": "nan", "at": 9}}
    failed = report(tmp_path / "run", tracker("Notebook"), policy=policy)
    assert failed.evaluation.error is not None
    end = told(tmp_path / "run")[-1]
    assert end["status"] == "failed"
    assert end["error"] == str(failed.evaluation.error)


def test_a_refused_run_starts_no_tracker(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(UsageError):
        report(tmp_path / "run", tracker("Notebook"))


def test_a_killed_run_ends_its_tracker(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", report_to=tracker("Notebook"), env={"delay": 0.05}, n_episodes=50)
    process = start_cli("eval", *flags(tree))
    wait_until(lambda: (tmp_path / "run" / "told.jsonl").exists() and told(tmp_path / "run"))
    pid = told(tmp_path / "run")[0]["pid"]
    assert psutil.pid_exists(pid)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    wait_until(lambda: is_over(pid))


@pytest.mark.slow
def test_shards_are_one_run_to_a_tracker(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", report_to=tracker("Notebook"), n_episodes=2)
    done = run_cli("parallel", "--num-shards=2", *flags(tree))
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.rglob("told.jsonl"))) == 1
    start, *_, end = told(tmp_path / "run")
    assert start["planned"] == 6
    assert end["step"] == len(end["episodes"]) == 6
    assert end["status"] == "complete"


def test_evaluate_reports_too(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", report_to=tracker("Notebook"), n_episodes=1)
    proctor.evaluate(
        tree["policy"]["path"], benchmark=tree["env"]["type"], task="a", n_episodes=1, output_dir=tmp_path / "run",
        display="none", settings={"report_to": tree["report_to"], "eval": INLINE},
    )  # fmt: skip
    assert told(tmp_path / "run")[-1]["values"]["eval/n_episodes"] == 1


@pytest.mark.parametrize("name", ["wandb", "trackio", "tensorboard"])
def test_a_missing_package_is_said_before_anything_starts(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda asked: None if asked == name else real(asked))
    with pytest.raises(UsageError, match=f"pip install {name}"):
        report(tmp_path / "run", name)
    assert not (tmp_path / "run").exists()


def test_an_unknown_tracker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'wandb'"):
        build_settings(tiny_tree(tmp_path / "run", report_to="wandbb"))
    with pytest.raises(UsageError, match="has no 'Nobody'"):
        report(tmp_path / "run", tracker("Nobody"))


def test_lerobots_flag_means_the_same(tmp_path: Path) -> None:
    arguments = flags(tiny_tree(tmp_path / "run"))
    settings = settings_from_flags([*arguments, "--wandb.enable", "--wandb.project=p", "--wandb.mode=offline"])
    assert tracker_names(settings) == ["wandb"]
    assert (settings.wandb.project, settings.wandb.mode) == ("p", "offline")
    with pytest.raises(UsageError, match=r"--wandb\.mode"):
        settings_from_flags([*arguments, "--wandb.mode=sometimes"])
