"""What runs in a child that speaks through a channel: `PYTHON -m proctor.engine.child FD`, see `process.py`."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
import sys

from proctor.config.registry import load_object
from proctor.engine.messages import Channel, ChannelClosed
from proctor.installation import other_version
from proctor.machine.processes import end_with_parent, hear_of_children

ROLES = {
    "worker": "proctor.engine.worker:run_worker",
    "host": "proctor.engine.policy_host:run_host",
    "player": "proctor.conformance.player:run_player",
}
"""What a child can be; loaded by the child alone."""


def main() -> None:
    """Be the child: die with the parent, learn the role, run it."""
    end_with_parent()
    hear_of_children()  # a simulator's own
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides what Ctrl-C means
    faulthandler.enable()
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    channel = Channel(socket.socket(fileno=descriptor))
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


if __name__ == "__main__":
    main()
