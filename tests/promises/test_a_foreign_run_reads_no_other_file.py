"""Promise: a run directory that somebody else made shows what lies in it, and no other file of this user."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from harness import run_cli
from hostile_runs import SECRET, change
from made_runs import make_run
from proctor.store.run_directory import Shard
from viewers import viewer

VIDEO = "videos/a_0/eval_episode_0.mp4"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "home" / "secret.mp4"
    file.parent.mkdir()
    file.write_text(SECRET)
    return file


def shows(page: Path) -> bool:
    """Whether a page holds the secret, in any of the ways in which a page can hold a file."""
    if not page.exists():
        return False
    text = page.read_text(errors="replace")
    return SECRET in text or base64.b64encode(SECRET.encode()).decode()[:40] in text


def everything_below(folder: Path) -> str:
    return "".join(file.read_text(errors="replace") for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize("spelling", ["absolute", "upwards", "inside and upwards", "another file of the run"])
def test_a_report_embeds_no_file_that_only_the_table_names(tmp_path: Path, secret: Path, spelling: str) -> None:
    run = make_run(tmp_path / "runs" / "run", {"a": [False]}, videos=True)
    (run / "notes.txt").write_text(SECRET)
    path = {
        "absolute": str(secret),
        "upwards": "../../home/secret.mp4",
        "inside and upwards": "videos/a_0/../../../../home/secret.mp4",
        "another file of the run": "notes.txt",
    }[spelling]
    change(run, "UPDATE episodes SET video_path = ?", path)
    done = run_cli("report", str(run), "--embed-videos", f"--output={tmp_path / 'report.html'}")
    assert not shows(tmp_path / "report.html")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "Traceback" not in done.stderr
    done = run_cli("compare", str(run), str(run), "--json")
    assert path not in done.stdout


@pytest.mark.parametrize("spelling", ["absolute", "upwards"])
def test_nor_does_a_merge_bring_one(tmp_path: Path, secret: Path, spelling: str) -> None:
    run = make_run(tmp_path / "runs" / "run", {"a": [False]}, videos=True)
    path = str(secret) if spelling == "absolute" else "../../home/secret.mp4"
    change(run, "UPDATE episodes SET video_path = ?", path)
    run_cli("merge", str(run), f"--output_dir={tmp_path / 'merged' / 'deeper' / 'all'}")
    assert SECRET not in everything_below(tmp_path / "merged")
    for page in (tmp_path / "merged").rglob("*"):
        assert path not in page.read_text(errors="replace") if page.is_file() else True


@pytest.mark.parametrize("what", ["the file", "its folder", "the folder of videos"])
def test_links_that_lead_out_are_not_followed(tmp_path: Path, secret: Path, what: str) -> None:
    run = make_run(tmp_path / "runs" / "run", {"a": [False]}, videos=True)
    place = {"the file": run / VIDEO, "its folder": (run / VIDEO).parent, "the folder of videos": run / "videos"}[
        what
    ]
    target = secret.parent / "their" / place.relative_to(run)
    target.parent.mkdir(parents=True)
    place.rename(target)
    (secret.parent / "their" / VIDEO).write_text(SECRET)
    place.symlink_to(target)
    done = run_cli("report", str(run), "--embed-videos", f"--output={tmp_path / 'report.html'}")
    assert done.returncode == 0
    assert not shows(tmp_path / "report.html")
    assert "Left out." in done.stderr
    assert len(done.stderr.splitlines()) == 1
    done = run_cli("merge", str(run), f"--output_dir={tmp_path / 'all'}")
    assert done.returncode == 0
    assert "Left out." in done.stderr
    assert SECRET not in everything_below(tmp_path / "all")
    with viewer(str(tmp_path / "runs")) as found:
        assert found.get(f"/run/run/{VIDEO}")[0] == 404


def test_a_merge_writes_nothing_outside_of_its_directory(tmp_path: Path) -> None:
    outcomes = {"a": [True, False]}
    for number in (0, 1):
        make_run(tmp_path / "run", outcomes, shard=Shard(number, 2), videos=True, identity={"policy": {}})
    shard = tmp_path / "run" / "shard_1_of_2"
    (tmp_path / "run" / "deep" / "x").mkdir(parents=True)
    for place in (tmp_path / "escape.mp4", tmp_path / "run" / "escape.mp4"):
        place.write_text("a file at the place that the table names")
    change(shard, "UPDATE episodes SET video_path = ?", "../../escape.mp4")
    before = {file for file in tmp_path.rglob("*") if not file.is_relative_to(tmp_path / "merged")}
    run_cli("merge", str(tmp_path / "run"), f"--output_dir={tmp_path / 'merged' / 'deeper' / 'all'}")
    after = {file for file in tmp_path.rglob("*") if not file.is_relative_to(tmp_path / "merged")}
    assert after == before
    assert not list((tmp_path / "merged").rglob("escape.mp4"))


@pytest.mark.parametrize("name", ["lock", "run.sqlite", "logs/worker-0.log"])
def test_going_on_with_a_foreign_run_writes_to_no_file_that_it_links_to(tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path / "run", {"a": [True]})
    precious = tmp_path / "precious"
    precious.write_bytes((run / "run.sqlite").read_bytes() if name == "run.sqlite" else SECRET.encode())
    before = precious.read_bytes()
    link = run / name
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(precious)
    for arguments in (("merge", str(run)), ("eval", f"--resume={run}")):
        done = run_cli(*arguments)
        assert done.returncode in (1, 2), done.stdout
        assert "Traceback" not in done.stderr
        assert precious.read_bytes() == before


def test_what_is_the_run_s_own_is_still_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"a": [False]}, videos=True)
    (run / VIDEO).write_bytes(b"a real video")
    done = run_cli("report", str(run), "--embed-videos", f"--output={tmp_path / 'report.html'}")
    assert (done.returncode, done.stderr) == (0, "")
    assert base64.b64encode(b"a real video").decode() in (tmp_path / "report.html").read_text()
    done = run_cli("merge", str(run), f"--output_dir={tmp_path / 'all'}")
    assert done.stderr == ""
    assert (tmp_path / "all" / VIDEO).read_bytes() == b"a real video"
    info = json.loads((tmp_path / "all" / "eval_info.json").read_text())
    assert info["overall"]["video_paths"] == [str(tmp_path / "all" / VIDEO)]
