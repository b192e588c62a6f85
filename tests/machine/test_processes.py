"""Other processes: short programs that are asked, how a process ended, what it has taken."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness import is_over, wait_until
from proctor.engine.interrupts import Interrupts
from proctor.errors import Interrupted
from proctor.machine.processes import ask_program, cpu_seconds, describe_exit, exit_code, peak_memory


def test_work_shows_and_waiting_does_not() -> None:
    code = "import sys, time; sum(range(10**7)); sys.stdout.write('.'); sys.stdout.flush(); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        worked = cpu_seconds(process.pid)
        assert worked > 0
        assert cpu_seconds(process.pid) - worked <= 0.02  # it waits now; the account goes by hundredths
        assert peak_memory(process.pid) > 1 << 20
        assert process.stdin is not None
        process.stdin.close()
    assert cpu_seconds(process.pid) == 0
    assert peak_memory(process.pid) == 0


def test_this_process_has_an_account() -> None:
    assert cpu_seconds(os.getpid()) > 0


PYTHON = [sys.executable, "-S", "-c"]


def test_it_is_asked_and_answers() -> None:
    script = "import sys; print(sys.stdin.read().upper()); print('hm', file=sys.stderr); sys.exit(3)"
    answer = ask_program([*PYTHON, script], seconds=60, question="what?")
    assert tuple(answer) == (3, "WHAT?\n", "hm\n", False)
    assert not answer.may_be_well


def test_one_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        ask_program(["no-such-program"], seconds=1)


def test_one_that_takes_too_long_is_ended_and_what_it_said_is_kept(tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sys, time; print('first', flush=True);"
        f"child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(3600)']);"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid)); time.sleep(3600)"
    )
    answer = ask_program([*PYTHON, script], seconds=3)  # time enough to start both, on a busy machine too
    assert answer.late
    assert answer.output == "first\n"
    assert answer.code == -signal.SIGKILL
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: is_over(child))


def test_one_whose_child_keeps_its_output_open_is_not_waited_for_any_longer() -> None:
    script = "import os, time\nif os.fork() == 0: os.setpgid(0, 0); time.sleep(1)\nelse: print('done', flush=True)"
    assert ask_program([*PYTHON, script], seconds=60).output == "done\n"


def test_a_stop_signal_ends_it() -> None:
    with Interrupts() as interrupts:
        interrupts.stop()
        with pytest.raises(Interrupted):
            ask_program([*PYTHON, "import time; time.sleep(3600)"], seconds=60)


def test_where_sigchld_is_ignored_it_answers_and_nobody_says_that_it_ended_well() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        answer = ask_program([*PYTHON, "print('done'); raise SystemExit(4)"], seconds=60)
        process = subprocess.Popen([*PYTHON, "raise SystemExit(4)"])
        code = exit_code(process)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert (answer.code, answer.output) == (None, "done\n")
    assert code is None
    assert describe_exit(code).startswith("ended, how is unknown")
