"""A command that another process of Proctor's starts, a shard or a film: the kernel ends it with that one.

python -m proctor.cli.child PARENT COMMAND FLAGS..., where PARENT is the process id of who starts it.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from proctor.errors import EXIT_SIGINT
from proctor.machine.processes import end_with_parent


def main() -> None:
    """Run the command."""
    end_with_parent()
    parent = int(sys.argv[1])
    if os.getppid() != parent:
        return  # it died before that took effect
    signal.signal(signal.SIGINT, _leave)
    from proctor.cli.entry import main as proctor  # after all of the above: importing takes a while

    del sys.argv[1]
    proctor()


def _leave(number: int, frame: FrameType | None) -> None:
    """Stop before anything has begun, or after everything was written: the run itself has its own ways."""
    os._exit(EXIT_SIGINT)


if __name__ == "__main__":
    main()
