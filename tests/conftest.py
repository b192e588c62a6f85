"""What every test shares: a look at what is left behind, and a reference run."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from doc_blocks import count
from harness import Digests, digests, run_tiny


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell how many blocks of the docs were run, where they were."""
    passed = terminalreporter.stats.get("passed", [])
    if any(report.nodeid.startswith("tests/docs/test_blocks.py") for report in passed):
        terminalreporter.write_line(count())


def pytest_configure() -> None:
    """Let Ctrl-C work in what the tests start, even if they run in a shell's background, where it is ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave all but the first cases of a test that is marked `sampled` to the slow proofs."""
    cases: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is not None:
            test = item.nodeid.partition("[")[0]
            cases[test] += 1
            if cases[test] > mark.args[0]:
                item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """No test may leave a process, a descriptor or a shared memory file."""
    before = _descriptors()
    yield
    children = psutil.Process().children(recursive=True)
    for child in children:
        child.kill()
    psutil.wait_procs(children, timeout=10)  # so that the next test does not find what this one left
    assert children == [], f"left behind: {children}"
    deadline = time.monotonic() + 10  # a server's or client's thread may be about to close its connection
    while (left := _left(before)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left


def _left(before: dict[int, str]) -> dict[int, str]:
    """Return what has been opened since, of those kinds that nothing but a leak keeps open."""
    kinds = ("memfd", "eventfd", "socket")
    now = {number: target for number, target in _descriptors().items() if number not in before}
    return {number: target for number, target in now.items() if any(kind in target for kind in kinds)}


def _descriptors() -> dict[int, str]:
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found[int(entry.name)] = str(entry.readlink())
        except OSError:
            continue
    return found


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Digests:
    """The digests of the standard tiny run, undisturbed, one worker: what every other way must equal."""
    evaluation = run_tiny(tmp_path_factory.mktemp("reference") / "run", eval={"batch_size": 1})
    assert evaluation.error is None
    found = digests(evaluation)
    assert len(set(found.values())) == 12
    return found
