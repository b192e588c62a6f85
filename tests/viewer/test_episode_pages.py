"""Every episode that has ended has a page, whoever wrote the run; the pages lead from failure to failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_up_run import MadeUp
from made_up_run import make_run as make_up
from starlette.testclient import TestClient

from hostile_runs import UNREADABLE, make_hostile
from made_runs import Outcomes, make_run
from proctor.results import ScoredRun
from proctor.store.outcomes import FAILURE
from proctor.store.run_directory import RunDirectory
from proctor.store.schema import Attempt, EpisodeRecord
from proctor.types import EpisodeKey
from proctor.viewer.addresses import address, episode_address
from viewer_pages import HOSTILE, HTML, read, snapshot, text, viewing

OUTCOMES: Outcomes = {"near": [True, False, True, False], "far": [None, True, False, True]}


def page_of(client: TestClient, task: str, index: int, run: str = "run") -> Any:
    return read(client, episode_address(EpisodeKey(task, 0, index), run))


def links(page: Any) -> dict[str, str]:
    (nav,) = [nav for nav in page.iter(f"{HTML}nav") if nav.get("aria-label") == "Other episodes"]
    return {text(a): a.get("href") for a in nav.iter(f"{HTML}a")}


def test_the_table_leads_to_the_page_of_every_episode(tmp_path: Path) -> None:
    make_run(tmp_path / "run", OUTCOMES, videos=True)
    client = viewing(tmp_path)
    found = [a.get("href") for a in read(client, "/run/run/").iter(f"{HTML}a")]
    pages = [link for link in found if link.startswith("/episode/")]
    assert len(pages) == 8
    titles = [text(next(read(client, link).iter(f"{HTML}h1"))) for link in pages]
    assert titles == [f"{task} episode {index}" for index in range(4) for task in OUTCOMES]


def test_the_pages_lead_from_failure_to_failure_in_the_order_of_the_plan(tmp_path: Path) -> None:
    make_run(tmp_path / "run", OUTCOMES)
    client = viewing(tmp_path)
    failures = [("near", 1), ("far", 2), ("near", 3)]
    page = page_of(client, "near", 0)
    assert "previous failure" not in links(page)
    assert "no previous failure" in text(page)
    seen = []
    while "next failure" in links(page):
        link = links(page)["next failure"]
        page = read(client, link)
        seen.append(text(next(page.iter(f"{HTML}h1"))))
    assert seen == [f"{task} episode {index}" for task, index in failures]
    assert links(page)["previous failure"] == episode_address(EpisodeKey("far", 0, 2), "run")
    assert links(page)["next episode"] == episode_address(EpisodeKey("far", 0, 3), "run")


def test_an_episode_s_page_has_its_video_numbers_and_commands(tmp_path: Path) -> None:
    video = tmp_path / "video.mp4"
    video.write_bytes(b"a video")
    run = ScoredRun.open(make_up(tmp_path / "run", MadeUp(n_episodes=2, video=video, skill=-1.0)))
    client = viewing(tmp_path)
    place = int(run.ended.at(FAILURE)[0])
    (record,) = run.records.at([place])
    page = read(client, episode_address(record.key, "run"))
    (shown,) = page.iter(f"{HTML}video")
    assert client.get(shown.get("src")).content == b"a video"
    words = text(page)
    for told in ("failure", f"Seed {record.seed}", f"Steps {record.steps}", "goal_x", record.digest, "action 3"):
        assert str(told) in words
    commands = [text(code) for code in page.iter(f"{HTML}code")]
    assert f"proctor replay {run.path} {record.task}:{record.episode_index}" in commands
    assert any(f"--only={record.task}:{record.episode_index}" in command for command in commands)


def test_what_failed_before_is_told(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", OUTCOMES)
    key = EpisodeKey("far", 0, 0)
    with RunDirectory(path).table() as table:
        table.write([], [Attempt(key, number, f"it broke {number}", 7) for number in (1, 2, 3)])
        table.write([], [Attempt(EpisodeKey("near", 0, 0), 1, "another's", 7)])
    page = text(page_of(viewing(tmp_path), "far", 0))
    assert "it broke 1 worker 7 it broke 2 worker 7" in page
    assert "another's" not in page
    assert "error" in page


@pytest.mark.parametrize(
    "query",
    [
        "", "group=near", "group=near&task=0", "group=near&task=0&episode=9", "group=far&task=1&episode=0",
        "group=near&task=-1&episode=0", "group=near&task=0&episode=" + "9" * 400, "group=%00&task=0&episode=0",
        "group=near&task=%C2%B2&episode=0", "group=near&task=0&episode=3",
    ],
)  # fmt: skip
def test_an_episode_that_is_not_there_or_has_not_ended_is_said_not_to_be(tmp_path: Path, query: str) -> None:
    make_run(tmp_path / "run", OUTCOMES, missing=[("near", 3)])
    page = read(viewing(tmp_path), f"/episode/run/?{query}", 404)
    assert "There is no such episode here, or it has not ended yet." in text(page)


def test_a_run_that_is_not_there_has_no_episodes(tmp_path: Path) -> None:
    make_run(tmp_path / "run", OUTCOMES)
    client = viewing(tmp_path)
    for path in ("/episode/", "/episode/gone/", "/episode/run", "/episode/../run/"):
        assert client.get(f"{path}?group=near&task=0&episode=0").status_code == 404, path


@pytest.mark.parametrize("name", sorted(UNREADABLE))
def test_a_run_that_cannot_be_read_says_why(tmp_path: Path, name: str) -> None:
    make_hostile(tmp_path / "run", UNREADABLE[name])
    answer = viewing(tmp_path).get("/episode/run/?group=a&task=0&episode=0")
    assert answer.status_code in (200, 404, 409)
    assert "Traceback" not in answer.text


def test_hostile_names_and_numbers_are_only_text(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", {f"x/{HOSTILE}": [True, None, False]}, videos=True)
    keys = [episode.key for episode in ScoredRun.open(path).plan]
    key = keys[2]
    absurd = {HOSTILE: 1e308, "huge": 10**400, "nan": float("nan"), **{f"n{i}": i for i in range(84)}}
    with RunDirectory(path).table() as table:
        (row,) = [record for record in table.records() if record.key == key]
        table._tables.delete("episodes", table._tables.find("episodes", key) or {})
        values = {**row.to_row(), "layout": absurd, "metrics": absurd, "worker": HOSTILE, "asks": -(2**62)}
        table.write([EpisodeRecord(**values)], [Attempt(key, 1, HOSTILE, 0)])
    before = snapshot(tmp_path)
    client = viewing(tmp_path)
    for one in keys:
        answer = client.get(episode_address(one, "run"))
        assert answer.status_code == 200, answer.text
        assert "<script>alert" not in answer.text
        assert "<img src=x" not in answer.text
        tree = read(client, episode_address(one, "run"))
        assert not [e for e in tree.iter() if any(name.startswith("on") for name in e.attrib)]
        assert all(script.get("src") for script in tree.iter(f"{HTML}script"))
    assert "and 23 more, in run.sqlite" in answer.text
    assert snapshot(tmp_path) == before


def test_an_episode_of_the_folder_itself_has_an_address_too(tmp_path: Path) -> None:
    make_run(tmp_path, OUTCOMES)
    assert address("", "episode") == "/episode/"
    assert text(next(page_of(viewing(tmp_path), "far", 2, "").iter(f"{HTML}h1"))) == "far episode 2"
