"""Shards, merged, are the run that one process would have made."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from made_up_run import alter

from harness import Digests, digests, flags, run_cli, run_tiny, start_cli, stored, tiny_tree, wait_until
from made_runs import make_run
from proctor.engine.merging import merge_runs
from proctor.errors import IdentityError, StoreError, UsageError
from proctor.store.episodes import EpisodeTable
from proctor.store.run_directory import Shard
from proctor.store.schema import RunningEpisode
from proctor.types import EpisodeKey

SHARDS = 3


def run_shards(place: Path, numbers: tuple[int, ...] = (0, 1, 2), **options: Any) -> None:
    asked = dict(options.pop("eval", {}))
    for number in numbers:
        shard = {"shard_id": number, "num_shards": SHARDS, "batch_size": 1 + number % 2}
        evaluation = run_tiny(place, eval={**asked, **shard}, **options)
        assert evaluation.error is None


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All shards of the reference run, not merged."""
    place = tmp_path_factory.mktemp("made") / "run"
    run_shards(place)
    return place


def copy_shards(made: Path, place: Path, *numbers: int) -> None:
    for number in numbers:
        shutil.copytree(made / f"shard_{number}_of_{SHARDS}", place / f"shard_{number}_of_{SHARDS}")


def alike(info: dict[str, Any]) -> dict[str, Any]:
    """Return what of a result must not depend on how it was run."""
    kept: dict[str, Any] = json.loads(json.dumps(info))
    del kept["timing"]
    for name in ("eval_s", "eval_ep_s"):
        del kept["overall"][name]
    for record in kept["per_episode"]:
        del record["seconds"]
    return kept


def test_merged_shards_are_the_serial_run(tmp_path: Path, made: Path, reference: Digests) -> None:
    copy_shards(made, tmp_path / "run", 0, 1, 2)
    serial = run_tiny(tmp_path / "serial", eval={"batch_size": 1})
    merged = merge_runs([tmp_path / "run"])
    assert digests(tmp_path / "run") == reference
    assert merged.missing == {}
    assert merged.twice == 0
    written = json.loads((tmp_path / "run" / "eval_info.json").read_text())
    assert alike(written) == alike(serial.info)


def test_a_shard_tells_its_part_under_its_own_name(made: Path, reference: Digests) -> None:
    place = made / "shard_1_of_3"
    info = json.loads((place / "shard_1_of_3.json").read_text())
    assert info["run"]["shard"] == {"id": 1, "of": 3}
    assert info["run"]["complete"]
    assert info["run"]["n_planned"] == 4
    assert not (place / "eval_info.json").exists()
    assert digests(place).items() <= reference.items()


@pytest.mark.slow
def test_an_interrupted_shard_resumes_with_other_workers_and_merges_to_the_same(
    tmp_path: Path, made: Path, reference: Digests
) -> None:
    copy_shards(made, tmp_path / "run", 0, 2)
    place = tmp_path / "run" / "shard_1_of_3"
    shard = {"shard_id": 1, "num_shards": SHARDS, "batch_size": 1}
    process = start_cli("eval", *flags(tiny_tree(tmp_path / "run", env={"delay": 0.02}, eval=shard)))
    wait_until(lambda: stored(place) >= 1)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert 1 <= stored(place) < 4
    gaps = run_cli("merge", str(tmp_path / "run"), f"--output_dir={tmp_path / 'early'}")
    assert gaps.returncode == 3, gaps.stderr
    assert "missing" in gaps.stderr
    again = run_cli("eval", f"--resume={place}", "--eval.batch_size=2", "--env.delay=0")
    assert again.returncode == 0, again.stderr
    merge_runs([tmp_path / "run"])
    assert digests(tmp_path / "run") == reference


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_metaworld_in_three_shards_one_interrupted_is_the_serial_run(tmp_path: Path) -> None:
    tree = {
        "policy": {"type": "random"},
        "env": {"type": "metaworld", "task": "reach-v3,door-open-v3", "episode_length": 200},
        "eval": {"n_episodes": 6},
        "display": "none",
    }

    def command(place: Path, **section: int) -> list[str]:
        whole = {**tree, "output_dir": str(place), "eval": {"n_episodes": 6, **section}}
        return ["eval", *flags(whole)]

    run = tmp_path / "run"
    shard = run / "shard_2_of_3"
    process = start_cli(*command(run, shard_id=2, num_shards=SHARDS, batch_size=1))
    wait_until(lambda: stored(shard) >= 1)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert stored(shard) < 4
    for number in range(SHARDS):
        done = run_cli(*command(run, shard_id=number, num_shards=SHARDS, batch_size=2))
        assert done.returncode == 0, done.stderr
    merged = run_cli("merge", str(run))
    assert merged.returncode == 0, merged.stderr
    serial = run_cli(*command(tmp_path / "serial", batch_size=1))
    assert serial.returncode == 0, serial.stderr
    assert digests(run) == digests(tmp_path / "serial")
    infos = [json.loads((place / "eval_info.json").read_text()) for place in (run, tmp_path / "serial")]
    for info in infos:
        for record in info["per_episode"]:
            del record["attempts"]  # the episode that was cut off may count a second one
    assert alike(infos[0]) == alike(infos[1])


