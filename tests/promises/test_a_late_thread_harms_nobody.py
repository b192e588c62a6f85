"""Evaluating a live object leaves the caller's process as it was, whatever its threads and signals do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness import SUPPORT
from outside import Scene, ended
from proctor.store.episodes import EpisodeTable

LATE = """
import os, resource, signal, sys, threading
import proctor

entered, gate = threading.Event(), threading.Event()

def act(observation):
    entered.set()
    gate.wait()
    return [0.0, 0.0]

def stop():
    entered.wait()
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
        stopping.wait()

stopping = threading.Event()
threading.Thread(target=stop).start()
timer = threading.Timer(0.5, stopping.set)
timer.start()
try:
    proctor.evaluate(act, benchmark=sys.argv[1], task="a", n_episodes=1, workers=1, display="none",
                     output_dir=sys.argv[2])
except KeyboardInterrupt:
    pass
# Whatever number the run had is now one of these.
files = [open(f"{sys.argv[2]}.{number}", "wb") for number in range(200)]
lanes = [thread for thread in threading.enumerate() if thread.name.startswith("proctor-lane")]
assert lanes
gate.set()
for lane in lanes:
    lane.join()
print(sum(os.fstat(file.fileno()).st_size for file in files))
"""


def run_script(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2] / 'src'}:{SUPPORT}"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_policy_that_answers_when_its_run_is_over_writes_into_no_other_file(tmp_path: Path) -> None:
    told = run_script(LATE, f"{SUPPORT / 'tiny.py'}:Tiny", str(tmp_path / "run"))
    assert told.split()[-1] == "0"


MANY_FILES = """
import os, resource, sys
import proctor
from tiny_policies import Thoughtful

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
files = [open(os.devnull) for _ in range(1100)]
result = proctor.evaluate(Thoughtful(batch=4), benchmark=sys.argv[1], task="a", n_episodes=6, workers=2,
                          display="none", output_dir=sys.argv[2])
print(len(result))
"""


def test_a_process_with_a_thousand_open_files_evaluates_a_live_policy(tmp_path: Path) -> None:
    assert run_script(MANY_FILES, f"{SUPPORT / 'tiny.py'}:Tiny", str(tmp_path / "run")).split()[-1] == "6"


def test_a_simulator_that_takes_signals_of_its_own_is_no_error(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "scene")
    timer = "signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)\n"
    scene.benchmark.write_text(
        scene.benchmark.read_text().replace(
            "        simulator = TinySimulator(", f"        {timer}        simulator = TinySimulator("
        )
    )
    scene.policy.write_text(
        scene.policy.read_text().replace(
            "        states = [", "        __import__('time').sleep(0.005)\n        states = ["
        )
    )
    done = scene.eval("--eval.n_episodes=2", "--eval.max_attempts=1")
    assert done.returncode == 0, done.stderr
    assert ended(scene.run) == 4


IGNORED = """
import signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
import proctor
proctor.evaluate("%s:Thoughtful", benchmark=sys.argv[1], task="a", n_episodes=2, workers=1, display="none",
                 output_dir=sys.argv[2], env={"mischief": "step.segfault!:a:1:2", "scratch": sys.argv[3]})
print(signal.getsignal(signal.SIGCHLD).name)
"""


def test_a_caller_that_ignores_its_children_is_told_that_nobody_knows_how_they_ended(tmp_path: Path) -> None:
    policy = SUPPORT / "tiny_policies.py"
    told = run_script(IGNORED % policy, f"{SUPPORT / 'tiny.py'}:Tiny", str(tmp_path / "run"), str(tmp_path))
    assert told.split()[-1] == "SIG_IGN"  # the caller's own affair
    with EpisodeTable(tmp_path / "run" / "run.sqlite", read_only=True) as table:
        (attempt,) = table.attempts()
    assert "ended, how is unknown" in attempt.reason
    assert "status" not in attempt.reason


def test_a_crash_is_told_as_one_where_sigchld_was_ignored_from_the_start(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "scene")
    flags = scene.flags("--env.mischief=step.segfault!:a:1:2", f"--env.scratch={tmp_path}")
    # As `trap '' CHLD` in a shell does.
    command = [sys.executable, "-m", "proctor", "eval", *flags]
    script = "import os, sys; from signal import *; signal(SIGCHLD, SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", script, *command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with EpisodeTable(scene.run / "run.sqlite", read_only=True) as table:
        (attempt,) = table.attempts()
    assert "was killed by SIGSEGV" in attempt.reason
