"""A run beside another result: what is paired, what differs, and the first step at which it does."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness import SUPPORT, run_cli, run_tiny
from made_runs import make_run
from proctor.cli.main import run as run_command
from proctor.diff.sources import read_result
from proctor.diff.stored import StoredDiff, diff_results
from proctor.errors import UsageError
from proctor.store.bundles import write_bundle
from proctor.store.stored_run import StoredRun

VLA_EVAL = Path(__file__).with_name("vla_eval_aggregate.json")
"""Written by the result collector of vla-eval 0.8.0."""


def diff(first: Path, second: Path) -> StoredDiff:
    with read_result(first) as ours, read_result(second) as theirs:
        return diff_results(ours, theirs)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny") / "run"
    run_tiny(path)
    return path


def lerobots(run: Path, place: Path, change: Any = lambda info: None) -> Path:
    """Write what LeRobot would have written of the same episodes."""
    info = json.loads((run / "eval_info.json").read_text())
    document = {key: info[key] for key in ("per_task", "per_group", "overall")}
    change(document)
    place.mkdir(parents=True)
    (place / "eval_info.json").write_text(json.dumps(document))
    return place


def test_a_run_is_the_same_as_its_copy_and_its_bundle(tiny: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny, tmp_path / "copy")
    write_bundle(StoredRun.open(tiny), tmp_path / "run.proctor")
    for other in (tmp_path / "copy", tmp_path / "run.proctor", tmp_path / "copy" / "eval_info.json"):
        found = diff(tiny, other)
        assert found.same
        assert (len(found.pairs), found.settings) == (12, [])


def test_another_policy_is_named_with_the_first_step_and_the_setting(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_tiny(tmp_path / "other", policy={"path": f"{SUPPORT / 'tiny_policies.py'}:Rounded"})
    found = diff(tiny, tmp_path / "other")
    assert "policy.fingerprint" in {one.name for one in found.settings}
    assert {(pair.where.step, pair.where.field) for pair in found.differing if pair.where} == {(0, "action")}
    assert run_command(["diff", str(tiny), str(tmp_path / "other")]) == 1
    out = capsys.readouterr().out
    assert "a episode 0 (seed 1000)" in out
    assert "first at step 0, action: A [" in out


def test_another_step_limit_and_other_noise_are_settings_that_differ(tiny: Path, tmp_path: Path) -> None:
    run_tiny(tmp_path / "short", env={"max_steps": 7})
    run_tiny(tmp_path / "noisy", eval={"noise": "0.5"})
    short, noisy = diff(tiny, tmp_path / "short"), diff(tiny, tmp_path / "noisy")
    assert {"env.max_steps", "step limit of a"} <= {one.name for one in short.settings}
    assert {pair.where.field for pair in short.differing if pair.where} == {"ending"}
    assert "eval.noise" in {one.name for one in noisy.settings}


def test_episodes_that_one_side_alone_has_are_a_difference(tiny: Path, tmp_path: Path) -> None:
    run_tiny(tmp_path / "fewer", task="a,b", n_episodes=2)
    found = diff(tiny, tmp_path / "fewer")
    assert len(found.pairs) == 4
    assert not found.differing
    assert list(found.unpaired) == [
        "A alone has the task c",
        "A alone has a episodes 2-3",
        "A alone has b episodes 2-3",
    ]
    assert not found.same


def test_lerobots_file_is_paired_by_place_and_rounding_is_no_difference(tiny: Path, tmp_path: Path) -> None:
    def rounded(info: Any) -> None:
        rewards = info["per_task"][0]["metrics"]["sum_rewards"]
        rewards[1] = math.nextafter(rewards[1], math.inf)

    folder = lerobots(tiny, tmp_path / "lerobot", rounded)
    found = diff(tiny, folder)
    assert found.same
    assert [pair.rewards for pair in found.tasks[0].pairs] == ["equal", "rounding", "equal", "equal"]
    assert list(found.notes) == ["12 of 12 sums of rewards are equal, so the seeds were the same"]
    done = run_cli("diff", str(tiny), str(folder))
    assert done.returncode == 0
    assert "12 of 12 episodes the same (1 of them equal but for rounding of the sum of rewards)" in done.stdout
    assert "it does not say its seeds, settings and versions" in done.stdout


def test_an_episode_that_lerobot_had_otherwise_is_named(tiny: Path, tmp_path: Path) -> None:
    def changed(info: Any) -> None:
        metrics = info["per_task"][1]["metrics"]
        metrics["successes"][2] = not metrics["successes"][2]
        metrics["sum_rewards"][3] += 1e-3

    folder = lerobots(tiny, tmp_path / "lerobot", changed)
    done = run_cli("diff", str(tiny), str(folder / "eval_info.json"), "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert [(one["task"], one["episode_index"], one["sum_rewards"]) for one in document["differing"]] == [
        ("b", 2, "equal"),
        ("b", 3, "different"),
    ]


def test_seeds_that_are_one_apart_are_found_by_the_sums_of_rewards(tiny: Path, tmp_path: Path) -> None:
    def later(info: Any) -> None:
        for task in info["per_task"]:
            for values in (task["metrics"]["sum_rewards"], task["metrics"]["successes"]):
                values.append(values.pop(0))
                values.pop()

    found = diff(tiny, lerobots(tiny, tmp_path / "lerobot", later))
    assert list(found.notes) == ["B's episode i is A's episode i+1 in all 9 cases: B's seed was +1"]


def test_vla_evals_result_is_paired_by_prompt_and_its_errors_are_no_failures(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"a": [True, False, True, True], "b": [True, False, True, False]})
    found = diff(run, VLA_EVAL)
    assert [(task.name, task.first.rate, task.second.rate) for task in found.tasks] == [
        ("a", (3, 4), (2, 4)),
        ("b", (2, 4), (2, 3)),
    ]
    assert [(pair.task, pair.first.index) for pair in found.differing] == [("a", 3), ("b", 3)]
    assert {(one.name, one.first, one.second) for one in found.settings} == {
        ("seed", "1000", "7"),
        ("step limit", "100", "80"),
    }
    folder = tmp_path / "results"
    folder.mkdir()
    shutil.copy(VLA_EVAL, folder / "tiny_aggregate.json")
    assert diff(run, folder).second.kind == "vla-eval's result"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}", "is neither a run"),
        ("[1", "cannot be read as a result"),
        ('{"per_task": 3, "overall": {}}', "cannot be read as a result"),
        ('{"per_task": [{"task_group": "a"}], "overall": {}}', "cannot be read as a result"),
        ('{"per_task": [], "overall": {}}', "no task and episode in common"),
        ('{"tasks": [{}], "benchmark": "x", "harness_version": "1"}', "cannot be read as a result"),
    ],
)
def test_a_file_that_is_no_result_is_told_in_one_line(
    content: str, words: str, tiny: Path, tmp_path: Path
) -> None:
    file = tmp_path / "file.json"
    file.write_text(content)
    with pytest.raises(UsageError, match=words) as caught:
        diff(tiny, file)
    assert "\n" not in str(caught.value)


def test_mistakes_of_the_command_line_end_with_status_2(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_run(tmp_path / "other", {"z": [True]})
    later = make_run(tmp_path / "later", {"a": [True]}, seed=7)
    for words, said in (
        ([str(tiny)], "name a run and another result"),
        ([str(tiny), str(tmp_path / "nothing")], "there is no such file or folder"),
        ([str(tiny), str(other)], "no task and episode in common"),
        ([str(tiny), str(later)], "their seeds are 1000 and 7"),
        ([str(VLA_EVAL), str(tiny)], "the first must be a run or bundle"),
        ([str(tiny), str(tmp_path)], "holds no run"),
    ):
        assert run_command(["diff", *words]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
