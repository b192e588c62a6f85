"""The first lines of the `proctor` program: streams and signals are ours before anything large is imported.

Python's own start, and what an installer's script does before it calls `main`, is out of our hands: a Ctrl-C in
those first milliseconds ends the process in Python's words.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

_INTERRUPTED = 130  # errors.py is not imported yet


class CtrlC:
    """What Ctrl-C does in this process, while a command leaves it to us.

    Before and after the command there is nothing to tidy up, and Python's own machinery, which would report an
    exception in its import or its end, is not asked: the process ends at once. In between it is an exception, so
    that a command tidies up; one that is turned into another on its way is known by `pressed`. A second press ends
    the process wherever it is: children end with it, and folders of a while are removed.
    """

    def __init__(self) -> None:
        self.pressed = False
        self.in_command = False

    def install(self) -> None:
        """Take the signal over, unless whoever started us wants it ignored."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._press)

    def _press(self, number: int, frame: FrameType | None) -> None:
        if self.pressed and not self.in_command:
            _leave(_INTERRUPTED)  # it was told already
        if self.pressed or not self.in_command:
            _leave(_INTERRUPTED, b"proctor: interrupted\n")
        self.pressed = True
        raise KeyboardInterrupt


def _leave(status: int, words: bytes = b"") -> NoReturn:
    """End the process here and now; nothing but folders would outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a third press would say it again
    with contextlib.suppress(OSError):  # closed
        os.write(2, words)
    scratch = sys.modules.get("proctor.machine.scratch")  # not loaded, or half: then there are none
    getattr(scratch, "remove_all", bool)()
    os._exit(status)


def main() -> None:
    """Run the command line and exit with its status."""
    ctrl_c = CtrlC()
    ctrl_c.install()
    from proctor.cli.streams import open_streams

    open_streams()
    try:
        from proctor.cli.main import run
        from proctor.machine.processes import hear_of_children
    except ImportError as error:
        from proctor.installation import install_command

        again = f"{install_command()} --force-reinstall"
        sys.stderr.write(f"proctor: cannot start: {error}. Install it again: {again}\n")
        sys.exit(1)
    hear_of_children()
    try:
        ctrl_c.in_command = True
        status = run(sys.argv[1:], lambda: ctrl_c.pressed)
        ctrl_c.in_command = False
    except KeyboardInterrupt:  # between two lines of `run` that deal with the one before
        ctrl_c.in_command = False
        os.write(2, b"proctor: interrupted\n")
        status = _INTERRUPTED
    sys.stdout.flush()
    lost = getattr(sys.stdout, "lost", None)
    if lost is not None:
        sys.stderr.write(f"proctor: what was printed is lost: {lost.strerror}\n")
        status = status or 1
    sys.stderr.flush()
    if ctrl_c.pressed:
        _leave(status)  # who is impatient is not kept by threads and packages that want to end in their own way
    sys.exit(status)
