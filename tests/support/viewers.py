"""A real `proctor view` for the time of a test."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

from harness import start_cli


class Viewer:
    """A viewer that runs, and how to ask it."""

    def __init__(self, process: subprocess.Popen[str], line: str, patience: float) -> None:
        self.process, self.line, self._patience = process, line, patience
        self.port = int(re.search(r":(\d+)/", line)[1])  # type: ignore[index]

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=self._patience)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()


@contextmanager
def viewer(*arguments: str, patience: float = 60.0) -> Iterator[Viewer]:
    process = start_cli("view", *arguments, "--port=0")
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if "whoever" in line:
            line += process.stdout.readline()
        assert "viewing" in line, line + (process.stderr.read() if process.stderr else "")
        yield Viewer(process, line, patience)
    finally:
        process.kill()
        process.communicate()
