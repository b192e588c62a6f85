"""Datasets of episodes that do not look like the tiny benchmark's, or that were made in the middle of a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proctor.errors import SimulatorError, StoreError
from proctor.recording import clips
from proctor.recording import dataset as layout
from proctor.recording.assembly import assemble, recover
from proctor.recording.recorder import EpisodeRecorder, RecordingOptions
from proctor.recording.sources import RecordingSource
from proctor.store.schema import EpisodeRecord
from proctor.types import BenchmarkSpec, Episode, Feature, Outcome, Task
from recordings import content, frames

pytest.importorskip("pyarrow")
pytest.importorskip("av")

CAMERA, ODD, GRID = "observation.images.top", "observation.images.odd", "observation.grid"
SPEC = BenchmarkSpec(
    name="made up",
    features={
        CAMERA: Feature((32, 48, 3), "uint8", drawn=True),
        ODD: Feature((15, 17, 3), "uint8", drawn=True),
        "robot/pose": Feature((), "float64"),
        GRID: Feature((2, 3), "int16"),
    },
    action_size=1,
)
TASK = Task(group="g", task_id=0, name="t", prompt="do it", max_steps=99)


def picture(shape: tuple[int, ...], phase: float) -> np.ndarray[Any, Any]:
    """Return a smooth picture, which a codec keeps."""
    y, x, colour = np.meshgrid(*map(np.arange, shape), indexing="ij")
    return (127 + 120 * np.sin(x / 9 + y / 7 + colour + phase)).astype(np.uint8)


def seen(step: int) -> dict[str, Any]:
    return {
        CAMERA: picture((32, 48, 3), step / 3),
        ODD: picture((15, 17, 3), step / 2),
        "robot/pose": np.asarray(step / 7),
        GRID: np.full((2, 3), step, np.int16),
        "observation.more": np.zeros(5),
    }


def record(run: Path, index: int, steps: int, spec: BenchmarkSpec = SPEC, digest: str | None = None) -> Episode:
    episode = Episode(TASK, index, 1000 + index)
    recorder = EpisodeRecorder(
        run / "recording" / "g_0" / f"episode_{index}", episode, spec, RecordingOptions(fps=10)
    )
    for step in range(steps):
        recorder.observe(seen(step + index))
        outcome = Outcome(step / 2, False, False, step == 3)
        recorder.act(np.asarray([step]), np.asarray([step]), outcome, step + 1 == steps)
    recorder.finish(result(episode, steps, digest))
    return episode


def result(episode: Episode, steps: int, digest: str | None = None) -> EpisodeRecord:
    return EpisodeRecord(
        "g", 0, "t", episode.index, episode.seed, "finished", True, 1.0, 1.0, steps, digest=digest or str(steps)
    )


def test_all_shapes_come_back(tmp_path: Path) -> None:
    plan = [record(tmp_path, 0, 5), record(tmp_path, 1, 8)]
    assert assemble(tmp_path, [result(plan[0], 5), result(plan[1], 8)]) == 2
    found = RecordingSource(tmp_path).find(plan[1].key, ("8", None))
    assert found is not None
    np.testing.assert_array_equal(
        found.rows["robot.pose"], np.asarray([[(s + 1) / 7] for s in range(8)], np.float32)
    )
    np.testing.assert_array_equal(found.rows[GRID], [np.full((2, 3), s + 1) for s in range(8)])
    assert found.rows[GRID].dtype == np.int16
    assert found.rows["next.success"].ravel().tolist() == [s == 3 for s in range(8)]
    for name in (CAMERA, ODD):
        shown = frames(tmp_path / "dataset", name)
        true = [seen(s)[name] for s in [*range(5), *range(1, 9)]]
        assert len(shown) == len(true)
        assert max(np.abs(a.astype(int) - b).mean() for a, b in zip(shown, true, strict=True)) < 6


def test_episodes_go_on_in_further_files_when_one_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = [record(tmp_path, index, 20) for index in range(6)]
    results = [result(episode, 20) for episode in plan]
    monkeypatch.setattr(layout, "REEL_SECONDS", 4)  # two episodes of two seconds
    monkeypatch.setattr(layout, "DATA_MB", 0)
    monkeypatch.setattr(layout, "CHUNK_FILES", 2)
    assemble(tmp_path, results)
    dataset = tmp_path / "dataset"
    videos = sorted(str(f.relative_to(dataset / "videos" / CAMERA)) for f in dataset.glob(f"videos/{CAMERA}/*/*"))
    assert videos == ["chunk-000/file-000.mp4", "chunk-000/file-001.mp4", "chunk-001/file-000.mp4"]
    assert len(list(dataset.glob("data/*/*.parquet"))) == 6
    before = content(dataset)
    assert assemble(tmp_path, results) == 6, "from the dataset itself, which now is all there is"
    assert content(dataset) == before


def test_clips_of_another_encoder_do_not_share_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = [record(tmp_path, 0, 4)]
    monkeypatch.setitem(clips.OPTIONS, "preset", "slow")
    plan.append(record(tmp_path, 1, 4))
    assemble(tmp_path, [result(episode, 4) for episode in plan])
    assert len(list(tmp_path.glob(f"dataset/videos/{CAMERA}/*/*.mp4"))) == 2
    assert len(frames(tmp_path / "dataset", CAMERA)) == 8


def test_a_piece_of_another_attempt_is_not_taken(tmp_path: Path) -> None:
    plan = [record(tmp_path, 0, 4, digest="this"), record(tmp_path, 1, 4, digest="that")]
    assert assemble(tmp_path, [result(plan[0], 4, "this"), result(plan[1], 4, "else")]) == 1


def test_episodes_of_different_kinds_are_refused(tmp_path: Path) -> None:
    other = BenchmarkSpec("made up", {GRID: Feature((2, 3), "int16")}, action_size=1)
    plan = [record(tmp_path, 0, 4), record(tmp_path, 1, 4, other)]
    with pytest.raises(StoreError, match="recorded differently"):
        assemble(tmp_path, [result(episode, 4) for episode in plan])
    assert len(list(tmp_path.glob("recording/*/*/piece.json"))) == 2
    assert not (tmp_path / "dataset.part").exists()


def test_an_observation_of_another_shape_is_the_simulators_error(tmp_path: Path) -> None:
    recorder = EpisodeRecorder(tmp_path / "a" / "b", Episode(TASK, 0, 1), SPEC, RecordingOptions(fps=10))
    with pytest.raises(SimulatorError, match="robot/pose"):
        recorder.observe({**seen(0), "robot/pose": np.zeros(2)})
    recorder.abandon()
    assert list((tmp_path / "a").iterdir()) == []


def test_a_crash_between_the_renames_is_put_right(tmp_path: Path) -> None:
    plan = [record(tmp_path, 0, 4)]
    assemble(tmp_path, [result(plan[0], 4)])
    before = content(tmp_path / "dataset")
    (tmp_path / "dataset").rename(tmp_path / "dataset.old")
    (tmp_path / "dataset.part").mkdir()
    (tmp_path / "recording" / "g_0" / "episode_7.part").mkdir(parents=True)
    recover(tmp_path)
    assert content(tmp_path / "dataset") == before
    assert {place.name for place in tmp_path.iterdir()} == {"dataset", "recording"}
    assert list((tmp_path / "recording" / "g_0").iterdir()) == []
