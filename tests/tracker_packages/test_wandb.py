"""What wandb keeps of a run, offline; read with wandb's own records and its own `wandb sync`."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wandb.proto.wandb_internal_pb2 import Record

from harness import flags, run_cli, tiny_tree
from tracked import evaluate_and_extend

BLOCK = 32768


def records(file: Path) -> Iterator[Any]:
    """Read a .wandb file: records in blocks, as LevelDB's log has them."""
    data, place, content = file.read_bytes(), 7, b""
    while place + 7 <= len(data):
        left = BLOCK - place % BLOCK
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        content += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            record = Record()
            record.ParseFromString(content)
            yield record
            content = b""


def runs(place: Path) -> list[list[Any]]:
    return [list(records(file)) for file in sorted(place.glob("wandb/offline-run-*/run-*.wandb"))]


def history(found: list[Any]) -> list[dict[str, Any]]:
    rows = [record.history for record in found if record.WhichOneof("record_type") == "history"]
    return [{"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in row.item} for row in rows]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    place = tmp_path_factory.mktemp("wandb") / "run"
    chosen = {"mode": "offline", "project": "mine", "entity": "me", "notes": "why it was run"}
    return place, evaluate_and_extend(place, "wandb", {}, wandb=chosen, job_name="called so")


def test_wandb_keeps_settings_progress_and_result(run: tuple[Path, dict[str, Any]]) -> None:
    place, info = run
    for found, steps in zip(runs(place), (9, 12), strict=True):
        about = next(record.run for record in found if record.WhichOneof("record_type") == "run")
        assert (about.project, about.entity, about.display_name) == ("mine", "me", "called so")
        assert about.notes == "why it was run"
        assert [tag.partition(":")[0] for tag in about.tags] == ["policy", "seed", "env"]
        assert "seed:1000" in about.tags
        assert all(len(tag) <= 64 for tag in about.tags)
        config = {item.key: json.loads(item.value_json) for item in about.config.update}
        assert config["env"]["task"] == "a,b,c"
        assert config["run_directory"] == str(place)
        rows = history(found)
        assert rows[-1]["_step"] == steps
        assert [row["_step"] for row in rows] == sorted(row["_step"] for row in rows)
        assert rows[-1]["episodes/nrows"] == steps
        assert rows[-1]["videos/count"] == 3
        assert found[-1].WhichOneof("record_type") == "exit"
        assert found[-1].exit.exit_code == 0
    assert rows[-1]["eval/pc_success"] == pytest.approx(info["overall"]["pc_success"])
    assert rows[-1]["eval/n_errors"] == 1
    assert "live/episodes_per_s" in rows[-1]


def test_a_continuation_is_the_same_run(run: tuple[Path, dict[str, Any]]) -> None:
    ids = {record.run.run_id for found in runs(run[0]) for record in found if record.HasField("run")}
    assert ids == {json.loads((run[0] / "trackers.json").read_text())["wandb"]}


def test_wandb_itself_would_upload_it(run: tuple[Path, dict[str, Any]]) -> None:
    places = sorted(run[0].glob("wandb/offline-run-*"))
    done = subprocess.run(
        [sys.executable, "-m", "wandb", "sync", "--dry-run", *map(str, places)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert all(place.name in done.stdout + done.stderr for place in places)


def test_disabled_leaves_nothing(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", n_episodes=1, task="a", wandb={"enable": True, "mode": "disabled"})
    done = run_cli("eval", *flags(tree))
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "run").rglob("*.wandb"))


def test_variables_hold_for_what_is_left_open(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", n_episodes=1, task="a", report_to="wandb")
    variables = {"WANDB_MODE": "offline", "WANDB_PROJECT": "theirs", "WANDB_NAME": "named"}
    done = run_cli("eval", *flags(tree), extra_env=variables)
    assert done.returncode == 0, done.stderr
    about = next(record.run for record in runs(tmp_path / "run")[0] if record.HasField("run"))
    assert (about.project, about.display_name) == ("theirs", "named")


def test_tags_and_the_table_may_be_left_out(tmp_path: Path) -> None:
    chosen = {"enable": True, "mode": "offline", "add_tags": False, "disable_artifact": True}
    done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", n_episodes=1, task="a", wandb=chosen)))
    assert done.returncode == 0, done.stderr
    (found,) = runs(tmp_path / "run")
    assert not next(record.run for record in found if record.HasField("run")).tags
    last = history(found)[-1]
    assert "eval/n_errors" in last
    assert not any(name.startswith("episodes") for name in last)


def test_online_without_a_login_costs_a_note(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", n_episodes=1, task="a", report_to="wandb", display="plain")
    nobody = {"HOME": str(tmp_path), "WANDB_API_KEY": "", "WANDB_MODE": "online", "NETRC": str(tmp_path / "none")}
    done = run_cli("eval", *flags(tree), extra_env=nobody)
    assert done.returncode == 0, done.stderr
    assert "wandb: " in done.stdout
    assert "The run and its results are not affected." in done.stdout


def test_the_runs_own_tags_come_first_and_its_words_are_its_notes(tmp_path: Path) -> None:
    chosen = {"enable": True, "mode": "offline"}
    words: dict[str, Any] = {"tags": "baseline,paper", "description": "why", "notes": "what was seen"}
    done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", n_episodes=1, task="a", wandb=chosen, **words)))
    assert done.returncode == 0, done.stderr
    (found,) = runs(tmp_path / "run")
    about = next(record.run for record in found if record.HasField("run"))
    assert set(about.tags) >= {"baseline", "paper", "seed:1000"}
    assert about.notes == "why\n\nwhat was seen"