def test_what_is_missing_is_named_and_the_merged_run_goes_on(
    tmp_path: Path, made: Path, reference: Digests
) -> None:
    copy_shards(made, tmp_path / "run", 0, 1)
    merged = merge_runs([tmp_path / "run"])
    assert merged.missing == {"c": [0, 1, 2, 3]}
    assert not merged.evaluation.info["run"]["complete"]
    again = run_cli("eval", f"--resume={tmp_path / 'run'}")
    assert again.returncode == 0, again.stderr
    assert digests(tmp_path / "run") == reference


def test_merging_again_takes_in_what_came_later(tmp_path: Path, made: Path, reference: Digests) -> None:
    copy_shards(made, tmp_path / "run", 0)
    merge_runs([tmp_path / "run"])
    copy_shards(made, tmp_path / "run", 1, 2)
    merged = merge_runs([tmp_path / "run"])
    assert (merged.missing, merged.twice) == ({}, 0)
    assert digests(tmp_path / "run") == reference


def test_overlapping_runs_are_counted_and_merge(tmp_path: Path, made: Path, reference: Digests) -> None:
    run_tiny(tmp_path / "whole", n_episodes=2)
    merged = merge_runs([made, tmp_path / "whole"], tmp_path / "all")
    assert merged.twice == 6
    assert digests(tmp_path / "all") == reference


def test_runs_with_more_and_fewer_episodes_per_task_merge_to_the_longer_plan(tmp_path: Path) -> None:
    run_tiny(tmp_path / "short", n_episodes=2, eval={"batch_size": 1})
    run_shards(tmp_path / "run", (0,), n_episodes=5)
    merged = merge_runs([tmp_path / "short", tmp_path / "run"], tmp_path / "all")
    assert merged.evaluation.info["run"]["n_planned"] == 15
    assert len(merged.evaluation.records) == 6 + 3


