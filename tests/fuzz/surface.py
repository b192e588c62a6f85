"""One side of Proctor that strangers' input comes to: every input is timed, looked after, and counted."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from fuzz.sandbox import SECRETS, Sandbox

HARD_LIMIT, SLOW = 60.0, 5.0
PATIENCE = 20.0
"""Seconds in which what runs beside must have tidied up; a busy machine takes its time."""
STATUSES = {0, 1, 2, 3, 130}


class HungError(BaseException):
    """An input took longer than any may."""


class Trial:
    """One input on its way: what came of it, and what was wrong about that."""

    def __init__(self) -> None:
        self.status = "?"
        self.refused = False
        self.faults: list[tuple[str, str]] = []

    def fault(self, kind: str, words: str = "") -> None:
        """Note something that must not be; faults of one kind are told once."""
        self.faults.append((kind, words))

    def unforeseen(self, error: BaseException) -> None:
        """Note an exception that has no words of its own, by where it comes from."""
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/proctor/" in frame.filename]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"
        story = "".join(traceback.format_exception(error))[-3000:]
        self.fault(f"{type(error).__name__} in {place}", story)

    def heard(self, *texts: str | bytes) -> None:
        """Look at what was put out: no traceback, and nothing from outside."""
        for text in texts:
            data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
            if b"Traceback (most recent call last)" in data:
                self.fault("a traceback is shown", data[-2000:].decode(errors="replace"))
            if any(secret in data for secret in SECRETS):
                self.fault("a file from outside is shown", data[-500:].decode(errors="replace"))


class Surface:
    """Counts the inputs of one surface, and what they came to."""

    def __init__(self, name: str, sandbox: Sandbox, threads: int = 0) -> None:
        self.name, self._sandbox, self._threads = name, sandbox, threads
        self.inputs = self.refused = 0
        self.statuses: Counter[str] = Counter()
        self.longest, self.longest_input = 0.0, ""
        self.slow: list[str] = []
        self._faults: dict[str, tuple[int, str, str]] = {}

    @contextlib.contextmanager
    def trial(self, described: Any) -> Iterator[Trial]:
        """Try one input, and see what is left of it."""
        trial, before = Trial(), _Belongings()
        self._sandbox.begin()
        started = time.monotonic()
        try:
            with _alarm():
                yield trial
        except HungError:
            trial.fault("takes longer than 60 s")
        except Exception as error:
            trial.unforeseen(error)
        took = time.monotonic() - started
        if took > HARD_LIMIT:
            trial.fault("takes longer than 60 s")
        for left in before.left_behind(self._threads):
            trial.fault(*left)
        for escape in self._sandbox.end():
            trial.fault(*escape)
        self._count(trial, took, repr(described))

    def _count(self, trial: Trial, took: float, described: str) -> None:
        self.inputs += 1
        self.refused += trial.refused
        self.statuses[trial.status] += 1
        if took > self.longest:
            self.longest, self.longest_input = took, described[:500]
        if took > SLOW:
            self.slow.append(f"{took:.1f} s: {described[:300]}")
        for kind, words in trial.faults:
            number, shortest, story = self._faults.get(kind, (0, described, words))
            if len(described) < len(shortest):
                shortest, story = described, words
            self._faults[kind] = (number + 1, shortest, story)

    def tally(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return {
            "surface": self.name,
            "inputs": self.inputs,
            "statuses": dict(sorted(self.statuses.items())),
            "refused": self.refused,
            "longest": round(self.longest, 2),
            "longest_input": self.longest_input,
            "slow": self.slow[:20],
            "faults": len(self._faults),
        }

    def drive(self, each: Callable[[], None]) -> None:
        """Try all inputs, then fail if anything was wrong, with the shortest input of each fault."""
        try:
            each()
        finally:
            self._conclude()

    def _conclude(self) -> None:
        told = [
            f"{kind}, {number} times, first of all with {shortest[:1500]}\n{story}"
            for kind, (number, shortest, story) in sorted(self._faults.items())
        ]
        assert not told, f"{len(told)} faults:\n\n" + "\n\n".join(told)


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise HungError

    old = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, HARD_LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


class _Belongings:
    """What this process had before an input."""

    def __init__(self) -> None:
        self._descriptors = _descriptors()
        self._threads = set(threading.enumerate())
        self._handlers = _handlers()
        self._directory = Path.cwd()

    def left_behind(self, threads: int) -> Iterator[tuple[str, str]]:
        """Yield what is there now and was not before.

        Args:
            threads: how many more may live on, of servers that run beside.
        """
        if _children():
            yield "a process is left behind", str(_children())
        new = _new_threads(self._threads)
        deadline = time.monotonic() + PATIENCE
        while len(new) > threads and time.monotonic() < deadline:
            time.sleep(0.005)
            new = _new_threads(self._threads)
        if len(new) > threads:
            yield "a thread is left behind", str(new)
        # A server that runs beside closes its end of a socket when it comes to it.
        left = _descriptors().items() - self._descriptors.items()
        while left and time.monotonic() < deadline:
            gc.collect()
            time.sleep(0.005)
            left = _descriptors().items() - self._descriptors.items()
        if left:
            yield "a descriptor is left open", str(left)
        if _handlers() != self._handlers:
            yield "a signal handler is left behind", str(_handlers())
        if Path.cwd() != self._directory:
            yield "the directory was changed", str(Path.cwd())
            os.chdir(self._directory)


def _new_threads(before: set[threading.Thread]) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread not in before]


def _handlers() -> list[Any]:
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)]


def _children() -> list[str]:
    found = []
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found += (thread / "children").read_text().split()
    return found


def _descriptors() -> dict[str, str]:
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found[entry.name] = str(entry.readlink())
    # The listing's own is gone again.
    return {name: target for name, target in found.items() if not target.endswith("/fd")}
