"""What a process has taken is read from the kernel's own account."""

from __future__ import annotations

import os
import subprocess
import sys

from proctor.machine.processes import cpu_seconds, peak_memory


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
