"""Other processes: short programs that are asked something, how a process ended, and what it has taken."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn, Protocol

from proctor.errors import Interrupted
from proctor.installation import package_environment
from proctor.machine.resources import kernel_bytes

_TICKS = os.sysconf("SC_CLK_TCK")
_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends, however it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def process_age() -> float:
    """Return for how many seconds this process has been there, Python's own start included."""
    # The name of the program, in brackets, may have anything in it; the 20th field behind it is the start.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / _TICKS)


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
    fields = _status(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def is_stopped(pid: int) -> bool:
    """Whether somebody has stopped a process (SIGSTOP), and it is not a debugger that holds it."""
    return _status(pid)[:1] == ["T"]


def _status(pid: int) -> list[str]:
    """Return what the kernel says of a process after its name, which may be anything; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def peak_memory(pid: int) -> int:
    """Return the most bytes that a process has held; 0 if it is gone."""
    return kernel_bytes(Path(f"/proc/{pid}/status"), "VmHWM")


def bond_of(pid: int) -> str | None:
    """Return what a process holds that a second one like it may not get, in words; `None`: nothing of the kind.

    A GPU has memory of its own, a server may take one connection only, a port is one's own, and what a child does
    nobody knows.
    """
    folder = Path(f"/proc/{pid}/fd")
    try:
        held = [str(entry.readlink()) for entry in folder.iterdir()]
        children = [task.joinpath("children").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return "ended"
    if any(name.startswith(_DEVICES) for name in held):
        return "a GPU"
    if {name for name in held if name.startswith("socket:")} & _connections(pid):
        return "connections of its own"
    return "processes of its own" if any(text.strip() for text in children) else None


_DEVICES = ("/dev/nvidia", "/dev/dri", "/dev/kfd", "/dev/accel")


def _connections(pid: int) -> set[str]:
    """Return the network's sockets that there are, as descriptors name them."""
    found = set()
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        with contextlib.suppress(OSError, IndexError):
            lines = Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]
            found |= {f"socket:[{line.split()[9]}]" for line in lines}
    return found


_TICK = 0.1
_MOST_BYTES = 16 << 20

# The kernel forgets the wish to end with a parent at a fork, and keeps it when a program replaces itself. So a
# small one makes the wish and becomes the program; nothing runs between fork and exec in a process with threads.
_BECOME = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[3:])
"""


class StopSignals(Protocol):
    """Whoever takes Ctrl-C and SIGTERM in place of Python: how many have come."""

    count: int


STOP_SIGNALS: ContextVar[StopSignals | None] = ContextVar("stop_signals", default=None)
"""Who takes them now, in this thread. Without anybody they are raised, or end this process, as always."""


class Answer(NamedTuple):
    """What a program said, and how it ended; `code` is `None` where that cannot be known."""

    code: int | None
    output: str
    complaint: str
    late: bool

    @property
    def may_be_well(self) -> bool:
        """Whether its output can be trusted to be whole."""
        return self.code in (0, None) and not self.late

    @property
    def reply(self) -> Any:
        """What a module of ours said by `reply`: its last line, since libraries may chatter before it."""
        try:
            return json.loads(self.output.strip().splitlines()[-1]) if self.may_be_well else None
        except (IndexError, ValueError):
            return None

    @property
    def last_words(self) -> str:
        """Why there is no reply. Who was killed has not said so: its last words are about something else."""
        lines = self.complaint.strip().splitlines()
        return lines[-1] if lines and self.code is not None and self.code > 0 else describe_exit(self.code)


def ask_program(
    command: Sequence[str],
    *,
    seconds: float | None,
    env: Mapping[str, str] | None = None,
    question: str = "",
    shows_progress: bool = False,
) -> Answer:
    """Run a program to its end, or for so long, and return what it said.

    Args:
        command: the program and its arguments.
        seconds: how long it may take.
        env: its whole environment; this process's own if there is none.
        question: what it reads.
        shows_progress: let it speak to the user where errors go, in place of keeping that.

    Raises:
        OSError: there is no such program.
        Interrupted: a stop signal came first.
    """
    import shutil  # here: workers import this module, and that one loads every compression there is

    program = shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    with ExitStack() as stack:
        asked, output, complaint = (stack.enter_context(_memory_file()) for _ in range(3))
        asked.write(question.encode())
        asked.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid()), program, *command],
            stdin=asked,
            stdout=output,
            stderr=None if shows_progress else complaint,
            env=env,
            # Its own group: a kill reaches whatever it has started.
            process_group=0,
        )
        code: int | None = None
        try:
            pidfd = os.pidfd_open(process.pid)
            stack.callback(os.close, pidfd)
            try:
                late = not _ends(pidfd, seconds)
            finally:
                kill_group(process, pidfd)
        except ProcessLookupError:
            late = False  # it has ended, and nobody may know how
        finally:
            code = exit_code(process)
        return Answer(code, _read(output), _read(complaint), late)


def ask_module(
    module: str,
    *arguments: str,
    seconds: float | None,
    python: str | None = None,
    variables: Mapping[str, str] | None = None,
    question: str = "",
    shows_progress: bool = False,
) -> Answer:
    """Run a module of this package as a program, in this interpreter or in another.

    Args:
        module: its dotted name.
        arguments: its command line.
        seconds: how long it may take.
        python: the other interpreter.
        variables: what its environment has besides this process's own.
        question: what it reads.
        shows_progress: let it speak to the user where errors go, in place of keeping that.

    Raises:
        OSError: there is no such interpreter.
        Interrupted: a stop signal came first.
    """
    env = {**os.environ, **package_environment(), **(variables or {})}
    command = [python or sys.executable, "-P", "-m", module, *arguments]
    return ask_program(command, seconds=seconds, env=env, question=question, shows_progress=shows_progress)


def reply(value: Any) -> NoReturn:
    """Answer whoever asked this module (`ask_module`), in one line of JSON, and end."""
    print(json.dumps(value), flush=True)  # noqa: T201 - the answer to our parent
    os._exit(0)  # some libraries crash in their own tear-down, after all is said


def _memory_file() -> BinaryIO:
    return os.fdopen(os.memfd_create("proctor-answer", os.MFD_CLOEXEC), "w+b")


def _ends(pidfd: int, seconds: float | None) -> bool:
    stop = STOP_SIGNALS.get()
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    deadline = None if seconds is None else time.monotonic() + seconds
    while not poll.poll(1000 * _TICK):
        if stop is not None and stop.count:
            raise Interrupted
        if deadline is not None and time.monotonic() > deadline:
            return False
    return True


def _read(file: BinaryIO) -> str:
    return os.pread(file.fileno(), _MOST_BYTES, 0).decode(errors="replace")
