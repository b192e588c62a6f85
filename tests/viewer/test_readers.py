"""Reading that does not end: the list goes on without it, and so does Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from http.client import HTTPConnection
from pathlib import Path

import pytest

from made_runs import make_run
from proctor.viewer.readers import BusyError, Readers
from proctor.viewer.runs import Runs
from proctor.viewer.summaries import summarise

STUCK = """
import sys, threading
import proctor.viewer.runs as runs, proctor.viewer.pages as pages
summarise, read = runs.summarise, pages.RunCache.read
def for_ever(directory):
    if directory.name == "stuck":
        threading.Event().wait()
runs.summarise = lambda root, directory, writer: for_ever(directory) or summarise(root, directory, writer)
pages.RunCache.read = lambda cache, directory: for_ever(directory) or read(cache, directory)
from proctor.cli.main import run
sys.exit(run(["view", sys.argv[1], "--port=0"]))
"""


def test_a_run_that_is_never_read_to_its_end_keeps_neither_the_list_nor_ctrl_c_waiting(tmp_path: Path) -> None:
    for name in ("good", "stuck"):
        make_run(tmp_path / name, {"a": [True]})
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().partition("127.0.0.1:")[2].partition("/")[0])
        for _ in range(3):
            connection = HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/")
            page = connection.getresponse().read().decode()
            connection.close()
            assert "complete" in page
            assert "Reading it takes a while" in page
        waiting = HTTPConnection("127.0.0.1", port, timeout=60)
        waiting.request("GET", "/run/stuck/")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        waiting.close()
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert (out, err) == ("", "")


def test_what_takes_long_is_read_once_and_shown_when_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "slow", {"a": [True]})
    gate, calls = threading.Event(), []

    def slowly(*arguments: object) -> object:
        calls.append(1)
        gate.wait(60)
        return summarise(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("proctor.viewer.runs.summarise", slowly)
    found = Runs(tmp_path)
    assert [found.summary(tmp_path / "slow", 0.0).state for _ in range(3)] == ["unreadable"] * 3
    assert len(calls) <= 1
    gate.set()
    assert found.summary(tmp_path / "slow", 60.0).state == "complete"
    assert len(calls) == 1


def test_one_thing_cannot_take_up_all_readers() -> None:
    gate = threading.Event()
    readers = Readers(most=3, most_each=2)
    under_way = [readers.start("bad", gate.wait, 60) for _ in range(2)]
    with pytest.raises(BusyError):
        readers.start("bad", gate.wait, 60)
    assert readers.start("good", lambda: 7).result(60) == 7
    under_way.append(readers.start("other", gate.wait, 60))
    with pytest.raises(BusyError):
        readers.start("good", lambda: 7)
    gate.set()
    assert [future.result(60) for future in under_way] == [True] * 3
    assert readers.start("bad", lambda: 8).result(60) == 8
