"""How a process of ours is started, watched and ended: workers, hosts, players, shards, trackers and trainers.

Workers, hosts and players start alike: `PYTHON -m proctor.engine.child FD`, with a socket pair; what the child is
to be comes as its first message, with the descriptors it needs. It dies with the process that started it, however
that ends: the kernel sends it SIGKILL. A shard is a `proctor eval` of its own and is heard through a pipe, like a
tracker, which runs somebody else's code that outlives the episodes; `ChildProcess` is what all of them share.

What a child starts itself may leave its process group, as a daemon does. It is found by a mark in its
environment, by a small process beside this one (`orphans.py`), which is there also when this one is killed. That
lives as long as this process has children. If somebody kills or stops it, another takes over, or this process does
its work.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from proctor import __version__
from proctor.engine.messages import Channel, ChannelClosed, Message, keep_end
from proctor.engine.orphans import SECONDS, VARIABLE, end_marked
from proctor.errors import StoreError
from proctor.files import reason
from proctor.installation import package_environment
from proctor.machine.processes import exit_code, kill_group
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
    "PYTHONOPTIMIZE": "", "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000",
}  # fmt: skip
"""Children run side by side, one thread each: more would fight for the cores, and a result must not depend on
how many of them a matrix product was spread over, the order of a set of strings, or whether assertions run.
Where there are several for a while, in the trial of a LeRobot policy, one that waits leaves its core to others."""


class Readable(Protocol):
    """Something with a descriptor."""

    def fileno(self) -> int:
        """Return it."""


def wait_readable(sources: Sequence[Readable | int], seconds: float | None = None) -> list[Readable | int]:
    """Return those that can be read, or nothing when the time is over, if there is a limit.

    (`select` takes no descriptor above 1023, and a run with many workers has them.)
    """
    poll = select.poll()
    numbers = {source if isinstance(source, int) else source.fileno(): source for source in sources}
    for number in numbers:
        poll.register(number, select.POLLIN)
    return [numbers[number] for number, _ in poll.poll(None if seconds is None else 1000 * seconds)]


class ChildProcess:
    """A process that this one started, seen from outside. It leads a process group and is watched by its pidfd.

    Args:
        command: what to run.
        log: where its errors go, and what it prints if nobody else takes that.
        env: variables beside those of this process.
        pipes: what else `subprocess.Popen` is to be told of descriptors.
    """

    def __init__(self, command: Sequence[str], *, log: Path, env: Mapping[str, str], **pipes: Any) -> None:
        with self.move_log(log) as output:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                command,
                stderr=output,
                env={**os.environ, **package_environment(), **env},
                # Its own group: Ctrl-C on the terminal reaches this process alone, and a kill reaches whatever
                # the child may have started.
                process_group=0,
                **{"stdin": subprocess.DEVNULL, "stdout": output, **pipes},
            )
        self.pidfd = os.pidfd_open(self.process.pid)
        self._code: int | None = None

    def move_log(self, log: Path) -> BinaryIO:
        """Open the file into which the child prints from now on; one that runs already has to be told of it."""
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            self._log_start = log.stat().st_size if log.exists() else 0
            self.log = log
            return log.open("ab")
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
            raise StoreError(f"cannot write {log}: {reason(error)}. Mend that, then try again.") from error

    @property
    def has_ended(self) -> bool:
        """Whether it is dead, or was reaped."""
        return self.pidfd < 0 or bool(wait_readable([self.pidfd], 0.0))

    def kill(self) -> None:
        """End the child and its process group, now; what has left the group ends when the child is reaped."""
        if self.pidfd >= 0:
            kill_group(self.process, self.pidfd)

    def reap(self, patience: float | None = 0.0) -> int | None:
        """Wait for the end, killing the child after `patience` seconds; returns its exit code, if it is known."""
        if self.pidfd < 0:
            return self._code
        wait_readable([self.pidfd], patience)
        # Even if it ended by itself: it is still a zombie, so its number is nobody else's, and whatever it
        # started ends with it.
        self.kill()
        self._code = exit_code(self.process)
        os.close(self.pidfd)
        self.pidfd = -1
        return self._code

    def printed(self) -> list[str]:
        """Return the lines that it has put into its log."""
        try:
            return self.log.read_bytes()[self._log_start :].decode(errors="replace").strip().splitlines()
        except OSError:
            return []

    def last_words(self) -> str:
        """Return the line of what the child printed that best says why it ended, or nothing."""
        lines = self.printed()
        # Python's fault handler ends with a list of modules; what happened stands at its top.
        fatal = [line for line in lines if line.startswith("Fatal Python error")]
        return keep_end((fatal or lines)[-1].strip(), 300) if lines else ""

    @property
    def log_note(self) -> str:
        """Where more can be read, to go after a sentence; nothing if the log is empty, for then it is removed."""
        try:
            return f" (log: {self.log})" if self.log.stat().st_size else ""
        except OSError:
            return ""

    def drop_log(self) -> None:
        """Remove what it has put into its log, of which everything has been told."""
        if self._log_start:
            os.truncate(self.log, self._log_start)
        else:
            self.log.unlink(missing_ok=True)


class ChannelChild(ChildProcess):
    """A child that speaks with this process through a channel: a worker, a host, a player.

    Args:
        role: one of `child.ROLES`.
        boot: what it is told at its start.
        descriptors: what it is given beside that.
        log: where it prints.
        env: variables beside those of this process.
        python: another interpreter.
    """

    def __init__(
        self,
        role: str,
        boot: Message,
        descriptors: list[int],
        *,
        log: Path,
        env: Mapping[str, str],
        python: str | None = None,
    ) -> None:
        self.channel, theirs = Channel.pair()
        self._mark = STRAYS.admit()
        # -P: a file in the user's directory must not shadow the standard library.
        command = [python or sys.executable, "-P", "-m", "proctor.engine.child", str(theirs.fileno())]
        try:
            super().__init__(
                command, log=log, env={**STEADY, **marked(self._mark), **env}, pass_fds=[theirs.fileno()]
            )
        except BaseException:
            STRAYS.dismiss(self._mark)  # ends also one that has started and cannot be watched
            self.channel.close()
            raise
        finally:
            theirs.close()
        first = {"version": __version__, "role": role, "boot": boot, "parent": os.getpid()}
        first["sys_path"] = list(sys.path) if python is None else []
        self.tell(first, descriptors)

    def tell(self, message: Message, descriptors: list[int] | None = None) -> None:
        """Send it a message. That it is dead is noticed by whoever watches its pidfd."""
        with contextlib.suppress(ChannelClosed):
            self.channel.send(message, descriptors)

    def abort(self) -> None:
        """End a child that hangs, and let it first write to its log where each of its threads is."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGABRT)  # Python's fault handler answers, even where the GIL is held
        wait_readable([self.pidfd], _LAST_WORDS)
        self.kill()

    def ask_to_stop(self) -> None:
        """Ask politely; `reap` waits."""
        self.tell({"type": "stop"})

    def reap(self, patience: float | None = 0.0) -> int | None:
        """Wait for the end likewise, and end what the child has left behind."""
        code = super().reap(patience)
        self.channel.close()
        STRAYS.dismiss(self._mark)
        return code


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of ours and finds the user's own as this process does."""
    # Only if this process was started so does it find modules in the user's directory.
    safe = [] if sys.path and sys.path[0] in ("", str(Path.cwd())) else ["-P"]
    return [sys.executable, *safe, "-m", module, *arguments]


