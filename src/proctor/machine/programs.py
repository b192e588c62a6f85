"""Short programs that are asked something: a GL that is to draw, a driver's tool, another interpreter.

One way for all. They end with this process, however it ends; Ctrl-C and SIGTERM do not wait for them; nothing that
they start stays behind; and what they leave open holds nobody up, because they answer into memory and not a pipe.
"""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any, BinaryIO, NamedTuple, NoReturn, Protocol

from proctor.installation import package_environment
from proctor.machine.processes import describe_exit, exit_code, kill_group

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


class Interrupted(Exception):
    """The user asked to stop before the run had started."""


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
