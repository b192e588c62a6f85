"""Ctrl-C, SIGTERM, kill -9 of anything, a full disk, a second writer: nothing finished is lost, nothing left."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness import (
    Digests,
    descendants,
    digests,
    flags,
    role,
    run_cli,
    run_tiny,
    start_cli,
    stored,
    tiny_tree,
    wait_until,
)
from proctor.errors import RunLockedError

SLOW = {"delay": 0.01}


def children_of(process: subprocess.Popen[str], kind: str) -> list[psutil.Process]:
    return [child for child in descendants(process.pid) if role(child) == kind]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_signal_keeps_what_finished_and_the_same_command_goes_on(
    tmp_path: Path, reference: Digests, number: signal.Signals, status: int
) -> None:
    arguments = flags(tiny_tree(tmp_path / "run", env=SLOW))
    process = start_cli("eval", *arguments)
    wait_until(lambda: stored(tmp_path / "run") >= 2)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == status, err
    assert f"--resume={tmp_path / 'run'}" in err
    assert "Traceback" not in err
    before = digests(tmp_path / "run")
    assert 2 <= len(before) < 12
    assert (tmp_path / "run" / "eval_info.json").exists()
    again = run_cli("eval", *arguments)
    assert again.returncode == 0, again.stderr
    assert digests(tmp_path / "run") == reference


def test_episodes_in_flight_may_finish_after_the_first_ctrl_c(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", n_episodes=40, env=SLOW, eval={"batch_size": 2, "stop_grace": 60})
    process = start_cli("eval", *flags(tree))
    wait_until(lambda: stored(tmp_path / "run") >= 1)
    before = stored(tmp_path / "run")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=90)
    assert process.returncode == 130
    assert before < stored(tmp_path / "run") < 120


def test_a_second_ctrl_c_is_immediate_even_if_a_worker_hangs(tmp_path: Path) -> None:
    tree = tiny_tree(
        tmp_path / "run", env={"mischief": "step.hang:c:*:1"}, eval={"stop_grace": 3600}, display="plain"
    )
    process = start_cli("eval", *flags(tree))
    wait_until(lambda: stored(tmp_path / "run") >= 1)
    process.send_signal(signal.SIGINT)
    # The first one is noted before the second is sent, else they would count as one.
    assert process.stdout is not None
    wait_until(lambda: "stopping" in process.stdout.readline())  # type: ignore[union-attr]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130


@pytest.mark.parametrize("placement", ["central", "worker"])
def test_a_worker_killed_from_outside_costs_no_episode(tmp_path: Path, reference: Digests, placement: str) -> None:
    tree = tiny_tree(tmp_path / "run", env=SLOW, policy={"placement": placement})
    process = start_cli("eval", *flags(tree))
    wait_until(lambda: stored(tmp_path / "run") >= 1)
    wait_until(lambda: children_of(process, "worker"))[0].kill()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert digests(tmp_path / "run") == reference


def test_a_host_killed_from_outside_costs_no_episode(tmp_path: Path, reference: Digests) -> None:
    process = start_cli("eval", *flags(tiny_tree(tmp_path / "run", env=SLOW)))
    wait_until(lambda: stored(tmp_path / "run") >= 1)
    wait_until(lambda: children_of(process, "host"))[0].kill()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert digests(tmp_path / "run") == reference


def test_a_killed_coordinator_takes_its_children_along_even_hung_ones_and_resume_works(
    tmp_path: Path, reference: Digests
) -> None:
    slow_and_hung = {**SLOW, "mischief": "step.hang:c:*:1"}
    process = start_cli("eval", *flags(tiny_tree(tmp_path / "run", env=slow_and_hung)))
    wait_until(lambda: stored(tmp_path / "run") >= 2)
    family = descendants(process.pid)
    assert len(family) >= 3  # two workers and a host
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []
    assert digests(run_tiny(tmp_path / "run")) == reference


def test_a_second_process_on_the_same_directory_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    process = start_cli("eval", *flags(tiny_tree(tmp_path / "run", env=SLOW)))
    wait_until(lambda: stored(tmp_path / "run") >= 1)
    with pytest.raises(RunLockedError, match=f"process {process.pid} on "):
        run_tiny(tmp_path / "run")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


def _on_small_disk(directory: Path, size: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script with a small tmpfs at `directory`, in a mount namespace of its own."""
    directory.mkdir()
    command = f"mount -t tmpfs -o size={size} tmpfs {directory} && {script}"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", command], capture_output=True, text=True, timeout=120)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no mount namespace for an ordinary user here: {done.stderr.strip()}")
    return done