def be_steady() -> None:
    """Start this very process over, as every child starts, if episodes or a policy are to run in it.

    Python and the maths libraries have read these variables already, so it takes a new start.
    """
    if any(os.environ.get(name) != value for name, value in STEADY.items()):
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **STEADY})


_WARDEN = Path(__file__).with_name("orphans.py")

_PATIENCE = SECONDS + 2.0
"""Seconds for its last work: it gives up earlier itself, unless somebody has stopped it."""


class Strays:
    """Marks children, and has those ended that they leave behind. One for a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._warden: subprocess.Popen[bytes] | None = None
        self._mark = ""
        self._number = 0
        self._alive: set[str] = set()
        os.register_at_fork(after_in_child=self._forget)

    def admit(self) -> str:
        """Return the mark of a child that is about to start."""
        with self._lock:
            if not self._alive:
                self._mark = secrets.token_hex(8)
            self._keep_warden()
            self._number += 1
            mark = f"{self._mark}.{self._number}"
            self._alive.add(mark)
            return mark

    def dismiss(self, mark: str) -> None:
        """Have all ended that a child left behind, which has ended itself; with the last child, wait for that."""
        with self._lock:
            if mark not in self._alive:
                return
            self._alive.discard(mark)
            if self._alive:
                self._tell(mark)
                return
            warden, self._warden = self._warden, None
        if warden is None or not _conclude(warden):
            end_marked({mark.partition(".")[0].encode()})

    def _keep_warden(self) -> subprocess.Popen[bytes]:
        """Return the warden, or another if somebody has killed it: that one knows every child by the same mark."""
        if self._warden is None or self._warden.poll() is not None:
            if self._warden is not None and self._warden.stdin is not None:
                self._warden.stdin.close()
            self._warden = None
            self._warden = subprocess.Popen(
                [sys.executable, "-I", "-S", _WARDEN, self._mark],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                start_new_session=True,
            )
            assert self._warden.stdin is not None
            os.set_blocking(self._warden.stdin.fileno(), False)  # it may be stopped: nobody waits for it here
        return self._warden

    def _tell(self, mark: str) -> None:
        try:
            warden = self._keep_warden()
            assert warden.stdin is not None
            os.write(warden.stdin.fileno(), f"{mark.partition('.')[2]}\n".encode())
        except OSError:  # killed just now, unable to start, or stopped for so long that its pipe is full
            end_marked({mark.encode()})

    def _forget(self) -> None:
        """Leave children and warden to the process that started them; this is a copy of it."""
        warden, self._warden = self._warden, None
        self._lock = threading.Lock()
        self._alive = set()
        if warden is not None and warden.stdin is not None:
            warden.stdin.close()
            warden.returncode = 0  # nothing to wait for


def _conclude(warden: subprocess.Popen[bytes]) -> bool:
    """Let a warden do its last work, and return whether it did."""
    assert warden.stdin is not None
    warden.stdin.close()
    warden.send_signal(signal.SIGCONT)  # somebody may have stopped it
    try:
        return warden.wait(_PATIENCE) == 0
    except subprocess.TimeoutExpired:
        warden.kill()
        warden.wait()
        return False


STRAYS = Strays()


def marked(mark: str) -> dict[str, str]:
    """Return the variable that marks a child, inside whatever run this process may be a child of itself."""
    around = os.environ.get(VARIABLE)
    return {VARIABLE: f"{around}:{mark}" if around else mark}
