"""The judge itself: each thing that must not happen is noticed when it does."""

from __future__ import annotations

import base64
import os
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz import commands
from fuzz.sandbox import SECRET, Sandbox
from fuzz.surface import Surface, Trial
from proctor.cli import main


def _spawn() -> None:
    os.posix_spawn("/bin/sleep", ["sleep", "60"], {})


def _write_outside(sandbox: Sandbox) -> None:
    Path("/tmp/proctor-fuzz-escape").write_text("x")


def _leave_thread() -> None:
    threading.Thread(target=threading.Event().wait, args=(10,), daemon=True).start()


CASES: dict[str, Callable[[Trial, Sandbox], object]] = {
    "ZeroDivisionError in ?": lambda trial, sandbox: 1 // 0,
    "a file from outside is read": lambda trial, sandbox: (sandbox.beside / "secret.txt").read_text(),
    "open outside of the sandbox": lambda trial, sandbox: _write_outside(sandbox),
    "something is left behind": lambda trial, sandbox: (sandbox.root / "tmp" / "left").touch(),
    "a file outside was changed": lambda trial, sandbox: (sandbox.beside / "secret.txt").write_text("x"),
    "a traceback is shown": lambda trial, sandbox: trial.heard("Traceback (most recent call last):"),
    "a file from outside is shown": lambda trial, sandbox: trial.heard(base64.b64encode(f"ab{SECRET}cd".encode())),
    "a process is left behind": lambda trial, sandbox: _spawn(),
    "a thread is left behind": lambda trial, sandbox: _leave_thread(),
    "a descriptor is left open": lambda trial, sandbox: os.open("/dev/null", os.O_RDONLY),
    "a signal handler is left behind": lambda trial, sandbox: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "the directory was changed": lambda trial, sandbox: os.chdir("/"),
}


@pytest.mark.parametrize("kind", CASES)
def test_what_must_not_happen_is_noticed(
    sandbox: Sandbox, surface: Callable[..., Surface], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.surface.PATIENCE", 0.2)
    secret, handler = (sandbox.beside / "secret.txt").read_text(), signal.getsignal(signal.SIGTERM)
    before = set(_numbers())
    judged = surface("judge")
    with judged.trial(kind) as trial:
        CASES[kind](trial, sandbox)
    with pytest.raises(AssertionError, match=f"{re.escape(kind)}, 1 times"):
        judged.drive(lambda: None)
    signal.signal(signal.SIGTERM, handler)
    (sandbox.beside / "secret.txt").write_text(secret)
    assert not Path("/tmp/proctor-fuzz-escape").exists()
    _tidy(before)


def _numbers() -> list[str]:
    return [entry.name for entry in Path("/proc/self/fd").iterdir()]


def _tidy(before: set[str]) -> None:
    for name in set(_numbers()) - before:
        if os.path.realpath(f"/proc/self/fd/{name}") == "/dev/null":
            os.close(int(name))
    for child in Path("/proc/self/task").glob("*/children"):
        for pid in map(int, child.read_text().split()):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_a_command_that_needs_the_net_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(arguments: object) -> int:
        raise KeyError("nobody thought of this")

    monkeypatch.setattr(main, "_dispatch", broken)
    trial = Trial()
    with commands.short_lives():
        commands.run_here(trial, ["eval"])
    assert [kind for kind, _ in trial.faults][:1] == ["KeyError in main.py:run"]


def test_an_input_that_hangs_is_ended_and_noticed(
    surface: Callable[..., Surface], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.surface.HARD_LIMIT", 0.05)
    judged = surface("judge")
    with judged.trial("endless"):
        threading.Event().wait()
    with pytest.raises(AssertionError, match="takes longer than 60 s"):
        judged.drive(lambda: None)
