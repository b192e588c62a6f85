"""A run that is too long to be listed is read from its table: the same records, and results that say so."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest

import proctor
from harness import SUPPORT, run_tiny
from made_runs import make_run
from proctor.events import Progress, Watcher
from proctor.results import Evaluation, ScoredRun
from proctor.store import stored_run
from proctor.store.schema import EpisodeRecord

INLINE = {"use_async_envs": False}


class Census(Watcher):
    """Counts, a few times a second, the records that are alive."""

    def __init__(self) -> None:
        self.most = self.looks = self.episodes = 0

    def episode(self, record: EpisodeRecord) -> None:
        self.episodes += 1
        self.most = max(self.most, alive()) if self.episodes % 25 == 0 else self.most

    def progress(self, progress: Progress) -> None:
        self.looks += 1


def alive() -> int:
    return sum(type(one) is EpisodeRecord for one in gc.get_objects())


@pytest.fixture
def short_lists(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(stored_run, "MOST_LISTED", 5)
    return 5


def long_run(place: Path, watcher: Watcher | None = None) -> Evaluation:
    return run_tiny(place, watcher=watcher, n_episodes=25, env={"max_steps": 1}, eval=INLINE)


def test_no_record_outlives_its_episode(tmp_path: Path, short_lists: int) -> None:
    gc.collect()
    before, census = alive(), Census()
    evaluation = long_run(tmp_path / "run", census)
    assert len(evaluation.records) == census.episodes == 75
    assert census.most - before < short_lists
    assert alive() - before < short_lists
    again = long_run(tmp_path / "run", Census())  # one that goes on with all that is stored
    assert again.results.ended.ended == 75
    assert alive() - before < short_lists


def test_a_run_in_one_process_is_looked_at_a_few_times_a_second_and_not_after_every_episode(
    tmp_path: Path,
) -> None:
    census = Census()
    run_tiny(tmp_path / "run", watcher=census, n_episodes=40, env={"max_steps": 1}, eval=INLINE)
    assert census.episodes == 120
    assert 1 <= census.looks < 60


def test_records_are_the_same_whether_held_or_read_from_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = long_run(tmp_path / "run")
    assert held.records.listed
    monkeypatch.setattr(stored_run, "MOST_LISTED", 5)
    read = ScoredRun(held.directory, held.plan)
    assert not read.records.listed
    assert list(read.records) == list(held.records)
    assert (read.records[3], read.records[-1], read.records[2:4]) == (
        held.records[3],
        held.records[-1],
        held.records[2:4],
    )
    assert [record.key for record in read.records] == [episode.key for episode in held.plan]
    assert read.results.result == held.results.result


def test_eval_info_of_a_long_run_leaves_its_lists_to_the_table_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = long_run(tmp_path / "short").info
    assert "left_out" not in whole
    monkeypatch.setattr(stored_run, "MOST_LISTED", 5)
    long = json.loads((long_run(tmp_path / "long").directory / "eval_info.json").read_text())
    assert long["left_out"].startswith("75 episodes: above ")
    assert "run.sqlite" in long["left_out"]
    assert long["per_episode"] is None
    for ours, theirs in zip(long["per_task"], whole["per_task"], strict=True):
        assert ours["metrics"].keys() == theirs["metrics"].keys()
        assert {ours["metrics"][name] for name in ("sum_rewards", "max_rewards", "successes", "video_paths")} == {
            None
        }
    assert long["overall"]["video_paths"] is None
    for name in ("pc_success", "n_episodes", "avg_sum_reward", "avg_max_reward"):
        assert long["overall"][name] == whole["overall"][name]
    assert long["intervals"] == whole["intervals"]
    assert long["errors"] == whole["errors"]


def test_what_evaluate_returns_of_a_long_run_is_read_when_it_is_asked_for(
    tmp_path: Path, short_lists: int
) -> None:
    result = proctor.evaluate(
        "zero",
        benchmark=f"{SUPPORT / 'tiny.py'}:Tiny",
        task="a,b",
        n_episodes=4,
        output_dir=tmp_path / "run",
        display="none",
    )
    assert [(record.task, record.episode_index) for record in result][:3] == [("a", 0), ("b", 0), ("a", 1)]
    assert (len(result), result.complete, result.errors) == (8, True, [])


def test_a_report_of_a_long_run_says_where_the_rest_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from proctor.report.page import episodes, run_section, timeline
    from proctor.report.page.page import write_report

    run = make_run(tmp_path / "run", {"a": [False] * 30, "b": [True, False, None] * 10})
    monkeypatch.setattr(stored_run, "MOST_LISTED", 20)
    for module in (episodes, run_section):
        monkeypatch.setattr(module, "MOST_ROWS", 10)
    monkeypatch.setattr(timeline, "_MOST_MARKS", 8)
    page = write_report([run]).read_text()
    assert "the first 10, all are in run.sqlite" in page
    assert "and 25 more, in run.sqlite" in page, "of each task with failures there are some"
    assert "and 5 more, in run.sqlite" in page
    assert "60 episodes" in page


def test_a_long_comparison_counts_all_disagreements_and_lists_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from proctor.comparison import compare as module
    from proctor.comparison.result import as_document

    pytest.importorskip("scipy")
    first = make_run(tmp_path / "first", {"a": [True] * 30 + [None]})
    second = make_run(tmp_path / "second", {"a": [False] * 12 + [True] * 19})
    monkeypatch.setattr(module, "MOST_LISTED", 5)
    found = module.compare_many([first, second])
    (one,) = found.comparisons
    assert (one.n_disagreements, len(one.disagreements), one.left_out) == (12, 5, 1)
    assert as_document(found)["comparisons"][0]["n_disagreements"] == 12
