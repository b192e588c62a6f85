"""What stands beside the rate: tasks below 100 %, worst first, what the rate omits, and why the run stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_run import MadeUp, alter, make_run

from harness import run_tiny
from proctor.report.page.ending import LAST_LINES
from proctor.report.page.headline import MOST_SHORTFALLS
from proctor.report.page.page import write_report
from proctor.results import ScoredRun
from proctor.store.episodes import EpisodeTable
from proctor.store.lock import RunLock
from proctor.store.schema import EpisodeRecord, RunningEpisode
from proctor.types import Task
from report_pages import HTML, SMALL, SVG, Document


def shown(directory: Path) -> Document:
    return Document(write_report([directory]))


def links(document: Document, class_: str) -> list[tuple[str, str]]:
    found = [
        link
        for place in document.all(*class_.split(".")[:1], class_=class_.split(".")[1])
        for link in place.iter(f"{HTML}a")
    ]
    return [(document.text(link), link.get("href")) for link in found]


def with_rates(directory: Path, rates: dict[str, int], n_episodes: int = 10) -> Path:
    """Write a run in which so many episodes of each task succeeded."""
    tasks = [Task("group", place, name, name, 100) for place, name in enumerate(rates)]
    make_run(directory, MadeUp(tasks=tasks, n_episodes=n_episodes, errors=0))
    alter(
        directory,
        "episodes",
        lambda row: {**row, "success": int(row["episode_index"] < rates[row["task"]])},
    )
    return directory


def test_tasks_below_100_per_cent_are_named_worst_first_and_lead_to_their_rows(tmp_path: Path) -> None:
    rates = {"pick": 9, "reach": 10, "push": 3, "door": 10, "drawer": 6}
    document = shown(with_rates(tmp_path / "run", rates))
    assert "3 tasks below 100 %" in document.text(document.section("result")).replace("\xa0", " ")
    (listed,) = document.all("ol", class_="shortfalls")
    found = links(document, "ol.shortfalls")
    assert [name for name, _ in found] == ["push", "drawer", "pick"]
    rows = {row.get("id"): document.text(row[0]) for row in document.all("tr") if row.get("id")}
    assert [rows[link.removeprefix("#")] for _, link in found] == ["push", "drawer", "pick"]
    assert "30.0 % 3/10 , 10.8–60.3" in document.text(listed[0]).replace("\xa0", " ")


def test_of_many_such_tasks_the_worst_are_named_and_the_rest_counted(tmp_path: Path) -> None:
    rates = {f"task-{place}": place % 9 for place in range(MOST_SHORTFALLS + 5)}
    document = shown(with_rates(tmp_path / "run", rates))
    found = links(document, "ol.shortfalls")
    assert len(found) == MOST_SHORTFALLS
    order = [rates[name] for name, _ in found]
    assert order == sorted(rates.values())[:MOST_SHORTFALLS]
    assert "and 5 more" in document.text(document.section("result"))


def test_where_all_is_well_it_says_so_and_warns_of_nothing(tmp_path: Path) -> None:
    document = shown(with_rates(tmp_path / "run", {"reach": 10, "push": 10}))
    assert "No task below 100 %" in document.text(document.section("result")).replace("\xa0", " ")
    assert document.all("a", class_="alert") == []
    assert document.all("div", class_="ending") == []


def alerts(document: Document) -> dict[str, str]:
    (rate,) = document.all("div", class_="rate")
    found = {document.text(link): link.get("href") for link in rate.iter(f"{HTML}a")}
    idents = {element.get("id") for element in document.root.iter()}
    assert all(link.removeprefix("#") in idents for link in found.values())
    return found


def test_errors_are_told_beside_the_rate_with_their_reasons_and_tasks(tmp_path: Path) -> None:
    document = shown(make_run(tmp_path / "run", MadeUp(tasks=SMALL, n_episodes=20, errors=3)))
    assert "3 episodes could not be run" in alerts(document)
    words = document.text(document.section("result"))
    assert "3 times: the worker was killed by signal 11 during step" in words
    assert "with errors" in words


def test_tasks_that_never_ran_are_told_beside_the_rate(tmp_path: Path) -> None:
    document = shown(make_run(tmp_path / "run", MadeUp(tasks=SMALL, n_episodes=20, errors=0, ended=3)))
    found = alerts(document)
    assert "2 of 5 tasks never ran" in found
    assert "incomplete: 3 of 100 episodes have ended" in found


def test_a_run_that_a_rule_ended_says_so_beside_the_rate_and_is_not_called_incomplete(tmp_path: Path) -> None:
    evaluation = run_tiny(tmp_path / "run", task="a,b", n_episodes=20, eval={"stop_when": "ci<=0.3"})
    stop = evaluation.info["run"]["stopped"]
    found = alerts(shown(tmp_path / "run"))
    assert f"stopped early, after {stop['episodes']} of 40 episodes" in found
    assert not any("incomplete" in words for words in found)


@pytest.fixture
def died(tmp_path: Path) -> Path:
    """A run that ended before its plan did, and said why."""
    directory = make_run(tmp_path / "run", MadeUp(tasks=SMALL, n_episodes=20, errors=0, ended=40))
    with EpisodeTable(directory / "run.sqlite") as table:
        run = ScoredRun.open(directory)
        table.write([], running=[RunningEpisode(run.planned[40].key, 17)])
        table.add_note("the policy's process needs more memory")
    reason = "the policy was lost: CUDA error: device-side assert triggered"
    alter(directory, "sessions", lambda row: {**row, "ending": reason})
    logs = directory / "logs"
    logs.mkdir(exist_ok=True)
    (logs / "host.log").write_text("".join(f"line {number}\n" for number in range(5000)) + "CUDA\x1b[31m error\n")
    return directory


def ending(document: Document) -> str:
    (box,) = document.all("div", class_="ending")
    return document.text(box)


def test_why_a_run_died_is_told_near_the_top_with_its_last_words(died: Path) -> None:
    document = shown(died)
    words = ending(document)
    assert "the policy was lost: CUDA error: device-side assert triggered" in words
    assert "the policy's process needs more memory" in words
    assert "episode 8 at step 17" in words
    assert "CUDA [31m error" in words  # what a terminal would obey is no text
    assert f"line {5000 - LAST_LINES + 1}" in words
    assert f"line {5000 - LAST_LINES}" not in words
    (box,) = document.all("div", class_="ending")
    assert box in list(document.section("result").iter())
    assert alerts(document)["incomplete: 40 of 100 episodes have ended"] == "#ending-0"


def test_the_last_frames_of_a_run_that_died_are_of_the_episodes_that_ended_last(tmp_path: Path) -> None:
    video = tmp_path / "video.mp4"
    video.write_bytes(b"not looked at")
    kind = MadeUp(tasks=SMALL, n_episodes=4, errors=0, ended=12, video=video)
    directory = make_run(tmp_path / "run", kind)
    alter(directory, "sessions", lambda row: {**row, "ending": "stopped by Ctrl-C"})
    run = ScoredRun.open(directory)
    filmed = [
        record.task for record in sorted(run.records, key=lambda r: -r.started_at - r.seconds) if record.video_path
    ]
    document = shown(directory)
    (box,) = document.all("div", class_="ending")
    cards = [item.get("data-task") for item in box.iter(f"{HTML}li") if item.get("data-task")]
    assert cards == filmed[:4]


def test_a_run_that_goes_on_has_not_stopped(died: Path) -> None:
    with RunLock(died):
        document = shown(died)
    assert document.all("div", class_="ending") == []
    assert alerts(document)["in progress: 40 of 100 episodes have ended"] == "#to-know"
    assert "stopped" not in document.text(document.section("result"))


def test_a_log_that_is_a_link_a_pipe_or_a_folder_is_not_read(died: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.log"
    secret.write_text("a secret")
    (died / "logs" / "aside.log").symlink_to(secret)
    (died / "logs" / "folder.log").mkdir()
    os.mkfifo(died / "logs" / "pipe.log")
    words = ending(shown(died))
    assert "a secret" not in words
    assert "logs/host.log" in words


def test_a_folder_of_logs_that_is_a_link_is_not_read(died: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (died / "logs").rename(elsewhere)
    (died / "logs").symlink_to(elsewhere)
    assert "line 4999" not in ending(shown(died))


def test_markup_in_a_reason_or_a_log_is_text(died: Path) -> None:
    alter(died, "sessions", lambda row: {**row, "ending": "<img src=x>"})
    (died / "logs" / "host.log").write_text("<script>alert(1)</script>\n")
    document = shown(died)
    assert document.all("img") == []
    assert len(document.all("script")) == 1
    assert "<img src=x>" in ending(document)


def test_description_tags_and_notes_are_at_the_top_of_the_page(tmp_path: Path) -> None:
    told: dict[str, Any] = {
        "tags": "night,act",
        "description": "What it is for",
        "notes": "First line\nsecond line",
    }
    run_tiny(tmp_path / "run", task="a", n_episodes=2, **told)
    document = shown(tmp_path / "run")
    (header,) = document.all("header")
    words = document.text(header)
    assert "What it is for" in words
    assert "Notes: First line second line" in words
    assert [document.text(tag) for tags in document.all("ul", class_="tags") for tag in tags] == ["night", "act"]


def test_steps_to_success_of_a_task_are_drawn_where_its_episodes_succeeded(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", MadeUp(tasks=SMALL, n_episodes=9, errors=0))
    records: list[EpisodeRecord] = list(ScoredRun.open(directory).records)
    last = max(record.steps for record in records if record.success)
    document = shown(directory)
    for task in SMALL:
        steps = sorted(record.steps for record in records if record.task == task.name and record.success)
        (row,) = [row for row in document.all("tr") if row.get("id") and document.text(row[0]) == task.name]
        strip = row[-1]
        assert strip.get("class") == "strip-cell"
        dots = [path for path in strip.iter(f"{SVG}path") if "dots" in path.get("class").split()]
        if not steps:
            assert dots == []
            continue
        (path,) = dots
        drawn = [int(point.split()[0]) for point in path.get("d").split("M")[1:]]
        assert drawn == [round(1000 * step / last) for step in dict.fromkeys(steps)]
        (median,) = [line for line in strip.iter(f"{SVG}line") if line.get("class") == "median"]
        middle = float(np.quantile(steps, 0.5, method="lower"))
        assert float(median.get("x1").rstrip("%")) == pytest.approx(100 * middle / last, abs=0.01)
