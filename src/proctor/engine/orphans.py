"""Ends what children of a run have started and left behind: a program of its own, which outlives who is killed.

python -I -S orphans.py MARK. Every child has PROCTOR_CHILD=MARK.N in its environment, and so has all that it
starts, even what leaves its process group and session or loses its parent. A line on standard input is the N of a
child that has ended; the end of the input is the end of the process that started them, or of its last child.

It imports nothing but what Python itself has loaded: it is started with every run.
"""

import os
import signal
import sys
import time

VARIABLE = "PROCTOR_CHILD"
"""Its value holds a mark of each run around: a policy may run an evaluation itself."""

SECONDS = 5.0
"""How long it tries: a process that the kernel does not let go of cannot be ended."""

LOOKS = 5
"""How often in a row it looks for what shows no environment: what is becoming another program shows none yet."""


def main() -> None:
    """Wait for ends, and see to each."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # it ends with those that it watches, and not before
    mark, rest = sys.argv[1].encode(), b""
    while news := os.read(0, 1 << 16):
        *lines, rest = (rest + news).split(b"\n")
        end_marked({mark + b"." + line for line in lines})
    end_marked({mark})


def end_marked(marks: set[bytes]) -> None:
    """Kill every process that has one of these marks, or one below, until there is none."""
    deadline = time.monotonic() + SECONDS
    looks = LOOKS
    while looks and time.monotonic() < deadline:
        killed, unknown = _kill_marked(marks)
        # Once more after each kill: what is killed may have started another a moment before.
        looks = LOOKS if killed else looks - 1 if unknown else 0
        if looks:
            time.sleep(0.01)


def _kill_marked(marks: set[bytes]) -> tuple[int, int]:
    """Return how many were killed, and of how many nobody can tell yet."""
    killed = unknown = 0
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes longer to import than all of this
        if not name.isdigit() or int(name) == os.getpid():
            continue
        variables = environment(name)
        unknown += not variables and _runs_a_program(name)
        if not _has(variables, marks):
            continue
        try:
            pidfd = os.pidfd_open(int(name))
        except OSError:
            continue
        try:
            # Looked at again, now that the number cannot become another's any more.
            if _has(environment(name), marks):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                killed += 1
        except OSError:
            pass
        finally:
            os.close(pidfd)
    return killed, unknown


def environment(name: str) -> bytes:
    """Return what a process was given; nothing if that may not be read, or while it becomes another program."""
    try:
        with open(f"/proc/{name}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _runs_a_program(name: str) -> bool:
    """Whether it is neither of the kernel's own nor over, nor somebody else's."""
    try:
        return bool(os.readlink(f"/proc/{name}/exe"))  # noqa: PTH115 - as above
    except OSError:
        return False


def _has(variables: bytes, marks: set[bytes]) -> bool:
    start = VARIABLE.encode() + b"="
    for variable in variables.split(b"\0"):
        if variable.startswith(start):
            found = variable[len(start) :].split(b":")
            return any(one in marks or one.partition(b".")[0] in marks for one in found)
    return False


if __name__ == "__main__":
    main()
