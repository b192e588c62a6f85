"""`proctor record`: the first successes of every task as a dataset, however they are come by."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import digests, flags, run_cli, start_cli, stored, tiny_tree, wait_until
from proctor.cli.record import record_command
from proctor.errors import UsageError
from proctor.results import ScoredRun
from recordings import ROUNDED, content, origins, play_again, rows

pytest.importorskip("pyarrow")
pytest.importorskip("av")

N = 6


MAX_STEPS = 3
"""Few enough for some episodes to fail."""


def command(place: Path, *more: str, env: dict[str, Any] | None = None, **options: Any) -> list[str]:
    tree = tiny_tree(place, task="a,b", policy=ROUNDED, env={"max_steps": MAX_STEPS, **(env or {})}, **options)
    del tree["eval"]["n_episodes"]
    return ["record", f"--demonstrations={N}", *flags(tree), *more]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recorded by one worker, undisturbed: what every other way must equal, bit for bit."""
    place = tmp_path_factory.mktemp("record") / "run"
    done = run_cli(*command(place, eval={"batch_size": 1}, display="plain"))
    assert done.returncode == 0, done.stderr
    assert "dataset:" in done.stdout
    return place


def test_the_dataset_has_the_first_successes_of_every_task(recorded: Path) -> None:
    ended = {record.key: record.success for record in ScoredRun.open(recorded).all_records}
    assert not all(ended.values()), "some failed"
    firsts = {name: [key[2] for key in sorted(ended) if key[0] == name and ended[key]][:N] for name in "ab"}
    found = origins(recorded / "dataset")
    assert {name: [one["episode_index"] for one in found if one["task"] == name] for name in "ab"} == firsts
    assert all(one["success"] for one in found)
    for one, steps in zip(found, rows(recorded / "dataset"), strict=True):
        played = play_again(one, np.asarray(steps["action"], np.float32), MAX_STEPS)
        assert played.successes[-1]


def test_seeds_are_not_those_of_evaluations(recorded: Path) -> None:
    assert {one["seed"] - one["episode_index"] for one in origins(recorded / "dataset")} == {1_000_000}


def test_rates_are_over_as_many_episodes_of_each_task(recorded: Path) -> None:
    info = json.loads((recorded / "eval_info.json").read_text())
    assert [len(task["metrics"]["successes"]) for task in info["per_task"]] == [N, N]
    assert info["run"]["stopped"]["decision"] == "recorded"


@pytest.mark.parametrize("way", [{"eval": {"batch_size": 3}}, {"eval": {"use_async_envs": False}}])
def test_the_dataset_is_the_same_however_it_is_recorded(
    recorded: Path, tmp_path: Path, way: dict[str, Any]
) -> None:
    assert run_cli(*command(tmp_path / "run", **way)).returncode == 0
    assert content(tmp_path / "run" / "dataset") == content(recorded / "dataset")


def test_killed_and_called_again_it_is_the_same(recorded: Path, tmp_path: Path) -> None:
    place = tmp_path / "run"
    slow = command(place, env={"delay": 0.01})
    process = start_cli(*slow)
    wait_until(lambda: stored(place) >= 2)
    process.kill()
    process.communicate()
    again = run_cli("record", f"--resume={place}", "--env.delay=0")
    assert again.returncode == 0, again.stderr
    assert content(place / "dataset") == content(recorded / "dataset")
    finished = digests(place)
    third = run_cli(*slow)
    assert third.returncode == 0, third.stderr
    assert digests(place) == finished, "nothing is played again"


def test_ctrl_c_says_how_it_goes_on(tmp_path: Path) -> None:
    place = tmp_path / "run"
    process = start_cli(*command(place, env={"delay": 0.02}, eval={"stop_grace": 0}))
    wait_until(lambda: stored(place) >= 1)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"proctor record --resume={place}" in words


def test_more_demonstrations_extend_a_recording(recorded: Path, tmp_path: Path) -> None:
    place = tmp_path / "run"
    assert run_cli(*command(place)).returncode == 0
    before = digests(place)
    more = run_cli("record", f"--resume={place}", f"--demonstrations={N + 2}", f"--eval.n_episodes={20 * N}")
    assert more.returncode == 0, more.stderr
    assert len(origins(place / "dataset")) == 2 * (N + 2)
    assert before.items() <= digests(place).items()


