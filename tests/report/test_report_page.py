"""What the report says is what the store and the statistics say, whatever the run is like."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from made_up_run import MadeUp, alter, make_run

from harness import run_tiny
from proctor.comparison.compare import compare
from proctor.errors import UsageError
from proctor.report.page.page import write_report
from proctor.results import ScoredRun
from proctor.stats.intervals import Rate, wilson
from proctor.stats.macro import stratified
from proctor.stats.steps import curve_of_successes
from proctor.store.episodes import EpisodeTable
from proctor.store.schema import EpisodeRecord, RunningEpisode
from proctor.types import Task
from report_pages import HTML, SMALL, SVG, Document


def report(tmp_path: Path, *kinds: MadeUp, **options: Any) -> Document:
    runs = [make_run(tmp_path / f"run-{place}", kind) for place, kind in enumerate(kinds)]
    output = tmp_path / "out.html" if len(runs) > 1 else None
    return Document(write_report(runs, output, **options))


def plain_rate(records: Iterable[EpisodeRecord]) -> Rate:
    finished = [record for record in records if record.status == "finished"]
    return wilson(sum(bool(record.success) for record in finished), len(finished))


def stored(directory: Path) -> list[EpisodeRecord]:
    with EpisodeTable(directory / "run.sqlite", read_only=True) as table:
        return list(table.records())


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[Document, list[EpisodeRecord]]:
    place = tmp_path_factory.mktemp("page")
    document = report(place, MadeUp(tasks=SMALL, n_episodes=20, errors=3))
    return document, stored(place / "run-0")


def test_the_headline_is_the_rate_of_the_store_with_its_interval(
    page: tuple[Document, list[EpisodeRecord]],
) -> None:
    document, records = page
    rate = plain_rate(records)
    worst = wilson(rate.successes, len(records))
    assert rate.value is not None
    assert worst.value is not None
    words = document.text(document.section("result"))
    assert f"{percent(rate.value)} % {percent(rate.low)}–{percent(rate.high)}" in words
    assert f"{rate.successes} of {rate.episodes}" in words
    assert "Errors 3 episodes" in words
    assert f"If errors were failures {percent(worst.value)} %" in words


def test_the_average_over_tasks_is_that_of_the_statistics(page: tuple[Document, list[EpisodeRecord]]) -> None:
    document, records = page
    rates = [plain_rate(r for r in records if r.key[:2] == (task.group, task.task_id)) for task in SMALL]
    average = stratified([(rate.successes, rate.episodes) for rate in rates])
    assert average is not None
    expected = f"Average over tasks {percent(average.value)} % {percent(average.low)}–{percent(average.high)}"
    assert expected in document.text(document.section("result"))


def test_every_task_and_group_has_its_bar_and_its_numbers(page: tuple[Document, list[EpisodeRecord]]) -> None:
    document, records = page
    (table,) = document.all("table", class_="tasks")
    rows = document.rows(table)[1:]
    names = ["easy 3 tasks", *(t.name for t in SMALL[:3]), "hard 2 tasks", *(t.name for t in SMALL[3:])]
    assert [row[0] for row in rows] == names
    for row in rows:
        group, _, rest = row[0].partition(" ")
        members = [r for r in records if (r.task_group == group if rest else r.task == row[0])]
        rate = plain_rate(members)
        assert rate.value is not None
        assert row[2].startswith(f"{percent(rate.value)} %")
        assert row[4] == f"{percent(rate.low)}–{percent(rate.high)}"
        assert row[3].startswith(f"{rate.successes}/{rate.episodes}")
        assert row[5] == str(sum(r.status == "error" for r in members) or "")
    bars = [bar for bar in table.iter(f"{SVG}rect") if "bar" in (bar.get("class") or "").split()]
    widths = [float(bar.get("width").rstrip("%")) for bar in bars]
    shown = [float(row[2].partition(" ")[0]) for row in rows]
    assert widths == pytest.approx(shown, abs=0.06)


def test_success_against_steps_is_the_curve_of_the_statistics(page: tuple[Document, list[EpisodeRecord]]) -> None:
    document, records = page
    finished = [record for record in records if record.success is not None]
    curve = curve_of_successes([record.steps for record in finished if record.success], len(finished))
    (table,) = document.section("steps").iter(f"{HTML}table")
    rows = document.rows(table)
    assert rows[0] == ["By step", "all tasks", "easy", "hard"]
    for row in rows[1:]:
        rate = curve.by(int(row[0]))
        assert row[1] == f"{percent(rate.value or 0)} ({percent(rate.low)}–{percent(rate.high)})"
    assert len(document.all("path", class_="curve")) >= 3
    (figure,) = [svg for svg in document.all("svg") if svg.get("aria-labelledby") == "steps-t steps-d"]
    assert "half of the successes by step" in document.text(figure)


def test_rewards_failures_and_workers_are_there(page: tuple[Document, list[EpisodeRecord]]) -> None:
    document, records = page
    panels = list(document.section("rewards").iter(f"{SVG}svg"))
    assert len([svg for svg in panels if svg.get("role") == "img"]) == len(SMALL)
    failed = [record for record in records if record.success is False]
    words = document.text(document.section("episodes"))
    assert f"{len(failed)} failed episodes" in words
    assert all(f"{record.episode_index} ({record.seed})" in words for record in failed)
    assert words.count("the worker was killed by signal 11 during step") == 3
    marks = [rect for rect in document.all("rect", class_="lane") if list(rect)]
    assert len(marks) == len(records) - 3
    assert "3 messages of the run" in document.text(document.section("setup"))


def test_every_figure_says_what_it_shows_and_every_table_what_it_holds(
    page: tuple[Document, list[EpisodeRecord]],
) -> None:
    document, _ = page
    idents = [element.get("id") for element in document.root.iter() if element.get("id")]
    assert len(idents) == len(set(idents))
    for svg in document.all("svg"):
        inner = svg.get("preserveAspectRatio") is not None
        named = (svg.get("aria-labelledby") or "").split()
        assert inner or svg.get("aria-hidden") == "true" or (named and set(named) <= set(idents))
    for table in document.all("table"):
        assert [child for child in table if child.tag == f"{HTML}caption"]
    assert not [th for th in document.all("th") if not th.get("scope")]
    levels = [int(e.tag[-1]) for e in document.root.iter() if re.fullmatch(r".*}h[1-6]", str(e.tag))]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_nothing_is_asked_of_a_network_and_nothing_runs_but_the_script_that_is_named(
    page: tuple[Document, list[EpisodeRecord]],
) -> None:
    document, _ = page
    assert not re.search(r"https?://|//[a-z]", document.source.replace("http://www.w3.org", ""))
    sources = [e.get(name) for e in document.root.iter() for name in ("src", "href", "poster") if e.get(name)]
    assert all(source.startswith(("#", "videos/")) or "/" not in source for source in sources)
    (policy,) = [
        m.get("content") for m in document.all("meta") if m.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert not [
        e for e in document.root.iter() if any(name.startswith("on") or name == "style" for name in e.attrib)
    ]


HOSTILE = "</script><img src=x onerror=alert(1)>\"'&{{ 7 * 7 }}"


def test_names_are_data(tmp_path: Path) -> None:
    tasks = [Task(HOSTILE, 0, HOSTILE, HOSTILE, 100), Task(HOSTILE, 1, "plain", HOSTILE, 100)]
    document = report(tmp_path, MadeUp(tasks=tasks, n_episodes=3, errors=1, policy=HOSTILE))
    assert document.all("img") == []
    assert len(document.all("script")) == 1
    assert HOSTILE in document.text(document.section("tasks"))
    assert "49" not in document.text(document.all("header")[0])


def test_a_report_of_500_episodes_over_50_tasks_is_small(tmp_path: Path) -> None:
    document = report(tmp_path, MadeUp())
    assert len(document.rows(document.all("table", class_="tasks")[0])) == 1 + 50 + 4
    assert len(document.source.encode()) < 1_000_000  # the promise is 2 MB


def test_rates_of_a_run_that_is_cut_short_are_estimates_over_all_that_was_started(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", MadeUp(tasks=SMALL, n_episodes=20, errors=0, ended=60))
    run = ScoredRun.open(directory)
    failures = {record.key: record for record in run.records if not record.success}
    failures = dict(list(failures.items())[:5])
    # Five failures have not ended yet.
    alter(
        directory,
        "episodes",
        lambda row: None if (row["task_group"], row["task_id"], row["episode_index"]) in failures else row,
    )
    with EpisodeTable(directory / "run.sqlite") as table:
        table.write([], running=[RunningEpisode(key, record.steps - 1) for key, record in failures.items()])
    successes = sum(bool(record.success) for record in run.records)
    document = Document(write_report([directory]))
    words = document.text(document.section("result"))
    assert f"{successes} of 55" in words
    # They have outlasted every success, so they count as the failures that they are.
    assert f"~{percent(successes / 60)} %" in words
    assert "55 of 100 planned episodes have ended. Incomplete: 5 episodes were still running" in words
    assert f"The finished episodes alone ({percent(successes / 55)} %) favour quick successes" in words
    assert "Average over tasks" not in words


def test_a_run_in_which_nothing_ended_has_a_report(tmp_path: Path) -> None:
    document = report(tmp_path, MadeUp(tasks=SMALL, n_episodes=2, errors=0, ended=0))
    assert "no episode finished" in document.text(document.section("result"))


def test_a_run_in_which_everything_was_an_error_has_no_rate(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", MadeUp(tasks=SMALL[:1], n_episodes=1, errors=0, ended=0))
    run = ScoredRun.open(directory)
    with EpisodeTable(directory / "run.sqlite") as table:
        table.write([EpisodeRecord.failed(run.plan[0], 3, "it fell over")])
    words = Document(write_report([directory])).text()
    assert "no episode finished" in words
    assert "it fell over" in words


def test_a_benchmark_that_tells_no_success_has_rewards_and_no_rate(tmp_path: Path) -> None:
    document = report(tmp_path, MadeUp(tasks=SMALL, n_episodes=4, errors=0, tells_success=False))
    words = document.text(document.section("result"))
    assert "mean sum of rewards" in words
    assert "reports no success" in words
    assert "%" not in words
    headings = document.rows(document.all("table", class_="tasks")[0])[0]
    assert headings == ["Task", "n", "Reward", "Steps"]
    assert "0 failed" not in document.text()


def test_several_runs_stand_side_by_side_with_the_verdict_of_proctor_compare(tmp_path: Path) -> None:
    kinds = (MadeUp(tasks=SMALL, n_episodes=20), MadeUp(tasks=SMALL, n_episodes=20, skill=-1.5, policy="other"))
    document = report(tmp_path, *kinds)
    found = compare(tmp_path / "run-0", tmp_path / "run-1")
    words = document.text(document.section("compare"))
    assert f"B is {found.verdict} than A" in words
    rows = {row[0]: row for table in document.all("table", class_="differences") for row in document.rows(table)}
    for task, row in found.per_task().items():
        assert rows[task][5:7] == [percent(row.first.value or 0), percent(row.second.value or 0)]
        assert rows[task][1] == row.verdict
    for place, run in enumerate(("run-0", "run-1")):
        rate = plain_rate(stored(tmp_path / run))
        assert rate.value is not None
        assert f"{percent(rate.value)} %" in document.text(document.all("div", class_="headline")[place])
    bars = document.all("rect", class_="bar")
    assert {"run-0", "run-1"} <= {name for bar in bars for name in bar.get("class").split()}
    settings = document.text(document.section("setup"))
    assert "different" in settings


def test_runs_that_share_no_task_are_shown_and_not_compared(tmp_path: Path) -> None:
    document = report(tmp_path, MadeUp(tasks=SMALL[:2], n_episodes=3), MadeUp(tasks=SMALL[2:], n_episodes=3))
    assert "There is no comparison" in document.text(document.section("compare"))
    assert len(document.all("div", class_="headline")) == 2


@pytest.mark.parametrize("embed", [False, True])
def test_videos_are_linked_or_put_inside_failures_first(tmp_path: Path, embed: bool) -> None:
    video = tmp_path / "video.mp4"
    video.write_bytes(b"not looked at")
    document = report(
        tmp_path, MadeUp(tasks=SMALL, n_episodes=2, errors=0, skill=-1.0, video=video), embed_videos=embed
    )
    videos = [video for card in document.all("ul", class_="gallery") for video in card.iter(f"{HTML}video")]
    assert len(videos) == len(SMALL)
    kinds = [v.get("aria-label").rpartition(": ")[2] for v in videos]
    assert kinds == sorted(kinds)  # failure before success
    assert "failure" in kinds
    for source in (v.get("src") for v in videos):
        if embed:
            assert source.startswith("data:video/mp4;base64,")
        else:
            assert (tmp_path / "run-0" / source).is_file()


def test_a_link_holds_from_where_the_report_lies(tmp_path: Path) -> None:
    video = tmp_path / "video.mp4"
    video.write_bytes(b"")
    run = make_run(tmp_path / "a run", MadeUp(tasks=SMALL[:1], n_episodes=1, errors=0, video=video))
    (tmp_path / "elsewhere").mkdir()
    document = Document(write_report([run], tmp_path / "elsewhere" / "it.html"))
    (shown,) = document.all("video")
    assert shown.get("src") == "../a%20run/videos/easy_0/eval_episode_0.mp4"


@pytest.mark.parametrize("number", [0, 7])
def test_no_run_and_too_many_are_refused(tmp_path: Path, number: int) -> None:
    with pytest.raises(UsageError, match="1 to 6 runs"):
        write_report([tmp_path] * number)


def test_where_there_is_no_run_one_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such run directory"):
        write_report([tmp_path / "missing"])
    with pytest.raises(UsageError, match=r"holds no run: there is no run\.sqlite"):
        write_report([tmp_path])
    (tmp_path / "shard_0_of_2").mkdir()
    with pytest.raises(UsageError, match="proctor merge"):
        write_report([tmp_path])


def test_a_run_that_a_rule_ended_says_so_and_is_complete(tmp_path: Path) -> None:
    evaluation = run_tiny(tmp_path / "run", task="a,b", n_episodes=20, eval={"stop_when": "ci<=0.3"})
    stop = evaluation.info["run"]["stopped"]
    assert stop["episodes"] < 40
    words = Document(write_report([tmp_path / "run"])).text()
    assert f"Stopped after {stop['episodes']} of 40 episodes: ci<=0.3 is reached" in words
    assert "have ended" not in words
    assert f"{stop['episodes']} episodes" in words