def test_other_settings_are_named_and_nothing_is_merged(tmp_path: Path) -> None:
    make_run(tmp_path / "one", {"a": [True]}, identity={"policy": {}})
    make_run(tmp_path / "two", {"a": [True]}, identity={"policy": {}}, seed=7)
    with pytest.raises(IdentityError, match=r"one and .*two are not runs of one plan(.|\n)*seed: 1000 and 7"):
        merge_runs([tmp_path / "one", tmp_path / "two"], tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_contradicting_results_are_shown_both_and_nothing_is_merged(tmp_path: Path) -> None:
    run_tiny(tmp_path / "one", n_episodes=2)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    other = {"digest": "beef", "steps": 3}
    alter(
        tmp_path / "two",
        "episodes",
        lambda row: {**row, **other} if (row["task"], row["episode_index"]) == ("b", 1) else row,
    )
    with pytest.raises(StoreError, match=r"b episode 1:\n .*one: .*\n .*two: .* 3 steps.* beef"):
        merge_runs([tmp_path / "one", tmp_path / "two"], tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_videos_come_along(tmp_path: Path) -> None:
    run_shards(tmp_path / "run", eval={"max_episodes_rendered": 1})
    merged = merge_runs([tmp_path / "run"])
    paths = [record.video_path for record in merged.evaluation.records if record.video_path]
    assert len(paths) == 3
    assert all((tmp_path / "run" / path).stat().st_size > 0 for path in paths)


def test_more_shards_than_episodes_leave_some_with_nothing_to_do(tmp_path: Path) -> None:
    for number in range(3):
        evaluation = run_tiny(tmp_path / "run", task="a", n_episodes=2, eval={"shard_id": number, "num_shards": 3})
        assert evaluation.info["run"]["complete"]
    assert merge_runs([tmp_path / "run"]).missing == {}


def test_a_run_that_is_not_trusted_can_be_left_out(tmp_path: Path, made: Path) -> None:
    copy_shards(made, tmp_path / "run", 0, 1, 2)
    merge_runs([tmp_path / "run" / f"shard_{number}_of_3" for number in (0, 1)])
    with EpisodeTable(tmp_path / "run" / "shard_2_of_3" / "run.sqlite") as table:
        table.set_meta("identity", {"seed": 3})
    merged = merge_runs([tmp_path / "run" / "shard_0_of_3"])
    assert len(merged.evaluation.records) == 8


def test_a_shard_beside_those_of_another_count_is_refused(tmp_path: Path, made: Path) -> None:
    copy_shards(made, tmp_path / "run", 0)
    with pytest.raises(UsageError, match=r"shards of another count: shard_0_of_3"):
        run_tiny(tmp_path / "run", eval={"shard_id": 0, "num_shards": 2})


def test_going_on_with_shards_that_were_not_merged_is_refused(tmp_path: Path, made: Path) -> None:
    copy_shards(made, tmp_path / "run", 0)
    shutil.copy(tmp_path / "run" / "shard_0_of_3" / "config.yaml", tmp_path / "run" / "config.yaml")
    done = run_cli("eval", f"--resume={tmp_path / 'run'}", "--eval.num_shards=1", "--eval.shard_id=0")
    assert done.returncode == 2
    assert f"proctor merge {tmp_path / 'run'}" in done.stderr


def test_a_place_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no run"):
        merge_runs([tmp_path])


def test_runs_of_several_places_need_a_name_for_the_result(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_run(tmp_path / name, {"a": [True]})
    with pytest.raises(UsageError, match="--output_dir"):
        merge_runs([tmp_path / "one", tmp_path / "two"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name the runs"),
        (("--output",), "Did you mean '--output_dir'"),
        (("here", "--output_dir"), "needs a value"),
        (("/nowhere",), "there is no such run directory"),
    ],
)
def test_a_wrong_merge_command_is_told_in_one_line(arguments: tuple[str, ...], words: str) -> None:
    done = run_cli("merge", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_resume_keeps_the_batch_shape_that_its_run_began_with(tmp_path: Path) -> None:
    source = tmp_path / "roomy.py"
    source.write_text(ROOMY)
    options: dict[str, Any] = {"policy": {"type": f"{source}:Roomy", "path": None}}
    begun = run_tiny(tmp_path / "run", n_episodes=1, **options)
    assert begun.info["run"]["identity"]["policy"]["batch"] == 4
    # Another process, in which the rule gives another shape: less memory, say.
    tree = tiny_tree(tmp_path / "run", n_episodes=2, policy={"type": f"{source}:Roomy", "path": "none"})
    done = run_cli("eval", *flags(tree), extra_env={"ROOM": "2"})
    assert done.returncode == 0, done.stderr
    assert len(digests(tmp_path / "run")) == 6


ROOMY = """
import os
from dataclasses import dataclass
import numpy as np
from proctor.config.settings import DevicePolicySettings
from proctor.policies.protocol import Actions, Policy, PolicySpec

BY_RULE = int(os.environ.get("ROOM", 4))

@dataclass(frozen=True, kw_only=True)
class Settings(DevicePolicySettings):
    pass

class Roomy(Policy):
    Settings = Settings

    def __init__(self, batch):
        self._batch = batch

    @classmethod
    def from_settings(cls, settings, benchmark):
        return cls(settings.batch_size or BY_RULE)

    @property
    def spec(self):
        return PolicySpec(observation_keys=(), action_size=2, batch=self._batch, fingerprint="roomy")

    def act(self, windows, memories, generators):
        return Actions([np.zeros((1, 2)) for _ in windows], memories)
"""


def test_a_run_that_a_rule_ended_stays_ended_until_the_plan_is_whole(tmp_path: Path) -> None:
    rule = {"stop_when": "ci<=0.12", "batch_size": 2}
    ended = run_tiny(tmp_path / "ended", n_episodes=60, eval=rule)
    stop = ended.info["run"]["stopped"]
    assert stop is not None
    merged = merge_runs([tmp_path / "ended"], tmp_path / "merged").evaluation
    assert merged.info["run"]["stopped"] == stop
    assert merged.info["overall"]["pc_success"] == ended.info["overall"]["pc_success"]
    shown = {key: merged.info["intervals"]["overall"][key] for key in ("low", "high", "method")}
    assert shown == {key: stop["interval"][key] for key in ("low", "high", "method")}
    run_tiny(tmp_path / "whole", n_episodes=60, eval={"batch_size": 2})
    both = merge_runs([tmp_path / "ended", tmp_path / "whole"], tmp_path / "both").evaluation
    assert both.info["run"]["stopped"] is None
    assert both.info["intervals"]["overall"]["n_episodes"] == 180


def test_shards_that_were_cut_short_merge_to_an_estimate_over_all_that_they_started(tmp_path: Path) -> None:
    outcomes = {"a": [True, True, False] * 8}
    for number in range(2):
        path = make_run(tmp_path / "run", outcomes, shard=Shard(number, 2), missing=[("a", 20), ("a", 23)])
        with EpisodeTable(path / f"shard_{number}_of_2" / "run.sqlite") as table:
            table.write([], running=[RunningEpisode(EpisodeKey("a", 0, 20 if number == 0 else 23), 60)])
    merged = merge_runs([tmp_path / "run"]).evaluation
    assert merged.results.overall[:2] == (16, 22)
    assert merged.results.overall.running == 2
    # Both have run longer than any success, as the failures did.
    assert merged.info["overall"]["pc_success"] == pytest.approx(100 * 16 / 24)
    assert merged.info["run"]["estimate"]["pc_success_ended"] == pytest.approx(100 * 16 / 22)
