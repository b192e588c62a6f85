"""A tracker as the run sees it: a process that is told lines of JSON, that nobody waits for while it runs.

What does not fit into the pipe is not told: a tracker that is slow, hangs or has died costs the run nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proctor.engine.process import ChildProcess, module_command, wait_readable

_PIPE_BYTES = 1 << 20


class TrackerProcess:
    """One tracker's process.

    Args:
        name: what the tracker is called.
        path: where its class is found.
        log: where it prints.
        start: the first message.
    """

    def __init__(self, name: str, path: str, log: Path, start: Mapping[str, Any]) -> None:
        self.name = name
        self._rest = b""
        self._heard = b""
        self._concluding = False
        command, pipe = module_command("proctor.trackers", path), subprocess.PIPE
        self._child = ChildProcess(command, log=log, env={}, stdin=pipe, stdout=pipe)
        stdin, stdout = self._child.process.stdin, self._child.process.stdout
        assert stdin is not None
        assert stdout is not None
        self._stdin, self._stdout = stdin, stdout
        self._to, self._from = stdin.fileno(), stdout.fileno()
        for descriptor in (self._to, self._from):
            os.set_blocking(descriptor, False)
        self._tell({"type": "start", **start})

    def log(self, step: int, values: Mapping[str, float]) -> bool:
        """Tell where the run stands, unless it has not read what it was told before; says whether it was told."""
        self._push()
        if self._rest:
            return False
        self._tell({"type": "log", "step": step, "values": dict(values)})
        return True

    def words(self) -> list[dict[str, str]]:
        """Return what it has to say to the user: `news`, or of `trouble`."""
        with contextlib.suppress(OSError):
            while chunk := os.read(self._from, 1 << 16):
                self._heard += chunk
        *lines, self._heard = self._heard.split(b"\n")
        return [json.loads(line) for line in lines]

    def conclude(self, message: Mapping[str, Any]) -> None:
        """Begin to tell the result."""
        self._concluding = True
        self._tell({"type": "conclude", **message})

    def wait(self, deadline: float) -> bool:
        """Wait until it has ended; says whether it has."""
        while not self._ends(0.0) and (left := deadline - time.monotonic()) > 0:
            self._push()
            self._wait(min(left, 0.05))
            if not self._rest and self._concluding:
                self._hang_up()
            self._ends(min(left, 0.05))
        return self._ends(0.0)

    def close(self) -> str | None:
        """End what is left of it; says how it ended, where that was not well."""
        if self._child.pidfd < 0:
            return None
        self._hang_up()
        code = self._child.reap()  # and what it has started
        self._stdout.close()
        return None if code in (0, None, -signal.SIGKILL) else f"its process ended with status {code}"

    def _ends(self, seconds: float) -> bool:
        """Whether it ends within so long. It is not collected: its number stays its own until `close`."""
        return bool(wait_readable([self._child.pidfd], seconds))

    def _wait(self, seconds: float) -> None:
        """Wait until it says something, or can be told more."""
        poll = select.poll()
        poll.register(self._from, select.POLLIN)
        if self._rest:
            poll.register(self._to, select.POLLOUT)
        poll.poll(1000 * seconds)

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._stdin.close()

    def _tell(self, message: Mapping[str, Any]) -> None:
        self._rest += json.dumps(message).encode() + b"\n"
        self._push()

    def _push(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # it reads no more, not yet, or never again
            while self._rest:
                self._rest = self._rest[os.write(self._to, self._rest) :]
