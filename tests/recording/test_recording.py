"""A recorded run is the same run, and its dataset holds what was seen and done in it."""

from __future__ import annotations

import importlib.util
import re
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import Digests, digests, flags, run_cli, run_tiny, start_cli, tiny_tree
from proctor.config.load import build_settings
from proctor.engine.evaluation import evaluate_settings
from proctor.engine.merging import merge_runs
from proctor.errors import UsageError
from proctor.installation import install_command
from proctor.recording.clips import ClipWriter
from proctor.results import Evaluation
from recordings import ROUNDED, content, frames, frames_of, origins, play_again, rows

pytest.importorskip("pyarrow")
pytest.importorskip("av")

RECORDING = {"recording": True}
INLINE = {**RECORDING, "use_async_envs": False}
"""Without processes, which is quicker."""


def record(place: Path, **options: Any) -> Evaluation:
    evaluation = run_tiny(place, eval={**RECORDING, **options.pop("eval", {})}, policy=ROUNDED, **options)
    assert evaluation.error is None
    return evaluation


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset of the standard run, one worker: what every other way must equal, bit for bit."""
    place = tmp_path_factory.mktemp("recorded") / "run"
    assert record(place, eval={"batch_size": 1}).recorded == 12
    return place / "dataset"


def test_recording_changes_no_result(tmp_path: Path, reference: Digests) -> None:
    evaluation = run_tiny(tmp_path / "run", eval=INLINE)
    assert digests(evaluation) == reference
    plain = run_tiny(tmp_path / "plain", eval={"use_async_envs": False})
    looks = [{record.key: record.looks for record in run.records} for run in (evaluation, plain)]
    assert looks[0] == looks[1], "the policy looks as often as without"


def test_the_steps_are_those_that_were_executed(undisturbed: Path) -> None:
    names = [(origin["task"], origin["episode_index"]) for origin in origins(undisturbed)]
    assert names == [(task, index) for index in range(4) for task in "abc"], "plan order"
    index = 0
    for number, (origin, steps) in enumerate(zip(origins(undisturbed), rows(undisturbed), strict=True)):
        played = play_again(origin, np.asarray(steps["action"], np.float32))
        length = len(steps["action"])
        np.testing.assert_array_equal(np.asarray(steps["observation.state"], np.float32), played.states)
        np.testing.assert_array_equal(np.asarray(steps["next.reward"], np.float32), played.rewards)
        assert steps["next.success"].tolist() == played.successes
        assert steps["next.done"].tolist() == played.done
        assert played.done[-1]
        assert steps["frame_index"].tolist() == list(range(length))
        assert steps["index"].tolist() == list(range(index, index + length))
        np.testing.assert_allclose(steps["timestamp"], np.arange(length) / 30, rtol=1e-6)
        assert set(steps["task_index"].tolist()) == {number % 3}
        index += length


def test_the_frames_are_those_that_were_seen(undisturbed: Path, tmp_path: Path) -> None:
    shown = frames(undisturbed)
    for number, (origin, steps) in enumerate(zip(origins(undisturbed), rows(undisturbed), strict=True)):
        played = play_again(origin, np.asarray(steps["action"], np.float32)).images
        # The tiny pictures are noise, which no codec keeps; but what it makes of them is always the same.
        clip = tmp_path / f"{number}.mp4"
        writer = ClipWriter(clip, fps=30, shape=played[0].shape)
        for image in played:
            writer.add(image)
        writer.finish()
        np.testing.assert_array_equal(shown[: len(played)], frames_of(clip))
        del shown[: len(played)]
    assert shown == []


@pytest.mark.parametrize("ways", [{"batch_size": 4, "max_episodes_rendered": 1}, {"use_async_envs": False}])
def test_the_dataset_is_the_same_however_it_is_run(
    tmp_path: Path, undisturbed: Path, ways: dict[str, Any]
) -> None:
    record(tmp_path / "run", eval=ways)
    assert content(tmp_path / "run" / "dataset") == content(undisturbed)
    assert not (tmp_path / "run" / "recording").exists()


def test_a_longer_run_has_the_dataset_of_one_that_was_planned_so(tmp_path: Path, undisturbed: Path) -> None:
    assert record(tmp_path / "run", n_episodes=2, eval=INLINE).recorded == 6
    assert record(tmp_path / "run", n_episodes=4, eval=INLINE).recorded == 12
    assert content(tmp_path / "run" / "dataset") == content(undisturbed)
    assert record(tmp_path / "run", n_episodes=4, eval=INLINE).recorded == 12, "once more changes nothing"
    assert content(tmp_path / "run" / "dataset") == content(undisturbed)


def test_a_killed_run_loses_no_recorded_episode(tmp_path: Path, undisturbed: Path) -> None:
    mischief = {"mischief": "step.regicide!:b:2:3"}
    arguments = flags(tiny_tree(tmp_path / "run", eval=RECORDING, policy=ROUNDED, env=mischief))
    process = start_cli("eval", *arguments)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    before = digests(tmp_path / "run")
    pieces = tmp_path / "run" / "recording"
    assert len(before) <= len(list(pieces.glob("*/episode_*/piece.json"))), "durable before its record"
    again = run_cli("eval", *arguments)
    assert again.returncode == 0, again.stderr
    assert content(tmp_path / "run" / "dataset") == content(undisturbed)
    assert not pieces.exists()


def test_failed_attempts_leave_nothing(tmp_path: Path, undisturbed: Path) -> None:
    record(tmp_path / "run", env={"mischief": "step.raise!:a:0:4 observe.kill!:b:1:3 step.exit!:c:2:5"})
    assert content(tmp_path / "run" / "dataset") == content(undisturbed)


def test_an_episode_that_ends_in_an_error_is_not_in_the_dataset(tmp_path: Path) -> None:
    evaluation = record(tmp_path / "run", n_episodes=2, eval=INLINE, env={"mischief": "step.raise:b:0:3"})
    names = [(origin["task"], origin["episode_index"]) for origin in origins(tmp_path / "run" / "dataset")]
    assert names == [("a", 0), ("c", 0), ("a", 1), ("b", 1), ("c", 1)]
    assert evaluation.recorded == 5
    mended = record(tmp_path / "run", n_episodes=2, eval=INLINE)
    assert mended.recorded == 6
    assert [origin["task"] for origin in origins(tmp_path / "run" / "dataset")] == [*"abcabc"]


def test_merged_shards_have_the_dataset_of_one_process(tmp_path: Path, undisturbed: Path) -> None:
    for number in range(3):
        record(tmp_path / "run", eval={**INLINE, "shard_id": number, "num_shards": 3})
        assert (tmp_path / "run" / f"shard_{number}_of_3" / "dataset").exists()
    assert merge_runs([tmp_path / "run"]).evaluation.recorded == 12
    assert content(tmp_path / "run" / "dataset") == content(undisturbed)


def test_the_command_line_says_where_the_dataset_is(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", n_episodes=1, task="a", eval=RECORDING, display="plain")
    done = run_cli("eval", *flags(tree))
    assert done.returncode == 0, done.stderr
    assert f"dataset: {tmp_path / 'run' / 'dataset'} (1 episode)" in done.stdout


def test_episodes_that_ended_unrecorded_are_missing(tmp_path: Path) -> None:
    run_tiny(tmp_path / "run", n_episodes=1, policy=ROUNDED, eval={"use_async_envs": False})
    assert record(tmp_path / "run", n_episodes=2, eval=INLINE).recorded == 3
    assert [origin["episode_index"] for origin in origins(tmp_path / "run" / "dataset")] == [1, 1, 1]


def test_a_dataset_that_cannot_be_written_loses_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "dataset.part").write_text("in the way")
    evaluation = run_tiny(run, n_episodes=1, eval=INLINE)
    assert evaluation.error is not None
    assert "the recorded episodes are kept" in str(evaluation.error)
    assert len(evaluation.records) == 3
    assert len(list(run.glob("recording/*/episode_0/piece.json"))) == 3
    (run / "dataset.part").unlink()
    assert run_tiny(run, n_episodes=1, eval=INLINE).recorded == 3


def test_a_full_disk_ends_the_run_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "run" / "recording").mkdir(parents=True)
    (tmp_path / "run" / "recording" / "a_0").write_text("in the way")
    tree = tiny_tree(tmp_path / "run", n_episodes=1, task="a", eval=RECORDING)
    done = run_cli("eval", *flags(tree))
    assert done.returncode == 1
    assert "cannot write" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_missing_is_said_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyarrow" else real(name))
    with pytest.raises(UsageError, match=re.escape(install_command("recording"))):
        run_tiny(tmp_path / "run", eval=RECORDING)
    assert not (tmp_path / "run").exists()


def test_the_simulators_interpreter_needs_av_too(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n[ "$2" = "import av" ] && exit 1\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    settings = build_settings(tiny_tree(tmp_path / "run", eval=RECORDING, env={"python": str(python)}))
    with pytest.raises(UsageError, match=r"pip install av"):
        evaluate_settings(settings)


def test_numbers_alone_need_no_av(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "av" else real(name))
    with pytest.raises(UsageError, match="pictures needs av"):
        run_tiny(tmp_path / "pictures", eval=INLINE)
    tree = {"policy": {"type": "random"}, "env": {"type": "gym", "task": "CartPole-v1"}, "display": "none"}
    settings = build_settings({**tree, "eval": {**INLINE, "n_episodes": 1}, "output_dir": str(tmp_path / "run")})
    assert evaluate_settings(settings).recorded == 1


def test_a_run_may_be_recorded_on_a_cluster(tmp_path: Path) -> None:
    """`tests/engine/executors/ray_cluster/test_nodes.py` shows that its dataset is that of a local run."""
    assert build_settings(tiny_tree(tmp_path / "run", eval=RECORDING, cluster={"address": "auto"})).eval.recording
