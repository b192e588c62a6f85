"""What a message tells a user to do must help: the cause that it names is the cause, what it names is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cases import crossed
from harness import SUPPORT, flags, run_cli, run_tiny, start_cli, tiny_tree, without_rights
from proctor.cli.main import run
from proctor.store.episodes import EpisodeTable

MINE = """
import numpy as np
def nothing(observation): pass
class Full:
    from proctor import PolicySpec
    spec = PolicySpec(fingerprint="x")
    def begin(self, task): return None
    def act(self, windows, memories, generators): pass
def wide(observation): return np.zeros(5)
"""


def evaluate(capsys: pytest.CaptureFixture[str], folder: Path, *more: str, **tree: object) -> tuple[int, str]:
    """Run a short evaluation in this process; returns its status and what it said."""
    wanted = {"task": "a", "n_episodes": 1, "eval": {"batch_size": 1}, **tree}
    status = run(["eval", *flags(tiny_tree(folder / "run", **wanted)), *more])  # type: ignore[arg-type]
    return status, capsys.readouterr().err


@pytest.mark.parametrize(("name", "placement"), crossed(["nothing", "Full"], ["central", "worker"]))
def test_a_policy_that_returns_nothing_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, placement: str
) -> None:
    wanted = "an action" if name == "nothing" else "Actions"
    (tmp_path / "mine.py").write_text(MINE)
    policy = {"path": f"{tmp_path}/mine.py:{name}", "placement": placement}
    status, told = evaluate(capsys, tmp_path, policy=policy)
    assert status == 1
    assert f"returned None instead of {wanted}. Is a return missing? (task a, episode 0, step 0)" in told


def test_logs_that_are_a_file_are_no_lack_of_room(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for placement in ("central", "worker"):
        place = tmp_path / placement
        (place / "run").mkdir(parents=True)
        (place / "run" / "logs").write_text("mine")
        status, told = evaluate(capsys, place, policy={"placement": placement})
        assert status == 1, told
        assert f"cannot write {place}/run/logs/" in told
        assert "ulimit" not in told
        assert "unforeseen" not in told


def test_every_log_that_a_message_names_is_there(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    for number, (name, inline) in enumerate([("nothing", "true"), ("wide", "false"), ("nothing", "false")]):
        place = tmp_path / str(number)
        tree = tiny_tree(place / "run", task="a", n_episodes=1, policy={"path": f"{tmp_path}/mine.py:{name}"})
        told = run_cli("eval", *flags(tree), f"--eval.use_async_envs={inline}").stderr
        for path in re.findall(r"(?:traceback is in|log:) (\S+?)[.)]?(?:\s|$)", told):
            found = Path(path)
            assert found.exists(), told
            assert found.is_file() or any(log.stat().st_size for log in found.iterdir()), told


def test_a_process_that_says_nothing_has_no_log_to_look_at(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import os\nos._exit(3)\n")
    tree = tiny_tree(tmp_path / "run", policy={"path": f"{tmp_path}/mine.py:X"})
    done = run_cli("eval", *flags(tree))
    assert done.returncode == 1
    assert done.stderr == "proctor: the policy's process exited with status 3 while loading\n"
    assert not (tmp_path / "run").exists()


def test_a_log_that_autotune_names_outlives_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import os\nprint('no weights here', flush=True)\nos._exit(3)\n")
    tree = tiny_tree(tmp_path / "run", policy={"path": f"{tmp_path}/mine.py:X"})
    done = run_cli("autotune", *flags(tree), extra_env={"TMPDIR": str(tmp_path)})
    assert done.returncode == 1, done.stderr
    (path,) = re.findall(r"\(log: (.*)\)", done.stderr)
    assert "no weights here" in Path(path).read_text()


def test_a_table_that_cannot_be_read_is_no_table_that_cannot_be_written(tmp_path: Path) -> None:
    table = tmp_path / "run.sqlite"
    with EpisodeTable(table):
        pass
    table.chmod(0)
    code = (
        "import ctypes, os, sys\nfrom pathlib import Path\nfrom proctor.store.episodes import EpisodeTable\n"
        "try:\n    EpisodeTable(Path(sys.argv[1]))\nexcept Exception as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(table)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=without_rights,
    )
    assert f"cannot open {table} for reading and writing" in done.stdout
    assert "finished episodes are kept" not in done.stdout


def test_a_run_that_ends_before_its_first_episode_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text("def push(observation): return [0.1, 0.1]\n")
    policy = {"path": f"{tmp_path}/mine.py:push"}
    assert run_tiny(tmp_path / "run", task="a", n_episodes=1, policy=policy).error is None
    logs = tmp_path / "run" / "logs"
    for log in logs.iterdir():
        log.unlink()
    logs.rmdir()
    logs.write_text("in the way")
    status, told = evaluate(capsys, tmp_path, n_episodes=2, policy=policy)
    assert status == 1, told
    assert f"To go on: proctor eval --resume={tmp_path}/run" in told


def test_a_checkpoint_one_folder_deeper_is_found(tmp_path: Path) -> None:
    from proctor.errors import UsageError
    from proctor.policies.lerobot.checkpoint import open_checkpoint

    inner = tmp_path / "last" / "pretrained_model"
    inner.mkdir(parents=True)
    (inner / "config.json").write_text("{}")
    with pytest.raises(UsageError, match=re.escape(f"Use --policy.path={tmp_path}/last/pretrained_model")):
        open_checkpoint(str(tmp_path / "last"), {}, None, False)


# Names that are unusual, and work


@pytest.mark.parametrize("name", ["caf\udce9", "ü a\n'b\"%20#?&"])
def test_a_run_in_a_directory_of_any_name_is_made_shown_and_gone_on_with(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("av")
    place = tmp_path / name
    tree = tiny_tree(place / "run", task="a", n_episodes=1, eval={"batch_size": 1, "max_episodes_rendered": 1})
    tree["env"]["scratch"] = str(tmp_path)
    done = run_cli("eval", *flags(tree))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert (place / "run" / "report.html").exists()
    assert (place / "run" / "videos" / "a_0" / "eval_episode_0.mp4").exists()
    more = run_cli("eval", f"--resume={place}/run", "--eval.n_episodes=2")
    assert more.returncode == 0, more.stderr
    assert run(["merge", f"{place}/run", f"--output_dir={place}/all"]) == 0
    assert run(["compare", f"{place}/run", f"{place}/all", "--json"]) == 0


def test_names_longer_than_file_systems_take_are_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("av")
    task = "t" * 300
    status, told = evaluate(
        capsys,
        tmp_path,
        task=f"{task}1,{task}2",
        eval={"batch_size": 1, "max_episodes_rendered": 1},
    )
    assert (status, told) == (0, "")
    videos = list((tmp_path / "run").glob("videos/*/*.mp4"))
    assert len(videos) == 2
    assert all(len(video.parent.name) < 255 for video in videos)


def test_a_lock_that_somebody_else_wrote_is_no_obstacle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    for text in ("[1]", '{"pid": {"a": 1}}', "\0" * 9000, '{"pid": 1, "host": [], "since": "\\u001b[2J"}'):
        (tmp_path / "run" / "lock").write_text(text)
        assert evaluate(capsys, tmp_path)[0] == 0


def test_a_lock_that_is_held_by_who_says_nonsense_of_itself(tmp_path: Path) -> None:
    import fcntl

    (tmp_path / "run").mkdir()
    lock = tmp_path / "run" / "lock"
    lock.write_text('{"pid": {"a": 1}, "host": "\\u001b[2J", "since": []}')
    with lock.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process: subprocess.Popen[str] = start_cli(
            "eval", "--policy.type=zero", f"--env.type={SUPPORT}/tiny.py:Tiny", f"--output_dir={tmp_path}/run"
        )
        _, told = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "is being written by" in told
    assert "\x1b" not in told
