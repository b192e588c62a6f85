"""No check can raise or hang: it becomes a line."""

from __future__ import annotations

import threading

from proctor.doctor.examination import guarded
from proctor.doctor.findings import Finding, first_step

FINE = Finding("a", "fine", "ok", "1.0", needed=True)


def test_a_check_that_raises_is_itself_the_finding() -> None:
    def look() -> list[Finding]:
        raise ZeroDivisionError("by nothing")

    (finding,) = guarded("a", look, needed=True)
    assert finding.text == "failed: ZeroDivisionError: by nothing"
    assert finding.in_the_way
    assert not guarded("a", look)[0].in_the_way


def test_a_check_that_hangs_is_itself_the_finding() -> None:
    release = threading.Event()

    def look() -> list[Finding]:
        release.wait()
        return [FINE]

    try:
        (finding,) = guarded("a", look, seconds=0.05)
    finally:
        release.set()
    assert finding.state == "broken"
    assert "no answer" in finding.text


def test_a_check_that_works_says_what_it_found() -> None:
    assert guarded("a", lambda: [FINE]) == [FINE]


def test_the_first_step_is_that_of_the_first_needed_thing() -> None:
    optional = Finding("a", "option", "broken", "no", "mend the option")
    warning = Finding("a", "warning", "note", "few", "get more", needed=True)
    first = Finding("a", "first", "absent", "no", "get the first", needed=True)
    second = Finding("a", "second", "broken", "no", "mend the second", needed=True)
    assert first_step([FINE, optional, warning]) is None
    assert first_step([FINE, optional, warning, first, second]) == "get the first"
