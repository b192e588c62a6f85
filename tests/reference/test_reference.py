"""Fixed runs give what the code gave before it was reorganised: digests, results, statuses, last lines.

Where a test fails because words were changed on purpose, edit the expected file; see `make.py`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from reference.observed import EXPECTED, machine, observe_all, written
from reference.runs import RUNS, Run

CASES = [
    pytest.param(run, id=run.name, marks=[pytest.mark.slow] * run.slow + [pytest.mark.gl] * run.draws)
    for run in RUNS
]


@pytest.fixture(scope="module")
def observed(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Do the runs that were asked for, before any test looks at one: two at a time take half as long."""
    if json.loads((EXPECTED / "machine.json").read_text()) != machine():
        pytest.skip("the expected files are of another kind of machine, or of other packages: see make.py")
    wanted = [item.nodeid for item in request.session.items]
    return observe_all(run for run in RUNS if any(name.endswith(f"[{run.name}]") for name in wanted))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("run", CASES)
def test_a_run_is_what_it_was(run: Run, observed: dict[str, Any]) -> None:
    seen = observed[run.name]
    if isinstance(seen, Exception):
        raise seen
    assert written(seen).splitlines() == (EXPECTED / f"{run.name}.json").read_text().splitlines()


def test_every_expected_file_has_its_run() -> None:
    assert {file.stem for file in EXPECTED.glob("*.json")} == {"machine", *(run.name for run in RUNS)}
