"""LIBERO through the command line: workers, videos, where assets come from, and what a run is known by."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import SUPPORT, digests, flags, run_cli, start_cli
from libero_assets import ARTICULATED, PICK_AND_PLACE

GAZE = f"{SUPPORT / 'libero_policy.py'}:Gaze"
SUITES = f"{PICK_AND_PLACE[0]},{ARTICULATED[0]}"


def evaluate(
    directory: Path,
    *,
    assets: Path | None = None,
    policy: Mapping[str, Any] | None = None,
    env: Mapping[str, Any] | None = None,
    eval: Mapping[str, Any] | None = None,
    extra_env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `proctor eval` on the first task of two suites."""
    tree = {
        "policy": policy or {"path": GAZE},
        "env": {
            "type": "libero",
            "task": SUITES,
            "task_ids": "[0]",
            "observation_height": 48,
            "observation_width": 64,
            "episode_length": 25,
            **({"assets_path": str(assets)} if assets is not None else {}),
            **(env or {}),
        },
        "eval": {"n_episodes": 2, **(eval or {})},
        "output_dir": str(directory),
        "display": "plain",
    }
    process = start_cli("eval", *flags(tree), extra_env=extra_env)
    out, err = process.communicate(timeout=280)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture(scope="module")
def one_worker(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a policy that looks at everything, one worker after the other."""
    directory = tmp_path_factory.mktemp("runs") / "one"
    done = evaluate(directory, assets=assets, eval={"batch_size": 1})
    assert done.returncode == 0, done.stderr
    return directory


def test_four_workers_and_videos_change_no_digest(one_worker: Path, assets: Path, tmp_path: Path) -> None:
    done = evaluate(tmp_path / "run", assets=assets, eval={"batch_size": 4, "max_episodes_rendered": 1})
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "run") == digests(one_worker)
    assert len(set(digests(one_worker).values())) == 4
    videos = sorted((tmp_path / "run").rglob("*.mp4"))
    assert len(videos) == 2
    assert all(video.stat().st_size > 1000 for video in videos)


def test_one_process_gives_the_same_digests(one_worker: Path, assets: Path, tmp_path: Path) -> None:
    done = evaluate(tmp_path / "run", assets=assets, eval={"use_async_envs": False})
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "run") == digests(one_worker)


def test_stored_actions_give_the_episodes_again_pictures_included(one_worker: Path) -> None:
    done = run_cli("replay", str(one_worker))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 of 4 episodes the same" in done.stdout
    assert "pixels not" not in done.stdout
    info = json.loads((one_worker / "eval_info.json").read_text())
    for one in info["per_episode"]:
        assert one["layout"]["initial_state"] == one["episode_index"]
        assert {"akita_black_bowl_1_x", "plate_1_y"} <= one["layout"].keys(), "where failures lie has two numbers"


def test_the_random_policy_runs_without_any_picture(assets: Path, tmp_path: Path) -> None:
    done = evaluate(tmp_path / "run", assets=assets, policy={"type": "random"})
    assert done.returncode == 0, done.stderr
    info = json.loads((tmp_path / "run" / "eval_info.json").read_text())
    assert info["overall"]["n_episodes"] == 4
    assert set(info["per_group"]) == {"libero_spatial", "libero_goal"}
    assert [entry["task_id"] for entry in info["per_task"]] == [0, 0]
    assert {entry["steps"] for entry in info["per_episode"]} == {25}
    assert "gl_renderer" not in info["versions"]
    assert info["run"]["n_repeated"] == 0


def test_a_run_is_known_by_its_assets_wherever_they_lie(
    one_worker: Path, assets: Path, hub_cache: Callable[[Path], Path], tmp_path: Path
) -> None:
    shutil.copytree(one_worker, tmp_path / "run")
    moved, changed = tmp_path / "moved", tmp_path / "changed"
    shutil.copytree(assets, moved)
    # From the hub's cache this time, in another interpreter: nothing is left to do, and the run knows that.
    again = evaluate(
        tmp_path / "run", env={"python": sys.executable}, extra_env={"HF_HOME": str(hub_cache(moved))}
    )
    assert again.returncode == 0, again.stderr
    assert digests(tmp_path / "run") == digests(one_worker)
    shutil.copytree(assets, changed)
    plate = changed / "stable_scanned_objects" / "plate" / "plate.xml"
    plate.write_text(plate.read_text().replace("200", "300"))
    refused = evaluate(tmp_path / "run", assets=changed)
    assert refused.returncode == 2
    assert "versions.libero-assets" in refused.stderr


@pytest.mark.parametrize("python", [None, sys.executable], ids=["here", "other-interpreter"])
def test_a_download_that_fails_is_one_line_that_says_how_to_get_the_assets(
    python: str | None, tmp_path: Path
) -> None:
    env = {} if python is None else {"python": python}
    done = evaluate(tmp_path / "run", env=env, extra_env={"HF_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert done.returncode == 2
    [line] = done.stderr.strip().splitlines()
    assert line.startswith("proctor: LIBERO's assets are not on this machine and could not be downloaded: ")
    assert "hf download --repo-type dataset lerobot/libero-assets --local-dir DIR; " in line
    assert line.endswith("then give --env.assets_path=DIR")
    assert not (tmp_path / "run").exists()


def test_a_download_that_was_cut_short_is_not_taken_for_the_assets(
    assets: Path, hub_cache: Callable[[Path], Path], tmp_path: Path
) -> None:
    home = hub_cache(assets)
    (home / "hub" / "datasets--lerobot--libero-assets" / "blobs" / "abc.incomplete").touch()
    done = evaluate(tmp_path / "run", extra_env={"HF_HOME": str(home), "HOME": str(tmp_path)})
    assert done.returncode == 2
    assert "was cut short" in done.stderr


def test_a_wrong_path_and_a_wrong_task_are_refused_before_anything_starts(tmp_path: Path) -> None:
    done = evaluate(tmp_path / "run", assets=tmp_path)
    assert done.returncode == 2
    assert f"--env.assets_path={tmp_path}: there are no LIBERO assets" in done.stderr
    done = evaluate(tmp_path / "run", assets=tmp_path, env={"task": "libero_spacial"})
    assert done.returncode == 2
    assert "Did you mean 'libero_spatial'?" in done.stderr
