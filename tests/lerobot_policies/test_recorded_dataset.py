"""A recorded dataset is one that lerobot itself loads, with the frames and actions that were recorded."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lerobot.datasets import LeRobotDataset
from lerobot.datasets.compute_stats import aggregate_stats, compute_episode_stats
from lerobot.utils.feature_utils import dataset_to_policy_features

from harness import run_tiny
from lerobot_checkpoints import SIDE
from lerobot_runs import evaluate
from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.results import Evaluation
from proctor.types import IMAGE, STATE, Episode
from recordings import ROUNDED, frames, origins, play_again, rows


def load(dataset: Path, **options: Any) -> LeRobotDataset:
    return LeRobotDataset("proctor/recorded", root=dataset, **options)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tiny") / "run"
    assert run_tiny(place, eval={"recording": True}, policy=ROUNDED).error is None
    return place / "dataset"


@pytest.fixture(scope="module")
def metaworld(tmp_path_factory: pytest.TempPathFactory, checkpoint: Any) -> Evaluation:
    """ACT on two tasks of Meta-World, recorded by two workers."""
    place = tmp_path_factory.mktemp("metaworld") / "run"
    return evaluate(
        place,
        checkpoint("act"),
        eval={"n_episodes": 1, "batch_size": 2, "recording": True},
    )


def test_lerobot_loads_it_and_yields_every_step(tiny: Path) -> None:
    dataset = load(tiny)
    assert dataset.num_episodes == 12
    assert dataset.fps == 30
    shown = frames(tiny)
    assert dataset.num_frames == len(shown)
    number = 0
    for origin, steps in zip(origins(tiny), rows(tiny), strict=True):
        played = play_again(origin, np.asarray(steps["action"], np.float32))
        for step in range(len(played.rewards)):
            item = dataset[number]
            np.testing.assert_array_equal(item["observation.state"].numpy(), played.states[step])
            assert item["next.reward"].item() == played.rewards[step]
            assert item["next.success"].item() is played.successes[step]
            assert item["next.done"].item() is played.done[step]
            assert item["task"] == f"do {origin['task']}"
            picture = (item["observation.image"].numpy() * 255).round().transpose(1, 2, 0)
            np.testing.assert_array_equal(picture, shown[number])
            number += 1


def test_a_policys_windows_and_chosen_episodes_work(tiny: Path) -> None:
    third = 1 / 30
    dataset = load(
        tiny, episodes=[3, 7], delta_timestamps={"action": [0, third], "observation.image": [-third, 0]}
    )
    item = dataset[1]
    assert item["action"].shape == (2, 2)
    assert item["observation.image"].shape == (2, 3, 8, 6)
    assert item["episode_index"].item() == 3
    assert dataset.num_episodes == 2


def test_its_statistics_are_those_that_lerobot_would_compute(tiny: Path) -> None:
    dataset = load(tiny)
    features = {name: f for name, f in dataset.features.items() if f["dtype"] not in ("video",)}
    episodes = [
        compute_episode_stats({name: np.asarray(steps[name]) for name in features}, features)
        for steps in rows(tiny)
    ]
    for name, expected in aggregate_stats(episodes).items():
        for stat in ("min", "max", "mean", "std", "count"):
            np.testing.assert_allclose(dataset.meta.stats[name][stat], expected[stat], rtol=1e-4, atol=1e-5)
        # LeRobot reads quantiles off histograms; between few values it rounds where we interpolate.
        spread = expected["max"] - expected["min"] + 1e-6
        assert (np.abs(dataset.meta.stats[name]["q50"] - expected["q50"]) <= spread / 2).all()
    assert dataset.meta.stats["observation.image"]["mean"].shape == (3, 1, 1)


def test_its_files_have_the_columns_that_lerobot_writes(metaworld: Evaluation, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    place = metaworld.directory / "dataset"
    ours = load(place)
    names = [
        name
        for name in ours.features
        if name in (IMAGE, STATE, "action", "policy_action") or name.startswith("next.")
    ]
    own = LeRobotDataset.create(
        "proctor/own",
        ours.fps,
        {n: ours.features[n] for n in names},
        root=tmp_path / "own",
        robot_type="metaworld",
    )
    for number in range(4):
        item = ours[number]
        frame = {name: np.asarray(item[name]).reshape(ours.features[name]["shape"]) for name in names[1:]}
        picture = (item[IMAGE].numpy() * 255).astype(np.uint8).transpose(1, 2, 0)
        own.add_frame({IMAGE: picture, **frame, "task": item["task"]})
    own.save_episode()
    own.finalize()
    for folder in ("data", "meta/episodes"):
        file = f"{folder}/chunk-000/file-000.parquet"
        theirs, written = pq.read_schema(tmp_path / "own" / file), pq.read_schema(place / file)
        assert set(written.names) == set(theirs.names)
        if folder == "data":
            assert {f.name: f.type for f in written} == {f.name: f.type for f in theirs}
    assert set(ours.meta.info.to_dict()) == set(own.meta.info.to_dict())
    assert set(ours.meta.info.features[IMAGE]["info"]) <= set(own.meta.info.features[IMAGE]["info"])


def test_the_frames_are_what_meta_world_showed_the_policy(metaworld: Evaluation) -> None:
    dataset = load(metaworld.directory / "dataset")
    assert dataset.num_episodes == 2
    assert dataset.fps == 80
    steps = {record.task: record.steps for record in metaworld.records}
    settings = MetaWorldSettings(
        type="metaworld",
        task="reach-v3,push-v3",
        observation_height=SIDE,
        observation_width=SIDE,
        episode_length=steps["reach-v3"],
    )
    # One drawing simulator in a process: the first task's episode, played again with the recorded actions.
    benchmark = MetaWorld(settings)
    task = benchmark.tasks()[0]
    simulator = benchmark.make_simulator(task)
    try:
        simulator.reset(Episode(task, 0, 1000), frozenset({IMAGE, STATE}))
        for number in range(steps["reach-v3"]):
            item, seen = dataset[number], simulator.observe()
            assert item["task"] == task.prompt
            np.testing.assert_array_equal(item[STATE].numpy(), seen[STATE].astype(np.float32))
            picture = item[IMAGE].numpy().transpose(1, 2, 0) * 255
            assert np.abs(picture - seen[IMAGE]).mean() < 8, f"frame {number}"
            simulator.step(item["action"].numpy(), frozenset({IMAGE, STATE}))
    finally:
        simulator.close()


def test_recording_changes_no_action_of_a_checkpoint(
    metaworld: Evaluation, checkpoint: Any, tmp_path: Path
) -> None:
    plain = evaluate(
        tmp_path / "plain",
        checkpoint("act"),
        eval={"n_episodes": 1, "batch_size": 2},
    )
    assert {r.key: r.digests for r in plain.records} == {r.key: r.digests for r in metaworld.records}


def test_its_features_are_a_policys(metaworld: Evaluation) -> None:
    features = dataset_to_policy_features(load(metaworld.directory / "dataset").features)
    assert features[IMAGE].shape == (3, SIDE, SIDE)
    assert features["action"].shape == (4,)
    labels = [name for name, feature in features.items() if feature.type.name == "ACTION"]
    assert labels == ["action"], "what the policy wanted is no label"


_DECODE = """
import sys
import numpy as np
from lerobot.datasets import LeRobotDataset
dataset = LeRobotDataset("proctor/recorded", root=sys.argv[1], video_backend="torchcodec")
np.save(sys.argv[2], np.stack([dataset[n]["observation.image"].numpy() for n in range(len(dataset))]))
"""


def test_torchcodec_reads_the_same_frames(tiny: Path, tmp_path: Path) -> None:
    """LeRobot's first choice of a decoder. It needs FFmpeg, which PyAV's wheel has under other names."""
    spec = importlib.util.find_spec("av")
    assert spec is not None
    assert spec.origin is not None
    for library in (Path(spec.origin).parents[1] / "av.libs").glob("lib[as][vw]*.so*"):
        name, _, version = library.name.partition(".so.")
        (tmp_path / f"{name.partition('-')[0]}.so.{version.partition('.')[0]}").symlink_to(library)
    done = subprocess.run(
        [sys.executable, "-c", _DECODE, str(tiny), str(tmp_path / "frames.npy")],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    shown = (np.load(tmp_path / "frames.npy") * 255).round().transpose(0, 2, 3, 1)
    # It converts colours by itself, and rounds otherwise.
    assert np.abs(shown - np.asarray(frames(tiny), np.float64)).mean() < 2
