"""Other processes: how they end with this one, how they ended, and what they have taken."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")
_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends, however it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def hear_of_children() -> None:
    """Let this process learn how its children end.

    Whoever starts a program with SIGCHLD ignored (`trap '' CHLD`, or a service manager) hands that down, and the
    kernel then keeps no exit status: a crash would look like a success.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def kill_group(process: subprocess.Popen[Any], pidfd: int) -> None:
    """Kill a process that leads a group, and the group. Its number is its own until `exit_code` is called."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # Where SIGCHLD is ignored no zombie keeps the number; a pidfd is never somebody else's, and says so first.
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.killpg(process.pid, signal.SIGKILL)


def exit_code(process: subprocess.Popen[Any]) -> int | None:
    """Wait for a process's end and return its exit code, or `None` where nobody can know it any more.

    That is so in a caller's process that ignores SIGCHLD or collects all children itself. `Popen.wait` says 0.
    """
    known = True
    if process.returncode is None:
        try:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            known = False
    code = process.wait()
    return code if known else None


def describe_exit(code: int | None) -> str:
    """Say in words how a process ended; `None` is an exit code that nobody can know.

    >>> describe_exit(-9)
    'was killed by SIGKILL (out of memory, or by hand)'
    >>> describe_exit(1)
    'exited with status 1'
    """
    if code is None:
        return "ended, how is unknown (the process that runs the evaluation ignores SIGCHLD)"
    if code >= 0:
        return f"exited with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}" + (" (out of memory, or by hand)" if code == -signal.SIGKILL else "")


def open_file_limit() -> int:
    """Return how many descriptors this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def cpu_seconds(pid: int) -> float:
    """Return the seconds of a core that a process has used, all its threads together; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
    except (OSError, IndexError):
        return 0.0


def is_stopped(pid: int) -> bool:
    """Whether somebody has stopped a process (SIGSTOP), and it is not a debugger that holds it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (OSError, IndexError):
        return False


def peak_memory(pid: int) -> int:
    """Return the most bytes that a process has held; 0 if it is gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
