"""When a run is over, nothing of it goes on: no probe, no daemon of a policy, however the run ended."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from harness import is_over, start_cli, wait_until, warden_of
from outside import Scene, edit, ended, finish

SLOW_MUJOCO = """
import os, time
with open(os.environ["PROBE_NOTE"] + ".part", "w") as note:
    note.write(str(os.getpid()))
os.rename(os.environ["PROBE_NOTE"] + ".part", os.environ["PROBE_NOTE"])
time.sleep(3600)
"""

DAEMON = """
import os, time
from pathlib import Path

def daemonise(note):
    if note.exists():
        return
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            part = note.with_suffix(".part")
            part.write_text(str(os.getpid()))
            part.rename(note)
            time.sleep(3600)
        os._exit(0)
    while not note.exists():
        time.sleep(0.01)
"""


def number_in(note: Path) -> int:
    wait_until(note.exists)
    return int(note.read_text())


@pytest.fixture
def probing(tmp_path: Path) -> Scene:
    """A run whose trial of a GL takes an hour."""
    scene = Scene(tmp_path / "scene")
    edit(scene.benchmark, "    fps = 30\n", "    fps = 30\n    uses_gl = True\n")
    edit(scene.policy, '("observation.state",)', '("observation.state", "observation.image")')
    (scene.folder / "slow").mkdir()
    (scene.folder / "slow" / "mujoco.py").write_text(SLOW_MUJOCO)
    return scene


def start_probing(scene: Scene) -> tuple[subprocess.Popen[str], int]:
    note = scene.folder / "probe"
    paths = f"{scene.folder / 'slow'}:{os.environ.get('PYTHONPATH', '')}"
    process = start_cli("eval", *scene.flags(), extra_env={"PYTHONPATH": paths, "PROBE_NOTE": str(note)})
    return process, number_in(note)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_signal_does_not_wait_for_the_trial_of_a_gl(
    probing: Scene, number: signal.Signals, status: int
) -> None:
    process, probe = start_probing(probing)
    process.send_signal(number)
    try:
        _, told = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == status, told
    assert "Traceback" not in told
    assert is_over(probe)


def test_the_trial_of_a_gl_ends_with_a_killed_run(probing: Scene) -> None:
    process, probe = start_probing(probing)
    process.kill()
    process.communicate()
    try:
        wait_until(lambda: is_over(probe), 20)
    finally:
        if not is_over(probe):
            psutil.Process(probe).kill()


@pytest.fixture(params=["policy", "simulator"])
def daemonic(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    """A run whose policy or simulator starts a daemon: in a session of its own, child of nobody."""
    scene = Scene(tmp_path / "scene")
    call = f"daemonise(Path({str(scene.folder / 'daemon')!r}))"
    if request.param == "policy":
        edit(scene.policy, "        states = [", f"        {call}\n        states = [")
        scene.policy.write_text(DAEMON + scene.policy.read_text())
    else:
        edit(
            scene.benchmark,
            "        simulator = TinySimulator(",
            f"        {call}\n        simulator = TinySimulator(",
        )
        scene.benchmark.write_text(
            scene.benchmark.read_text().replace("\nSTATE, IMAGE =", f"\n{DAEMON}\nSTATE, IMAGE =")
        )
    return scene


def assert_gone(daemon: int) -> None:
    try:
        wait_until(lambda: is_over(daemon), 10)
    finally:
        if not is_over(daemon):
            psutil.Process(daemon).kill()


def test_a_daemon_of_a_policy_or_simulator_ends_with_the_run(daemonic: Scene) -> None:
    done = daemonic.eval("--eval.n_episodes=1")
    assert done.returncode == 0, done.stderr
    assert_gone(number_in(daemonic.folder / "daemon"))


def test_a_daemon_ends_also_if_the_run_is_killed(daemonic: Scene) -> None:
    process = daemonic.start()
    wait_until(lambda: ended(daemonic.run) >= 1)
    daemon = number_in(daemonic.folder / "daemon")
    process.kill()
    finish(process)
    assert_gone(daemon)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("harm", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_run_ends_and_leaves_nothing_though_its_warden_is_harmed(daemonic: Scene, harm: signal.Signals) -> None:
    process = daemonic.start("--eval.n_episodes=1000")
    wait_until(lambda: ended(daemonic.run) >= 1)
    daemon = number_in(daemonic.folder / "daemon")
    warden = warden_of(process.pid)
    warden.send_signal(harm)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
    try:
        status, told = finish(process)
    finally:
        process.kill()
    assert status == 130, told
    assert_gone(daemon)
    wait_until(lambda: is_over(warden))
