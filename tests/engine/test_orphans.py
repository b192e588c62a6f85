"""What a child leaves behind is found by its mark and ended, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import descendants, is_over, wait_until, warden_of
from proctor.engine import orphans
from proctor.engine import process as process_module
from proctor.engine.orphans import VARIABLE
from proctor.engine.process import STRAYS, marked

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(3600)"]


@pytest.fixture
def start() -> Iterator[object]:
    """Return a function that starts a process which has left everything but its environment."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(environment: dict[str, str]) -> int:
        started.append(subprocess.Popen(SLEEP, env={**os.environ, **environment}, start_new_session=True))
        return started[-1].pid

    yield begin
    for process in started:
        process.kill()
        process.wait()


def test_who_has_the_mark_of_an_ended_child_is_ended_and_nobody_else(start: object) -> None:
    begin = start
    assert callable(begin)
    first, second = STRAYS.admit(), STRAYS.admit()
    mine, others = begin(marked(first)), begin(marked(second))
    stranger, namesake = begin({}), begin({VARIABLE: f"{first}1"})
    STRAYS.dismiss(first)
    wait_until(lambda: is_over(mine))
    assert not any(map(is_over, (others, stranger, namesake)))
    STRAYS.dismiss(second)  # the last: it is waited for
    wait_until(lambda: is_over(others))
    assert not is_over(stranger)


def test_a_mark_inside_another_run_counts_for_both(start: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(start)
    around = STRAYS.admit()
    monkeypatch.setenv(VARIABLE, around)
    inside = start(marked("another.1"))
    STRAYS.dismiss(around)
    wait_until(lambda: is_over(inside))


def test_a_process_that_is_just_becoming_another_program_is_looked_at_again(
    start: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(start)
    inside = start({VARIABLE: "run.1"})
    read, nothing = orphans.environment, iter([b""] * (orphans.LOOKS - 1))
    monkeypatch.setattr(
        orphans, "environment", lambda name: next(nothing, read(name)) if name == str(inside) else read(name)
    )
    orphans.end_marked({b"run.1"})
    wait_until(lambda: is_over(inside))


def test_a_process_without_any_environment_is_nobodys_and_not_waited_for() -> None:
    with subprocess.Popen(["env", "-i", *SLEEP]) as bare:
        wait_until(lambda: not orphans.environment(str(bare.pid)))
        orphans.end_marked({b"run.1"})
        assert not is_over(bare.pid)
        bare.kill()


def test_the_warden_goes_with_the_last_child_and_comes_back_with_the_next() -> None:
    for _ in range(2):
        mark = STRAYS.admit()
        (warden,) = descendants(os.getpid())
        assert "orphans.py" in " ".join(warden.cmdline())
        STRAYS.dismiss(mark)
        assert descendants(os.getpid()) == []
        STRAYS.dismiss(mark)  # a second time


def test_a_killed_warden_is_replaced_and_the_next_one_knows_every_child(start: object) -> None:
    assert callable(start)
    marks = [STRAYS.admit() for _ in range(4)]
    left = [start(marked(mark)) for mark in marks]

    def kill_warden() -> None:
        warden = warden_of(os.getpid())
        warden.kill()
        wait_until(lambda: is_over(warden))

    kill_warden()
    STRAYS.dismiss(marks[0])  # noticed when a child ends
    wait_until(lambda: is_over(left[0]))
    kill_warden()
    marks.append(STRAYS.admit())  # and when one starts
    STRAYS.dismiss(marks[1])
    wait_until(lambda: is_over(left[1]))
    assert not any(map(is_over, left[2:]))
    STRAYS.dismiss(marks[2])
    STRAYS.dismiss(marks[4])
    kill_warden()
    STRAYS.dismiss(marks[3])  # with the last child there is nobody to start another for
    wait_until(lambda: is_over(left[2]) and is_over(left[3]))
    assert STRAYS._warden is None


def test_a_stopped_warden_delays_nobody_and_its_work_is_done(start: object) -> None:
    assert callable(start)
    first, second = STRAYS.admit(), STRAYS.admit()
    left = [start(marked(first)), start(marked(second))]
    warden_of(os.getpid()).suspend()
    STRAYS.dismiss(first)
    STRAYS.dismiss(second)
    wait_until(lambda: all(map(is_over, left)))


def test_a_warden_that_never_ends_is_killed_and_its_work_is_done(
    start: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert callable(start)
    (tmp_path / "orphans.py").write_text("import time; time.sleep(3600)")
    monkeypatch.setattr(process_module, "_WARDEN", tmp_path / "orphans.py")
    monkeypatch.setattr(process_module, "_PATIENCE", 0.1)
    mark = STRAYS.admit()
    warden, stray = warden_of(os.getpid()), start(marked(mark))
    STRAYS.dismiss(mark)
    assert is_over(warden)
    wait_until(lambda: is_over(stray))


FORK = """
import os, sys, time
from proctor.engine import orphans
from proctor.engine import process as process_module
from proctor.engine.process import STRAYS, marked
mark = STRAYS.admit()
import subprocess
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(3600)"],
                         env={**os.environ, **marked(mark)}, start_new_session=True)
fork = os.fork()
if fork == 0:
    STRAYS.dismiss(mark)
    time.sleep(3600)
print(child.pid, fork, flush=True)
sys.stdin.read()
"""


def test_a_fork_of_the_run_neither_ends_its_children_nor_keeps_them_alive() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FORK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        child, fork = map(int, process.stdout.readline().split())
        assert not is_over(child)
        process.kill()
    try:
        wait_until(lambda: is_over(child))
    finally:
        os.kill(fork, 9)
        wait_until(lambda: is_over(fork))
