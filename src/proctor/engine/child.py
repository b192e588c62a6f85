"""How every child process starts, and how it ends.

One way for all: `PYTHON -m proctor.engine.child FD`, with a socket pair; what the child is to be comes as
its first message, with the descriptors it needs. Workers and hosts, this interpreter or another, start
alike. A child dies with the coordinator, however that ends: the kernel sends it SIGKILL.
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from proctor import __version__
from proctor.config.registry import load_object
from proctor.engine.messages import Channel, ChannelClosed, Message, clip
from proctor.engine.strays import STRAYS, marked
from proctor.engine.waiting import wait_readable
from proctor.errors import StoreError
from proctor.files import reason
from proctor.installation import other_version, package_environment
from proctor.machine.processes import end_with_parent, exit_code, hear_of_children, kill_group
from proctor.machine.versions import HASH_SEED

_LAST_WORDS = 0.2
"""Seconds that a hung child gets to say where it hangs."""

NO_ROOM = {
    errno.EMFILE: "Raise ulimit -n",
    errno.ENFILE: "Close files that other processes have open",
    errno.EAGAIN: "Raise ulimit -u",
    errno.ENOMEM: "Free some memory, or raise ulimit -v",
}
"""What the kernel says where one more process, or its descriptors, do not fit, and what helps."""

STEADY = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": HASH_SEED,
    "PYTHONOPTIMIZE": "",
}  # fmt: skip
"""Children run side by side, one thread each: more would fight for the cores, and a result must not depend on
how many of them a matrix product was spread over, the order of a set of strings, or whether assertions run."""

ROLES = {
    "worker": "proctor.engine.worker:run_worker",
    "host": "proctor.engine.host:run_host",
    "player": "proctor.conformance.player:run_player",
}
"""What a child can be; loaded by the child alone."""


class Child:
    """The coordinator's handle on one child process."""

    def __init__(
        self,
        role: str,
        boot: Message,
        descriptors: list[int],
        *,
        log: Path,
        env: dict[str, str],
        python: str | None = None,
    ) -> None:
        self.log = log
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            self._log_start = log.stat().st_size if log.exists() else 0
            log.touch()
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
            raise StoreError(f"cannot write {log}: {reason(error)}. Mend that, then try again.") from error
        self._code: int | None = None
        self._mark = STRAYS.admit()
        try:
            self._start(env, python)
            self.pidfd = os.pidfd_open(self.process.pid)
        except BaseException:
            STRAYS.dismiss(self._mark)  # ends also one that has started and cannot be watched
            raise
        paths = sys.path if python is None else []
        with contextlib.suppress(ChannelClosed):  # its death is noticed by whoever watches the pidfd
            self.channel.send(
                {
                    "version": __version__,
                    "role": role,
                    "boot": boot,
                    "parent": os.getpid(),
                    "sys_path": list(paths),
                },
                descriptors,
            )

    def _start(self, env: dict[str, str], python: str | None) -> None:
        self.channel, theirs = Channel.pair()
        try:
            with self.log.open("ab") as output:
                self.process = subprocess.Popen(
                    # -P: a file in the user's directory must not shadow the standard library.
                    [python or sys.executable, "-P", "-m", "proctor.engine.child", str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, **package_environment(), **STEADY, **marked(self._mark), **env},
                    # Its own group: Ctrl-C on the terminal reaches the coordinator alone, and a kill reaches
                    # whatever a simulator may have started.
                    process_group=0,
                )
        except BaseException:
            self.channel.close()
            raise
        finally:
            theirs.close()

    def kill(self) -> None:
        """End the child and its process group, now; what has left the group ends when the child is reaped."""
        if self.pidfd >= 0:
            kill_group(self.process, self.pidfd)

    def abort(self) -> None:
        """End a child that hangs, and let it first write to its log where each of its threads is."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGABRT)  # Python's fault handler answers, even where the GIL is held
        wait_readable([self.pidfd], _LAST_WORDS)
        self.kill()

    def ask_to_stop(self) -> None:
        """Ask politely; `reap` waits."""
        with contextlib.suppress(ChannelClosed):
            self.channel.send({"type": "stop"})

    def reap(self, patience: float = 0.0) -> int | None:
        """Wait for the end, killing the child after `patience` seconds; returns its exit code, if it is known."""
        if self.pidfd < 0:
            return self._code
        wait_readable([self.pidfd], patience)
        # Even if it ended by itself: it is still a zombie, so its number is nobody else's, and whatever it
        # started ends with it.
        self.kill()
        self._code = exit_code(self.process)
        self.channel.close()
        os.close(self.pidfd)
        self.pidfd = -1
        STRAYS.dismiss(self._mark)
        return self._code

    @property
    def log_note(self) -> str:
        """Where more can be read, to go after a sentence; nothing if the log is empty, for then it is removed."""
        try:
            return f" (log: {self.log})" if self.log.stat().st_size else ""
        except OSError:
            return ""

    def last_words(self) -> str:
        """Return the line of what the child printed that best says why it ended, or nothing."""
        try:
            lines = self.log.read_bytes()[self._log_start :].decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        # Python's fault handler ends with a list of modules; what happened stands at its top.
        fatal = [line for line in lines if line.startswith("Fatal Python error")]
        return clip((fatal or lines)[-1].strip(), 300) if lines else ""


def be_steady() -> None:
    """Start this very process over, as every child starts, if episodes or a policy are to run in it.

    Python and the maths libraries have read these variables already, so it takes a new start.
    """
    if any(os.environ.get(name) != value for name, value in STEADY.items()):
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **STEADY})


def main() -> None:
    """Be the child: die with the parent, learn the role, run it."""
    end_with_parent()
    hear_of_children()  # a simulator's own
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides what Ctrl-C means
    faulthandler.enable()
    channel = Channel(_socket(int(sys.argv[1])))
    # A copy of this process, as a policy's fork makes one, may end in any way, and must not speak in our name.
    os.register_at_fork(after_in_child=channel.close)
    try:
        first, descriptors = channel.receive()
    except ChannelClosed:
        return
    if os.getppid() != first["parent"]:
        return  # the parent died before prctl took effect
    problem = other_version(first["version"])
    if problem is not None:
        # Another interpreter may have another Proctor, whose messages and policies are not ours.
        channel.send({"type": "load_error", "message": problem, "usage": True})
        return
    sys.path.extend(path for path in first["sys_path"] if path not in sys.path)
    with contextlib.suppress(ChannelClosed):
        load_object(ROLES[first["role"]])(channel, first["boot"], descriptors)


def _socket(descriptor: int) -> Any:
    import socket

    os.set_inheritable(descriptor, False)
    return socket.socket(fileno=descriptor)


if __name__ == "__main__":
    main()