def test_a_full_disk_ends_the_run_with_status_1_and_leaves_the_store_intact(tmp_path: Path) -> None:
    run, filler = tmp_path / "disk" / "run", tmp_path / "disk" / "filler"
    # Room enough to pass the check at the start; something else then fills the disk up.
    tree = tiny_tree(run, n_episodes=60, env={"delay": 0.01, "scratch": str(tmp_path)})
    look = f"db = __import__('sqlite3').connect('{run}/run.sqlite'); get = lambda q: db.execute(q).fetchone()[0]"
    some = f"{look}; get('SELECT 1 FROM episodes')"
    started = f'until [ -e {run}/run.sqlite-wal ] && {sys.executable} -c "{some}"; do sleep 0.05; done'
    eat = f"({started}; head -c 100m /dev/zero > {filler}) 2>/dev/null &"
    show = "print('integrity', get('PRAGMA integrity_check'), get('SELECT count(*) > 0 FROM episodes'))"
    check = f'rm -f {filler}; {sys.executable} -c "{look}; {show}"'
    eval_ = " ".join([sys.executable, "-m", "proctor", "eval", *(f"'{flag}'" for flag in flags(tree))])
    again = f"{eval_} > /dev/null; echo again $?"
    done = _on_small_disk(tmp_path / "disk", "6m", f"{eat} {eval_}; echo status $?; {check}; {again}")
    assert "status 1" in done.stdout, done.stdout + done.stderr
    assert "Free some space" in done.stderr
    assert "Traceback" not in done.stderr
    assert "integrity ok 1" in done.stdout
    assert "again 0" in done.stdout


def test_a_disk_that_is_too_small_is_found_before_the_run(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "disk" / "run")
    eval_ = " ".join([sys.executable, "-m", "proctor", "eval", *(f"'{flag}'" for flag in flags(tree))])
    done = _on_small_disk(tmp_path / "disk", "1m", f"{eval_}; echo status $?")
    assert "status 1" in done.stdout, done.stdout + done.stderr
    assert "MB free and this run needs about" in done.stderr


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/proctor")):
        done = run_cli("eval", *flags(tiny_tree(path, env={"scratch": ""})))
        assert done.returncode == 2, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.slow
def test_a_run_in_which_a_worker_is_killed_every_second_ends_complete_and_equal(tmp_path: Path) -> None:
    shape: dict[str, Any] = {"n_episodes": 400, "env": {"delay": 0.004}}
    calm = run_tiny(tmp_path / "calm", **shape, eval={"batch_size": 4})
    tree = tiny_tree(tmp_path / "run", **shape, eval={"batch_size": 4, "max_attempts": 50})
    process = start_cli("eval", *flags(tree))
    kills, rng = 0, random.Random(0)
    while process.poll() is None:
        time.sleep(1.0)
        # Now and then the host, which costs every episode in flight at once.
        victims = children_of(process, "host" if kills % 7 == 6 else "worker")
        if victims:
            rng.choice(victims).kill()
            kills += 1
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert kills >= 10
    assert digests(tmp_path / "run") == digests(calm)
    assert len(digests(calm)) == 1200
    assert not list(Path("/dev/shm").glob("*proctor*"))
