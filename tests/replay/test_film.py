"""Videos made after the fact show the frames that a run would have filmed, and never another episode."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import SUPPORT, digests, run_cli, run_tiny, start_cli, stored, tiny_tree, wait_until
from proctor.config.load import build_settings
from proctor.engine.evaluation import evaluate_settings
from proctor.results import ScoredRun
from proctor.store.bundles import write_bundle
from proctor.store.lock import RunLock
from proctor.store.stored_run import StoredRun
from replay.test_replay import forge

av = pytest.importorskip("av")


def frames(video: Path) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
    with av.open(str(video)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def videos(run: Path) -> dict[str, Path]:
    return {str(video.relative_to(run)): video for video in sorted(run.glob("videos/*/*.mp4"))}


def same_frames(one: Path, other: Path) -> bool:
    pictures = frames(one), frames(other)
    return len(pictures[0]) == len(pictures[1]) and all(map(np.array_equal, *pictures))


@pytest.fixture(scope="module")
def filmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that filmed everything while it went on."""
    path = tmp_path_factory.mktemp("filmed") / "run"
    ways = {"use_async_envs": False, "video": "all", "video_fps": 10}
    run_tiny(path, task="a,b", env={"max_steps": 12}, eval=ways)
    return path


@pytest.fixture
def unfilmed(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    run_tiny(path, task="a,b", env={"max_steps": 12})
    return path


def failures(run: Path) -> list[str]:
    found = [record for record in ScoredRun.open(run).records if record.success is False]
    return sorted(f"videos/{one.task_group}_0/eval_episode_{one.episode_index}.mp4" for one in found)


def test_failures_are_filmed_with_the_frames_of_the_run(filmed: Path, unfilmed: Path) -> None:
    before = digests(unfilmed)
    done = run_cli("film", str(unfilmed), "--fps=10")
    assert done.returncode == 0, done.stderr
    made, during = videos(unfilmed), videos(filmed)
    assert sorted(made) == failures(unfilmed)
    for name, video in made.items():
        mine, theirs = frames(video), frames(during[name])
        assert len(mine) == len(theirs) > 1
        assert all((one == other).all() for one, other in zip(mine, theirs, strict=True))
    run = ScoredRun.open(unfilmed)
    assert sorted(record.video_path for record in run.records if record.video_path) == failures(unfilmed)
    assert digests(unfilmed) == before
    assert "eval_episode" in (unfilmed / "eval_info.json").read_text()
    assert not list(unfilmed.glob(".film-*"))


def test_named_episodes_go_elsewhere_and_leave_the_run_alone(unfilmed: Path, tmp_path: Path) -> None:
    before = (unfilmed / "run.sqlite").read_bytes()
    done = run_cli("film", str(unfilmed), "a:0-1", f"--output_dir={tmp_path / 'out'}")
    assert done.returncode == 0, done.stderr
    assert list(videos(tmp_path / "out")) == ["videos/a_0/eval_episode_0.mp4", "videos/a_0/eval_episode_1.mp4"]
    assert (unfilmed / "run.sqlite").read_bytes() == before
    assert not videos(unfilmed)


def test_a_bundle_is_filmed_elsewhere(filmed: Path, unfilmed: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "b.proctor"
    write_bundle(StoredRun.open(unfilmed), bundle)
    done = run_cli("film", str(bundle))
    assert (done.returncode, "give --output_dir=DIR" in done.stderr) == (2, True)
    code = f"--env.type={SUPPORT / 'tiny.py'}:Tiny"
    done = run_cli("film", str(bundle), code, f"--output_dir={tmp_path / 'out'}", "--fps=10")
    assert done.returncode == 0, done.stderr
    made, during = videos(tmp_path / "out"), videos(filmed)
    assert sorted(made) == failures(unfilmed) != []
    assert all(same_frames(video, during[name]) for name, video in made.items())


def test_successes_are_filmed_alone(unfilmed: Path) -> None:
    done = run_cli("film", str(unfilmed), "--which=successes")
    assert done.returncode == 0, done.stderr
    others = failures(unfilmed)
    records = ScoredRun.open(unfilmed).records
    every = {f"videos/{one.task_group}_0/eval_episode_{one.episode_index}.mp4" for one in records}
    assert sorted(videos(unfilmed)) == sorted(every - set(others)) != []


def test_missing_videos_get_the_frame_rate_of_those_that_are_there(filmed: Path, tmp_path: Path) -> None:
    ways = {"video": "all", "video_fps": 10}
    run = tmp_path / "run"
    evaluate_settings(build_settings(tiny_tree(run, task="a,b", env={"max_steps": 12}, eval=ways)))
    assert not videos(run), "nobody has filmed it yet"
    done = run_cli("film", str(run), "--which=missing")
    assert done.returncode == 0, done.stderr
    during = videos(filmed)
    assert sorted(videos(run)) == sorted(during)
    assert all(same_frames(video, during[name]) for name, video in videos(run).items())
    assert run_cli("film", str(run), "a:0", "--fps=5", f"--output_dir={tmp_path / 'slow'}").returncode == 0
    (slow,) = videos(tmp_path / "slow").values()
    assert len(frames(slow)) < len(frames(during["videos/a_0/eval_episode_0.mp4"]))


def test_an_episode_that_differs_gets_no_video_and_keeps_what_it_had(filmed: Path, tmp_path: Path) -> None:
    shutil.copytree(filmed, tmp_path / "run")
    name = failures(filmed)[0]
    task, index = name[7], int(name.rpartition("_")[2].removesuffix(".mp4"))
    forge(tmp_path / "run", task, index, sum_reward=99.0)
    done = run_cli("film", str(tmp_path / "run"), f"{task}:{index}", "--fps=1")
    assert done.returncode == 1
    assert "no video: it would show another episode" in done.stdout
    assert (tmp_path / "run" / name).read_bytes() == (filmed / name).read_bytes()


def test_a_run_without_failures_says_so(tmp_path: Path) -> None:
    run_tiny(tmp_path / "run", task="a", n_episodes=1, env={"max_steps": 400})
    done = run_cli("film", str(tmp_path / "run"))
    assert (done.returncode, "has no failures to film" in done.stderr) == (2, True)


def test_a_run_that_goes_on_is_not_written_to(unfilmed: Path) -> None:
    with RunLock(unfilmed):
        done = run_cli("film", str(unfilmed))
    assert done.returncode == 2
    assert "is being written by process" in done.stderr


def test_ctrl_c_keeps_what_was_filmed_before(filmed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(filmed, run)
    before = {name: video.read_bytes() for name, video in videos(run).items()}
    process = start_cli("film", str(run), "--which=all", "--env.delay=0.1", "--workers=1", "--fps=10")
    wait_until(lambda: list(run.glob(".film-*/videos/*/*.mp4")))  # one is whole, and the next goes on
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert {name: video.read_bytes() for name, video in videos(run).items()} == before
    assert not list(run.glob(".film-*"))
    assert stored(run) == 8


@pytest.mark.slow
@pytest.mark.gl
def test_meta_world_is_filmed_from_any_camera_and_in_any_size(tmp_path: Path) -> None:
    pytest.importorskip("metaworld")
    tree = {
        "policy": {"type": "random"},
        "env": {"type": "metaworld", "task": "reach-v3", "episode_length": 9, "visualization_width": 64,
                "visualization_height": 48},
        "eval": {"n_episodes": 1, "max_episodes_rendered": 1, "store_actions": False},
        "output_dir": str(tmp_path / "run"),
        "display": "none",
    }  # fmt: skip
    evaluate_settings(build_settings(tree))
    tree |= {"eval": {"n_episodes": 1}, "output_dir": str(tmp_path / "again")}
    evaluate_settings(build_settings(tree))
    (during,) = videos(tmp_path / "run").values()
    assert run_cli("film", str(tmp_path / "again"), f"--output_dir={tmp_path / 'same'}").returncode == 0
    (after,) = videos(tmp_path / "same").values()
    assert all((one == other).all() for one, other in zip(frames(during), frames(after), strict=True))
    words = ["--env.camera_name=topview", "--env.visualization_width=32"]
    done = run_cli("film", str(tmp_path / "again"), f"--output_dir={tmp_path / 'top'}", *words)
    assert done.returncode == 0, done.stderr
    (other,) = videos(tmp_path / "top").values()
    assert frames(other)[0].shape == (48, 32, 3)
