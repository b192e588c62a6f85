"""What a shard's process runs: `proctor eval`, and the kernel ends it with its launcher, however that ends.

python -m proctor.cli.shard LAUNCHER FLAGS..., where LAUNCHER is the launcher's process id.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from proctor.errors import EXIT_SIGINT
from proctor.machine.processes import end_with_parent


def main() -> None:
    """Be a shard."""
    end_with_parent()
    launcher = int(sys.argv[1])
    if os.getppid() != launcher:
        return  # it died before that took effect
    signal.signal(signal.SIGINT, _leave)
    from proctor.cli.entry import main as proctor  # after all of the above: importing takes a while

    sys.argv[1:] = ["eval", *sys.argv[2:]]
    proctor()


def _leave(number: int, frame: FrameType | None) -> None:
    """Stop before anything has begun, or after everything was written: the run itself has its own ways."""
    os._exit(EXIT_SIGINT)


if __name__ == "__main__":
    main()
