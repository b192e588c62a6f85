"""An eventfd rings whoever waits, whatever its number and whatever signals come, and nobody once it is closed."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proctor.engine.eventfd import EventFd


@pytest.fixture
def bell() -> Iterator[EventFd]:
    bell = EventFd()
    yield bell
    bell.close()


def test_a_ring_is_heard_once_also_if_it_came_first(bell: EventFd) -> None:
    bell.ring()
    bell.ring()
    assert bell.wait()
    assert not bell.wait(0)


def test_a_closed_bell_writes_into_no_file_that_has_its_number(tmp_path: Path, bell: EventFd) -> None:
    number = bell.fileno()
    bell.close()
    with (tmp_path / "file").open("wb") as file:
        assert file.fileno() == number  # the lowest that is free
        bell.ring()
        assert not bell.wait()
        bell.close()  # a second time
    assert (tmp_path / "file").read_bytes() == b""


def test_whoever_waits_is_woken_when_it_is_closed_and_only_then_its_number_is_free(bell: EventFd) -> None:
    told: list[bool] = []
    number = bell.fileno()
    waiter = threading.Thread(target=lambda: told.append(bell.wait()))
    waiter.start()
    while not bell._users:
        pass
    bell.close()
    waiter.join()
    assert told == [False]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_a_signal_does_not_end_the_wait(bell: EventFd) -> None:
    handled = threading.Event()

    def handle(*_: object) -> None:
        if handled.is_set():
            bell.ring()
        handled.set()

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        assert bell.wait()  # the first signal rings nothing
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert handled.is_set()


def test_a_signal_handler_may_ring_while_its_thread_does(bell: EventFd) -> None:
    rung = 0

    def ring(*_: object) -> None:
        nonlocal rung
        bell.ring()
        rung += 1

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        while rung < 20:  # if a ring waited for the one that it interrupts, it would wait for ever
            bell.ring()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert bell.wait(0)


def test_a_descriptor_above_1023_is_waited_at() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2048)), hard))
    try:
        low = EventFd()
        high = EventFd(fcntl.fcntl(low.fileno(), fcntl.F_DUPFD_CLOEXEC, 1100))
        assert not high.wait(0.001)
        low.ring()
        assert high.wait(10)
        low.close()
        high.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_however_ringing_waiting_and_closing_fall_together_no_other_file_is_touched(tmp_path: Path) -> None:
    """Threads at random, under a short switch interval, with files that take every number that comes free."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(150):
            bell = EventFd()
            start = threading.Barrier(5)

            def use(act: Callable[[], object], start: threading.Barrier = start) -> None:
                start.wait()
                act()

            acts = [bell.ring, bell.ring, bell.wait, bell.close, bell.close]
            threads = [threading.Thread(target=use, args=(act,)) for act in acts]
            for thread in threads:
                thread.start()
            files = [(tmp_path / f"{number}").open("wb") for number in range(8)]
            for thread in threads:
                thread.join()
            sizes = [os.fstat(file.fileno()).st_size for file in files]
            for file in files:
                file.close()
            assert sizes == [0] * 8
            assert bell.fileno() == -1
    finally:
        sys.setswitchinterval(before)
