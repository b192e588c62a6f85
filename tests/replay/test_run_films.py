"""A run films what it was asked to film after its results are stored, and no film changes what they are."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

import proctor
from harness import (
    SUPPORT,
    THOUGHTFUL,
    digests,
    flags,
    run_cli,
    run_tiny,
    start_cli,
    stored,
    tiny_tree,
    wait_until,
)
from proctor.engine.merging import merge_runs
from proctor.events import Watcher
from proctor.report.page.episode import ON_ITS_PAGE, episode_view
from proctor.results import ScoredRun
from proctor.store.observed import read_observed
from proctor.store.stored_run import StoredRun
from replay.test_film import failures, frames, videos
from replay.test_replay import forge

pytest.importorskip("av")

SHORT = {"max_steps": 12}


class Notes(Watcher):
    """Keeps what is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, message: str) -> None:
        self.lines.append(message)


@pytest.fixture(scope="module")
def as_they_ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was filmed while it went on, of the whole plan."""
    path = tmp_path_factory.mktemp("during") / "run"
    run_tiny(path, task="a,b", env=SHORT, eval={"video": "all", "store_actions": False})
    return path


def test_failures_are_filmed_after_the_run_with_the_frames_of_the_run(tmp_path: Path, as_they_ran: Path) -> None:
    notes = Notes()
    done = run_tiny(tmp_path / "run", task="a,b", env=SHORT, eval={"video": "failures"}, watcher=notes)
    made, during = videos(tmp_path / "run"), videos(as_they_ran)
    assert sorted(made) == failures(tmp_path / "run")
    assert len(during) == 8 > len(made) > 0
    for name, video in made.items():
        mine, theirs = frames(video), frames(during[name])
        assert all((one == other).all() for one, other in zip(mine, theirs, strict=True))
    assert digests(tmp_path / "run") == digests(as_they_ran)
    assert any("from stored actions; Ctrl-C ends that and loses no result" in line for line in notes.lines)
    assert sorted(filter(None, (record.video_path for record in done.records))) == sorted(made)
    assert sorted(made)[0] in json.dumps(done.info)
    assert done.unfilmed == 0


@pytest.mark.parametrize(
    ("ways", "why"),
    [
        ({"store_actions": False}, "actions are not stored"),
        ({"use_async_envs": False}, "everything runs in this process"),
    ],
)
def test_what_cannot_be_replayed_is_filmed_as_it_runs_and_the_run_says_so(
    tmp_path: Path, as_they_ran: Path, ways: dict[str, Any], why: str
) -> None:
    notes = Notes()
    run_tiny(tmp_path / "run", task="a,b", env=SHORT, eval={"video": "failures", **ways}, watcher=notes)
    assert [line for line in notes.lines if why in line and "every episode is drawn" in line]
    assert sorted(videos(tmp_path / "run")) == failures(tmp_path / "run") == failures(as_they_ran)
    assert digests(tmp_path / "run") == digests(as_they_ran)
    assert not list((tmp_path / "run").glob("videos/*/*.part"))


def test_a_benchmark_that_says_it_cannot_be_replayed_is_filmed_as_it_runs(tmp_path: Path) -> None:
    notes = Notes()
    env = {"type": f"{SUPPORT / 'unrepeatable.py'}:SaysSo", **SHORT}
    run_tiny(tmp_path / "run", task="a", n_episodes=2, env=env, eval={"video": "1"}, watcher=notes)
    assert any("simulators cannot be replayed" in line for line in notes.lines)
    assert list(videos(tmp_path / "run")) == ["videos/a_0/eval_episode_0.mp4"]


def test_a_film_that_would_show_another_episode_is_not_made_and_the_outcomes_stay(tmp_path: Path) -> None:
    notes = Notes()
    env = {"type": f"{SUPPORT / 'unrepeatable.py'}:Keeps", **SHORT}
    done = run_tiny(tmp_path / "run", task="a", n_episodes=2, env=env, eval={"video": "all"}, watcher=notes)
    assert done.error is None
    assert (len(done.records), done.unfilmed) == (2, 2)
    assert not videos(tmp_path / "run")
    assert any("no video: it would show another episode" in line for line in notes.lines)
    assert any("--eval.store_actions=false" in line for line in notes.lines)


def test_a_run_that_goes_on_gets_the_videos_that_it_lacks(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run_tiny(run, task="a,b", n_episodes=1, env=SHORT, eval={"video": "2"})
    first = {name: video.stat().st_ino for name, video in videos(run).items()}
    assert sorted(first) == ["videos/a_0/eval_episode_0.mp4", "videos/b_0/eval_episode_0.mp4"]
    done = run_cli("eval", f"--resume={run}", "--eval.n_episodes=3", "--display=plain")
    assert done.returncode == 0, done.stderr
    assert {name: videos(run)[name].stat().st_ino for name in first} == first, "they are not made again"
    assert len(videos(run)) == 4
    assert "videos:" in done.stdout


@pytest.mark.slow
def test_a_run_that_is_stopped_is_not_filmed_and_its_films_come_with_the_rest(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", task="a,b", env={**SHORT, "delay": 0.05}, eval={"video": "all"})
    process = start_cli("eval", *flags(tree))
    wait_until(lambda: stored(tmp_path / "run"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert not videos(tmp_path / "run")
    assert run_cli("eval", f"--resume={tmp_path / 'run'}", "--env.delay=0").returncode == 0
    assert len(videos(tmp_path / "run")) == 8


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_whoever_ends_the_filming_loses_no_outcome_and_is_told_how_it_is_finished(
    tmp_path: Path, number: signal.Signals
) -> None:
    run = tmp_path / "run"
    ways = {"video": "all", "batch_size": 1}
    tree = tiny_tree(run, task="a,b", n_episodes=2, env={**SHORT, "delay": 0.05}, eval=ways)
    process = start_cli("eval", *flags(tree))
    # Two are whole: of the first the run knows it.
    wait_until(lambda: len(list(run.glob(".film-*/videos/*/*.mp4"))) > 1)
    before = digests(run)
    info = json.loads((run / "eval_info.json").read_text())
    assert info["run"]["complete"], "all is stored before the first film begins"
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode in (128 + number, -number)
    assert digests(run) == before
    assert len(before) == 4
    if number != signal.SIGKILL:
        assert f"the run is complete. To make them: proctor film {run} --which=missing" in said
        assert not list(run.glob(".film-*"))
        assert 0 < len(videos(run)) < 4, "those that are whole are kept"
    done = run_cli("film", str(run), "--which=missing")
    assert done.returncode == 0, done.stderr
    assert len(videos(run)) == 4
    assert digests(run) == before
    assert not list(run.glob(".film-*"))
    again = run_cli("film", str(run), "--which=missing")
    assert (again.returncode, "has all videos that its --eval.video asks for" in again.stderr) == (2, True)


def test_films_that_cannot_be_written_cost_no_result(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "videos").mkdir(parents=True)
    (run / "videos" / "a_0").write_text("somebody's own")
    done = run_cli(
        "eval", *flags(tiny_tree(run, task="a", n_episodes=1, env=SHORT, eval={"video": "all"}, display="plain"))
    )
    assert done.returncode == 0, done.stderr
    assert "no videos: cannot write" in done.stdout
    assert "not filmed: 1 episode." in done.stdout
    assert f"proctor film {run} --which=missing" in done.stdout
    assert len(digests(run)) == 1


@pytest.mark.slow
def test_shards_are_filmed_once_they_are_one_run(tmp_path: Path, as_they_ran: Path) -> None:
    tree = tiny_tree(tmp_path / "run", task="a,b", env=SHORT, eval={"video": "failures"})
    done = run_cli("parallel", "--num-shards=2", *flags(tree))
    assert done.returncode == 0, done.stderr
    assert sorted(videos(tmp_path / "run")) == failures(as_they_ran)
    assert not list((tmp_path / "run").glob("shard_*/videos"))
    assert ScoredRun.open(tmp_path / "run").settings["eval"]["video"] == "failures"


def test_a_film_keeps_the_numbers_that_could_be_observed_and_pages_show_them(tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = run_tiny(run, task="a", n_episodes=2, env=SHORT, eval={"video": "1"})
    first, second = done.records
    found = read_observed(run, first.key, first.steps)
    assert found is not None
    assert list(found.names) == [f"observation.state {number}" for number in range(3)]
    with StoredRun.open(run).table() as table:
        trajectory = table.trajectory(first.key)
    assert trajectory is not None
    # The tiny benchmark's layout is its first state, and its reward the sum of the state.
    assert found.values[0, :2].tolist() == pytest.approx([first.layout["x"], first.layout["y"]])
    assert found.values[1:].sum(axis=1).tolist() == pytest.approx(trajectory.rewards.tolist(), abs=1e-5)
    assert read_observed(run, second.key, second.steps) is None, "it was not filmed"
    shown = episode_view(StoredRun.open(run), first, "e", ON_ITS_PAGE, None).trace
    assert all(name in shown for name in ("reward", "action 1", *found.names))
    unfilmed = episode_view(StoredRun.open(run), second, "e", ON_ITS_PAGE, None).trace
    assert ("action 1" in unfilmed, found.names[0] in unfilmed) == (True, False)
    # They go with their film: into a merged run, and away when another takes its place.
    merge_runs([run], tmp_path / "merged")
    assert read_observed(tmp_path / "merged", first.key, first.steps) is not None
    assert run_cli("film", str(run), "a:0").returncode == 0
    assert read_observed(run, first.key, first.steps) is not None


def test_an_evaluator_films_every_evaluation(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "x", env=SHORT)
    settings = {"eval": {"max_episodes_rendered": 1}}
    env = {name: value for name, value in tree["env"].items() if name not in ("type", "task")}
    with proctor.Evaluator(
        benchmark=tree["env"]["type"],
        task="a",
        n_episodes=2,
        workers=1,
        display="none",
        env=env,
        settings=settings,
    ) as evaluator:
        for name in ("one", "two"):
            result = evaluator.evaluate(THOUGHTFUL, output_dir=tmp_path / name)
            assert [record.video_path is not None for record in result] == [True, False]
            assert list(videos(tmp_path / name)) == ["videos/a_0/eval_episode_0.mp4"]


@pytest.mark.slow
def test_a_recorded_run_is_filmed_too_and_its_dataset_stays(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    tree = tiny_tree(tmp_path / "run", task="a", env=SHORT)
    del tree["eval"]["n_episodes"]
    done = run_cli("record", "--demonstrations=1", "--eval.video=1", *flags(tree))
    assert done.returncode in (0, 1), done.stderr
    assert list(videos(tmp_path / "run")) == (["videos/a_0/eval_episode_0.mp4"] if done.returncode == 0 else [])


@pytest.mark.slow
def test_an_outcome_that_was_forged_meanwhile_gets_no_film(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run_tiny(run, task="a", n_episodes=1, env=SHORT)
    forge(run, "a", 0, sum_reward=99.0)
    done = run_cli("eval", f"--resume={run}", "--eval.video=all")
    assert done.returncode == 0, done.stderr
    assert "no video: it would show another episode" in done.stdout
    assert "not filmed: 1 episode." in done.stdout
    assert not videos(run)
