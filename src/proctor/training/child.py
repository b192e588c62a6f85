"""The first lines of every trainer's process: it ends with the command that started it, however that ends."""

from __future__ import annotations

import os
import sys

from proctor.machine.processes import end_with_parent, hear_of_children

PARENT = "PROCTOR_TRAINING"
"""The variable that names the command's process to its trainer."""


def begin() -> None:
    """Tie this process to the command, if one has started it."""
    parent = os.environ.pop(PARENT, None)
    hear_of_children()
    if parent is None:
        return
    end_with_parent()
    if os.getppid() != int(parent):
        sys.exit(1)  # the command died before the kernel knew
