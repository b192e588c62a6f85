"""A run that an earlier Proctor wrote opens in report, viewer and comparison.

`earlier_run.sql` is its table as text, from the code before the store was reorganised. It is not to be made anew:
a change of the layout needs another schema version, and a further file.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from proctor.comparison.compare import compare_many
from proctor.machine.addresses import Hosts
from proctor.report.page.page import write_report
from proctor.results import ScoredRun
from proctor.stats.intervals import success_rate
from proctor.viewer.app import make_app
from proctor.viewer.summaries import summarise

TABLE = Path(__file__).with_name("earlier_run.sql")


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    run = tmp_path / "runs" / "earlier"
    run.mkdir(parents=True)
    with sqlite3.connect(run / "run.sqlite") as database:
        database.executescript(TABLE.read_text())
    database.close()
    (run / "config.yaml").write_text("policy:\n  type: python\n  path: made.py:Policy\neval: {}\n")
    return run


def test_it_is_read_as_it_was_written(earlier: Path) -> None:
    run = ScoredRun.open(earlier)
    assert run.results.overall == success_rate(3, 5)
    assert (len(run.records), run.ended.errors, run.complete) == (6, 1, True)
    record = next(record for record in run.records if record.worker == "1")
    assert (record.task, record.episode_index, record.seed, record.success) == ("far", 1, 1001, True)
    assert (record.sum_reward, record.steps, record.metrics, record.asks) == (4.5, 9, {"progress": 0.5}, 3)
    assert record.timing == {"simulate": 0.1, "draw": 0.05}
    (curve,) = run.reward_curves([run.plan.place_of(record.key) or 0]).values()
    assert curve.means.tolist() == pytest.approx([step / 8 for step in range(9)])
    assert [note.message for note in run.notes] == ["near episode 2: attempt 3 of 3 failed: it broke"]
    assert [(session.workers, session.startup, session.ending) for session in run.sessions] == [(2, 0.5, None)]


def test_it_has_a_report(earlier: Path) -> None:
    assert "60.0&nbsp;%" in write_report([earlier]).read_text()


def test_the_viewer_lists_and_shows_it(earlier: Path) -> None:
    summary = summarise(earlier.parent, earlier, None)
    assert (summary.state, summary.ended, summary.rate) == ("complete", 6, success_rate(3, 5))
    client = TestClient(make_app(earlier.parent, Hosts("127.0.0.1", 8642)), "http://127.0.0.1:8642")
    assert "3 of 5" in client.get("/run/earlier/").text


def test_it_is_compared(earlier: Path) -> None:
    pytest.importorskip("scipy")
    (found,) = compare_many([earlier, earlier]).comparisons
    assert (found.paired, found.overall.episodes, found.n_disagreements) == (True, 5, 0)