def test_what_falls_out_of_a_dataset_is_there_when_it_is_wanted_again(recorded: Path, tmp_path: Path) -> None:
    place = tmp_path / "run"
    shutil.copytree(recorded, place)
    for number in (2, N):
        done = run_cli("record", f"--resume={place}", f"--demonstrations={number}")
        assert done.returncode == 0, done.stderr
        assert len(origins(place / "dataset")) == 2 * number
    assert content(place / "dataset") == content(recorded / "dataset")
    assert not (place / "recording").exists()


def test_demonstrations_without_a_recording_are_told(recorded: Path, tmp_path: Path) -> None:
    place = tmp_path / "run"
    shutil.copytree(recorded, place)
    shutil.rmtree(place / "dataset")
    done = run_cli("record", f"--resume={place}")
    assert done.returncode == 1
    assert f"{2 * N} of {2 * N} demonstrations have no recording" in done.stderr


def test_a_run_that_was_not_recorded_is_not_gone_on_with(recorded: Path, tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", task="a", n_episodes=1)
    assert run_cli("eval", *flags(tree)).returncode == 0
    with pytest.raises(UsageError, match="was not recorded"):
        record_command([f"--resume={tmp_path / 'run'}"])
    with pytest.raises(UsageError, match="was recorded with true"):
        record_command([f"--resume={recorded}", "--only-success=false"])


def test_labels_are_clean_where_what_is_executed_is_noisy(tmp_path: Path) -> None:
    place = tmp_path / "run"
    assert run_cli(*command(place, "--noise=0,0.3", env={"max_steps": 40})).returncode == 0
    noisy = 0
    for one, steps in zip(origins(place / "dataset"), rows(place / "dataset"), strict=True):
        done = np.asarray(steps["executed_action"], np.float32)
        wanted = np.asarray(steps["action"], np.float32)
        changed = (done != wanted).any(axis=1)
        noisy += int(changed.any())
        np.testing.assert_array_equal(
            play_again(one, done).states, np.asarray(steps["observation.state"], np.float32)
        )
    assert 0 < noisy < 2 * N, "some episodes take no noise at all"
    assert run_cli("eval", f"--resume={place}", "--eval.noise=0.2").returncode == 2, "noise is part of the run"


def test_failures_are_recorded_on_request(tmp_path: Path) -> None:
    place = tmp_path / "run"
    assert run_cli(*command(place, "--only-success=false")).returncode == 0
    found = origins(place / "dataset")
    assert [one["episode_index"] for one in found] == [index for index in range(N) for _ in "ab"]
    assert not all(one["success"] for one in found)


def test_too_few_successes_are_told_and_what_there_is_is_kept(tmp_path: Path) -> None:
    place = tmp_path / "run"
    done = run_cli(*command(place, "--eval.n_episodes=6", env={"max_steps": 1}))
    assert done.returncode == 1
    assert "of 6 demonstrations after 6 episodes" in done.stderr
    assert "--eval.n_episodes=12" in done.stderr
    assert not (place / "dataset").exists() or len(origins(place / "dataset")) < 2 * N


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (["--demonstrations=0"], "--demonstrations=0"),
        (["--demonstrations=lots"], "--demonstrations=lots"),
        (["--noise=loud"], "--eval.noise=loud"),
        (["--eval.n_episodes=2"], "ask for more episodes"),
        (["--eval.num_shards=2"], "no shards"),
        (["--eval.stop_when=ci<=0.1"], "ends the run itself"),
        (["--eval.demonstrations=7"], "use --demonstrations"),
        (["--eval.only_success=false"], "use --only-success"),
        (["--eval.recording=false"], "it records in any case"),
        (["--demonstration=3"], "Did you mean '--demonstrations'"),
    ],
)
def test_what_cannot_be_recorded_is_refused_in_a_line(tmp_path: Path, wrong: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)) as refused:
        record_command([*command(tmp_path / "run"), *wrong][1:])
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()
