"""JUnit XML as CI systems read it: cases and counts that agree, failures only where something is asked."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness import flags, run_cli, tiny_tree
from made_runs import make_run
from proctor.cli.main import run


def suite_of(file: Path) -> ET.Element:
    """Return the one suite in a file, whose numbers are those of its cases."""
    top = ET.parse(file).getroot()
    (suite,) = top
    cases = suite.findall("testcase")
    counts = {
        "tests": len(cases),
        "failures": sum(case.find("failure") is not None for case in cases),
        "errors": sum(case.find("error") is not None for case in cases),
        "skipped": sum(case.find("skipped") is not None for case in cases),
    }
    for element in (top, suite):
        assert {name: int(element.attrib[name]) for name in counts} == counts
    assert all(case.attrib.keys() == {"classname", "name", "time"} for case in cases)
    assert suite[0].tag == "properties"
    return suite


def kinds(suite: ET.Element) -> dict[str, list[str]]:
    """Return what each case came to, beside its output."""
    cases = suite.findall("testcase")
    return {case.attrib["name"]: [part.tag for part in case if part.tag != "system-out"] for case in cases}


def test_a_failing_policy_fails_no_case_unless_a_rate_is_asked_of_it(tmp_path: Path) -> None:
    path, file = make_run(tmp_path / "run", {"a": [False] * 3, "b": [True] * 3}), tmp_path / "junit.xml"
    assert run(["show", str(path), f"--junit={file}"]) == 0
    assert kinds(suite_of(file)) == {"success rate": [], "a": [], "b": []}
    assert run(["show", str(path), f"--junit={file}", "--min_success=0.6"]) == 4
    suite = suite_of(file)
    assert kinds(suite) == {"success rate": ["failure"], "a": [], "b": []}
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "the rate must reach 60 %; success 50.0 % (3/6" in failure.attrib["message"]


def test_errors_are_errors_of_their_tasks_and_what_never_ran_is_skipped(tmp_path: Path) -> None:
    missing = [("c", index) for index in range(3)]
    path = make_run(tmp_path / "run", {"a": [None, None, True], "b": [True] * 3, "c": [True] * 3}, missing=missing)
    file = tmp_path / "junit.xml"
    assert run(["show", str(path), f"--junit={file}"]) == 0
    suite = suite_of(file)
    assert kinds(suite) == {"success rate": ["error"], "a": ["error"], "b": [], "c": ["skipped"]}
    errors = [case.find("error") for case in suite.findall("testcase")]
    assert errors[0] is not None
    assert "3 of 9 episodes have not ended" in errors[0].attrib["message"]
    assert errors[1] is not None
    assert errors[1].text == "2 episodes of a: it broke (first: a episode 0)"


def test_what_xml_cannot_hold_is_left_out(tmp_path: Path) -> None:
    path, file = make_run(tmp_path / "run", {"a\x01<&b": [True]}), tmp_path / "junit.xml"
    assert run(["show", str(path), f"--junit={file}"]) == 0
    assert "a?<&b" in kinds(suite_of(file))


@pytest.mark.parametrize("display", ["plain", "json", "none"])
def test_eval_writes_it_whatever_is_shown(tmp_path: Path, display: str) -> None:
    file = tmp_path / "junit.xml"
    tree = tiny_tree(tmp_path / "run", n_episodes=1, display=display, junit=str(file), min_success=1.0)
    done = run_cli("eval", *flags(tree))
    assert kinds(suite_of(file)).keys() == {"success rate", "a", "b", "c"}
    assert done.returncode == (4 if kinds(suite_of(file))["success rate"] else 0)
