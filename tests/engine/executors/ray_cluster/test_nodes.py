"""One plan on several raylets: the digests of the serial run, whatever happens to the nodes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from harness import (
    SUPPORT,
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
from raylets import Raylets, is_engine
from tiny_policies import aside

pytest.importorskip("ray", reason="Ray is not installed: pip install 'proctor-eval[ray]'")

PATIENT = f"{SUPPORT / 'tiny_policies.py'}:Patient"


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    return out, err


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """Return the next line of a process's output that has these words."""
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return line
    raise AssertionError(f"ended without saying {words!r}: {process.communicate()[1]}")


def wait_for_worker(raylet: psutil.Process) -> None:
    """Wait until a raylet runs a simulator."""
    wait_until(lambda: "worker" in engine_roles(raylet))


def engine_roles(raylet: psutil.Process) -> list[str]:
    # Ray's own processes have logs called worker- too.
    return sorted(role(child) for child in descendants(raylet.pid) if is_engine(child))


@pytest.fixture(scope="module")
def calm(raylets: Raylets, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """An undisturbed run on three raylets, recorded, with a video of every task's first episode."""
    run = tmp_path_factory.mktemp("calm") / "run"
    kept = {"max_episodes_rendered": 1, "recording": True}
    done = run_cli("eval", *flags(raylets.tree(run, eval=kept, display="plain")))
    assert done.returncode == 0, done.stderr
    return run, done.stdout, done.stderr


def test_three_raylets_give_the_digests_of_the_serial_run(calm: tuple[Path, str, str], reference: Digests) -> None:
    run, out, _ = calm
    assert digests(run) == reference
    assert "3 workers on 3 nodes" in out


def test_the_driver_has_the_result_and_the_videos_and_the_nodes_keep_nothing(
    calm: tuple[Path, str, str], raylets: Raylets
) -> None:
    run, out, _ = calm
    info = json.loads((run / "eval_info.json").read_text())
    assert "filming episodes as they run, which takes longer: the nodes have the simulators" in out
    assert info["overall"]["n_episodes"] == 12
    videos = sorted(run.glob("videos/*/*"))
    assert [video.parent.name for video in videos] == ["a_0", "b_0", "c_0"]
    assert all(b"ftyp" in video.read_bytes()[:16] for video in videos)
    assert raylets.engine_processes() == []
    assert raylets.files(run) == []


def test_the_driver_has_the_dataset_of_a_recorded_run(calm: tuple[Path, str, str], tmp_path: Path) -> None:
    run, _, _ = calm
    here = run_tiny(tmp_path / "run", eval={"recording": True})
    assert here.recorded == 12
    infos = [
        json.loads((place / "dataset" / "meta" / "info.json").read_text()) for place in (run, tmp_path / "run")
    ]
    assert infos[0] == infos[1]
    assert not (run / "recording").exists()


def test_nothing_that_ray_says_reaches_the_terminal(calm: tuple[Path, str, str]) -> None:
    _, out, err = calm
    assert err == ""
    assert "raylet" not in out


@pytest.mark.slow
def test_ctrl_c_on_a_cluster_keeps_what_finished_and_this_machine_goes_on(
    raylets: Raylets, tmp_path: Path, reference: Digests
) -> None:
    process = start_cli("eval", *flags(raylets.tree(tmp_path / "run", env={"delay": 0.03})))
    wait_until(lambda: stored(tmp_path / "run") >= 2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"--resume={tmp_path / 'run'}" in err
    assert "Traceback" not in err
    before = digests(tmp_path / "run")
    assert 2 <= len(before) < 12
    assert raylets.engine_processes() == []
    assert digests(run_tiny(tmp_path / "run")) == reference


@pytest.mark.slow
def test_a_killed_driver_takes_everything_on_the_nodes_along_and_the_same_command_goes_on(
    raylets: Raylets, tmp_path: Path, reference: Digests
) -> None:
    arguments = flags(raylets.tree(tmp_path / "run", env={"delay": 0.03}))
    process = start_cli("eval", *arguments)
    wait_until(lambda: stored(tmp_path / "run") >= 2)
    family = raylets.engine_processes()
    assert len(family) >= 4
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []
    assert run_cli("eval", *arguments).returncode == 0
    assert digests(tmp_path / "run") == reference
    assert raylets.files(tmp_path / "run") == []


@pytest.mark.slow
def test_a_policy_that_raises_ends_the_run_and_the_traceback_comes_to_the_driver(
    raylets: Raylets, tmp_path: Path
) -> None:
    policy = {"path": f"{SUPPORT / 'tiny_policies.py'}:Faulty", "kwargs.how": "raise"}
    done = run_cli("eval", *flags(raylets.tree(tmp_path / "run", policy=policy)))
    assert done.returncode == 1, done.stderr
    assert re.search(r"I cannot see.* \(node \S+ \([0-9a-f]{8}\), logs in \S+\)", done.stderr)
    logs = (tmp_path / "run" / "logs").iterdir()
    assert any("ValueError: I cannot see" in log.read_text() for log in logs)


@pytest.mark.slow
def test_ray_on_this_machine_gets_the_files_that_a_policy_needs(tmp_path: Path, reference: Digests) -> None:
    weights, note = tmp_path / "weights.bin", tmp_path / "note"
    weights.write_text("heavy")
    kwargs = {"weights": str(weights), "note": aside(note)}
    policy = {"path": f"{SUPPORT / 'tiny_policies.py'}:Weighted", "kwargs": kwargs}
    run_tiny(tmp_path / "run", n_episodes=1, policy=policy)
    assert note.read_text() == f"{weights}\nheavy"
    tree = tiny_tree(
        tmp_path / "run", policy={**policy, "kwargs": json.dumps(kwargs)}, cluster={"address": "local"}
    )
    done = run_cli("eval", *flags(tree))
    assert done.returncode == 0, done.stderr
    where, content = note.read_text().splitlines()
    assert content == "heavy"
    assert where != str(weights)
    assert not Path(where).exists()
    assert digests(tmp_path / "run") == reference


@pytest.mark.slow
def test_a_run_begun_here_goes_on_on_a_cluster_where_a_node_with_other_versions_is_refused_and_named(
    raylets: Raylets, tmp_path: Path, reference: Digests
) -> None:
    run_tiny(tmp_path / "run", n_episodes=1)
    # What tells a package's version comes first on this node's path, with another version.
    metadata = tmp_path / "other" / "numpy-0.0.1.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.0.1\n")
    raylets.add(PYTHONPATH=str(tmp_path / "other"))  # it stays: Ray takes a while to notice that a node has gone
    process = start_cli("eval", *flags(raylets.tree(tmp_path / "run", display="plain")))
    refusal = read_until(process, "is refused")
    assert re.search(r"node \S+ \([0-9a-f]{8}\) is refused: .*versions\.numpy: .* the node '0\.0\.1'", refusal)
    out, _ = finish(process)
    assert "on 3 nodes" in out
    assert digests(tmp_path / "run") == reference


@pytest.mark.slow
def test_a_node_that_was_stopped_is_lost_and_its_episodes_run_elsewhere(
    raylets: Raylets, tmp_path: Path, reference: Digests
) -> None:
    gate = tmp_path / "gate"
    policy = {"path": PATIENT, "kwargs": json.dumps({"gate": aside(gate)})}
    tree = raylets.tree(tmp_path / "run", policy=policy, display="plain", limits={"respond": 3.0})
    process = start_cli("eval", *flags(tree))
    for raylet in raylets.added:
        wait_for_worker(raylet)
    engine = next(child for child in descendants(raylets.added[0].pid) if is_engine(child))
    actor = psutil.Process(engine.ppid())
    actor.suspend()
    try:
        lost = read_until(process, "is lost")
        gate.touch()
        finish(process)
    finally:
        actor.resume()
    assert "it has not answered for 3 s (--limits.respond)" in lost
    assert digests(tmp_path / "run") == reference
    wait_until(lambda: raylets.engine_processes() == [])


def test_a_lost_node_costs_only_its_episodes_in_flight_and_a_late_one_gets_work(
    raylets: Raylets, tmp_path: Path, reference: Digests
) -> None:
    gate = tmp_path / "gate"
    policy = {"path": PATIENT, "kwargs": json.dumps({"gate": aside(gate)})}
    tree = raylets.tree(tmp_path / "run", policy=policy, display="plain")
    process = start_cli("eval", *flags(tree))
    victim = raylets.added.pop()
    wait_for_worker(victim)
    family = descendants(victim.pid)
    assert engine_roles(victim) == ["host", "worker"]
    raylets.remove(victim)
    lost = read_until(process, "is lost")
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []
    assert "with 1 episode to be run elsewhere" in lost
    late = raylets.add()
    raylets.added.append(late)
    read_until(process, "joined")
    wait_for_worker(late)
    assert stored(tmp_path / "run") == 0
    gate.touch()
    finish(process)
    assert digests(tmp_path / "run") == reference
    assert raylets.engine_processes() == []
