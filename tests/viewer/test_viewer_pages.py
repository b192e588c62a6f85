"""What the pages say is what the store says, whatever lies in the folder; and nothing there is touched."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from made_up_run import alter
from starlette.testclient import TestClient

from made_runs import make_run
from proctor.config.yaml_files import CONFIG_FILE
from proctor.engine.merging import merge_runs
from proctor.plan import Plan
from proctor.store import stored_run
from proctor.store.episodes import EpisodeTable
from proctor.store.lock import RunLock, writer_of
from proctor.store.outcomes import Outcomes, read_outcomes
from proctor.store.run_directory import RunDirectory, Shard
from proctor.store.schema import EpisodeRecord, RunningEpisode
from proctor.types import EpisodeKey
from proctor.viewer.addresses import address
from proctor.viewer.keys import KEYS
from proctor.viewer.pages import Pages
from proctor.viewer.runs import Runs
from proctor.viewer.summaries import summarise
from viewer_pages import HOSTILE, HTML, read, snapshot, text, viewing


def rates_of(page: Any) -> list[str]:
    """Return what a page says of the whole run, wherever it does: what is set large, and what is live."""
    large = [one for one in page.iter() if one.get("class") == "value"]
    live = [one for one in page.iter() if one.get("data-word") == "rate"]
    return [text(one) for one in (*large, *live)]


def rows(client: TestClient) -> dict[str, list[str]]:
    """Return the list's cells by the name of the run's folder."""
    page = read(client, "/")
    found = [row for row in page.iter(f"{HTML}tr") if row.get("data-run")]
    return {row.get("data-run"): [text(cell) for cell in row] for row in found}


def test_the_list_says_of_each_run_what_it_came_to(tmp_path: Path) -> None:
    make_run(tmp_path / "deep" / "er" / "done", {"a": [True, False], "b": [True, None]})
    partly = make_run(tmp_path / "partial", {"a": [True, True], "b": [False, True]}, missing=[("b", 0)])
    with EpisodeTable(partly / "run.sqlite") as table:
        table.write([], running=[RunningEpisode(EpisodeKey("b", 0, 0), 60)])
    found = rows(viewing(tmp_path))
    assert set(found) == {"deep/er/done", "partial"}
    done, partial = found["deep/er/done"], found["partial"]
    assert done[2:7] == ["complete", "66.7 %", "95 % interval 20.8–93.9", "2/3", "1 error"]
    assert done[8:10] == ["Policy", "2 tasks"]
    # Three quick successes have ended, and the fourth has outlasted them: nobody knows how that will end.
    assert partial[2:6] == ["incomplete 3 of 4", "–", "", "3/3"]


def test_a_merged_run_stands_for_its_shards_until_one_of_them_has_more(tmp_path: Path) -> None:
    tasks = {"push": [True] * 4}
    shards = [Shard(number, 2) for number in range(2)]
    for shard in shards:
        make_run(tmp_path / "run", tasks, shard=shard, missing=[("push", 3)], identity={"policy": {}})
    client = viewing(tmp_path)
    parts = [f"run/{shard.name}" for shard in shards]
    assert sorted(rows(client)) == parts
    merge_runs([tmp_path / "run"])
    assert sorted(rows(client)) == ["run"]
    assert sorted(rows(viewing(tmp_path / "run"))) == ["."]  # the folder of runs may be the run itself
    with RunLock(tmp_path / parts[0]):
        assert sorted(rows(client)) == ["run", parts[0]]
    make_run(tmp_path / "run", tasks, shard=shards[1], identity={"policy": {}})  # it went on
    assert sorted(rows(client)) == ["run", *parts]


def test_looking_changes_nothing(tmp_path: Path) -> None:
    make_run(tmp_path / "a", {"a": [True, False]}, videos=True)
    make_run(tmp_path / "b", {"a": [False, False]}, videos=True)
    killed = killed_run(tmp_path / "killed")
    before = snapshot(tmp_path)
    assert any(name.endswith("-wal") for name in before)
    client = viewing(tmp_path)
    for path in ("/", "/run/a/", "/run/killed/", "/report/killed/", "/live/killed/", "/compare/?run=a&run=b"):
        assert client.get(path).status_code == 200, path
    assert rows(client)["killed"][2:6] == ["incomplete 3 of 4", "66.7 %", "95 % interval 20.8–93.9", "2/3"]
    assert client.get("/compare/?run=a&run=killed").status_code == 200
    assert snapshot(tmp_path) == before
    # What was left is there for whoever goes on with it.
    with EpisodeTable(killed / "run.sqlite") as table:
        assert len(list(table.records())) == 3


def killed_run(path: Path) -> Path:
    """Leave a run as a killed process does: its last episodes are in the write-ahead log alone."""
    made = make_run(path.parent / "made", {"a": [True, False, True, True]}, missing=[("a", 3)])
    records = RunDirectory(made).table()
    with records as table:
        ended = list(table.records())
    alter(made, "episodes", lambda row: None)
    with EpisodeTable(made / "run.sqlite") as table:
        table.write(ended)
        assert (made / "run.sqlite-wal").stat().st_size > 0
        shutil.copytree(made, path)
    shutil.rmtree(made)
    return path


def test_a_log_without_its_index_is_not_read_because_that_would_write(tmp_path: Path) -> None:
    killed = killed_run(tmp_path / "killed")
    (killed / "run.sqlite-shm").unlink()
    before = snapshot(tmp_path)
    client = viewing(tmp_path)
    assert "run.sqlite-wal lies there without run.sqlite-shm" in rows(client)["killed"][1]
    assert "without run.sqlite-shm" in client.get("/run/killed/").text
    assert snapshot(tmp_path) == before


def test_a_run_that_is_written_is_read_and_not_disturbed(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", {"a": [True] * 3 + [False]}, missing=[("a", 1), ("a", 2), ("a", 3)])
    client = viewing(tmp_path)
    full = make_run(tmp_path / "full", {"a": [True, False, True, False]})
    with EpisodeTable(full / "run.sqlite", read_only=True) as source:
        records = sorted(source.records(), key=lambda record: record.episode_index)
    assert client.get("/live/run/").json()["state"] == "incomplete"
    with RunLock(path), EpisodeTable(path / "run.sqlite") as table:
        table.begin_session(2)
        assert rows(client)["run"][2] == "running 1 of 4"
        table._db.execute("BEGIN IMMEDIATE")  # a writer in the middle of a transaction
        assert client.get("/live/run/").json()["ended"] == 1
        table._db.execute("COMMIT")
        table.write([records[3], records[1]], running=[RunningEpisode(records[2].key, 50)])
        live = client.get("/live/run/").json()
        assert (live["state"], live["ended"], live["planned"]) == ("running", 3, 4)
        assert "rate" not in live["words"]
        assert live["words"]["speed"].endswith("episodes/s")
        for where in ("/run/run/", "/parts/run/"):
            page = read(client, where)
            (bar,) = page.iter(f"{HTML}progress")
            assert (bar.get("value"), bar.get("max")) == ("3", "4")
            # Episode 2 has run longer than the success took, and so counts as the two failures came out.
            assert rates_of(page) == ["~25.0 %"]
        table.write([records[2]])
    assert client.get("/live/run/").json()["state"] == "complete"
    assert not (path / "run.sqlite-wal").exists()


def test_who_was_killed_writes_no_more(tmp_path: Path) -> None:
    make_run(tmp_path, {"a": [True]})
    assert writer_of(tmp_path) is None
    with RunLock(tmp_path):
        assert f"process {os.getpid()}" in (writer_of(tmp_path) or "")
        note = (tmp_path / "lock").read_text()
    assert writer_of(tmp_path) is None
    (tmp_path / "lock").write_text(note)  # as if killed: the name stays, the lock is gone
    assert writer_of(tmp_path) is None
    (tmp_path / "lock").write_text(note.replace(str(os.getpid()), "4194305"))
    assert writer_of(tmp_path) is None
    with RunLock(tmp_path):  # looking has not left it locked
        pass


def test_what_is_wrong_with_a_directory_is_said_and_the_list_goes_on(tmp_path: Path) -> None:
    make_run(tmp_path / "good", {"a": [True]})
    for name in ("garbage", "empty", "foreign", "old", "unset", "odd", "half"):
        make_run(tmp_path / name, {"a": [True]})
    (tmp_path / "garbage" / "run.sqlite").write_bytes(b"this is no database" * 100)
    (tmp_path / "empty" / "run.sqlite").write_bytes(b"")
    (tmp_path / "foreign" / "run.sqlite").unlink()
    with sqlite3.connect(tmp_path / "foreign" / "run.sqlite") as foreign:
        foreign.execute("CREATE TABLE things (x)")
    foreign.close()
    with EpisodeTable(tmp_path / "old" / "run.sqlite") as table:
        table.set_meta("schema_version", 2)
    (tmp_path / "unset" / CONFIG_FILE).write_text("[")
    with EpisodeTable(tmp_path / "odd" / "run.sqlite") as table:
        table.set_meta("tasks", [{"surprise": 1}])
    content = (tmp_path / "half" / "run.sqlite").read_bytes()
    (tmp_path / "half" / "run.sqlite").write_bytes(content[: len(content) // 2])
    make_run(tmp_path.parent / f"{tmp_path.name}-out", {"a": [True]})
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "run.sqlite").symlink_to(tmp_path.parent / f"{tmp_path.name}-out" / "run.sqlite")
    client = viewing(tmp_path)
    found = rows(client)
    assert found.pop("good")[2] == "complete"
    reasons = {
        "garbage": "file is not a database", "empty": "no such table", "foreign": "no such table: meta",
        "old": "schema version 2", "unset": "config.yaml", "odd": "must be a list of maps of group",
        "half": "malformed", "linked": "leads out",
    }  # fmt: skip
    assert set(found) == set(reasons)
    for name, reason in reasons.items():
        assert found[name][2] == "unreadable"
        assert reason in found[name][1], found[name]
        assert reason in text(read(client, f"/run/{name}/"))
        assert client.get(f"/live/{name}/").json()["state"] == "unreadable"
        assert client.get(f"/compare/?run=good&run={name}").status_code == 409


def test_tags_description_and_the_short_name_of_a_policy_are_shown(tmp_path: Path) -> None:
    whole = "outputs/train/act/checkpoints/020000/pretrained_model"
    for name, tags in (("one", "nightly, act"), ("two", "act"), ("three", None)):
        run = RunDirectory(make_run(tmp_path / name, {"a": [True, False]}))
        told = {"tags": tags, "description": f"what {name} is for", "notes": "moved the camera"}
        run.write_config({"policy": {"type": "lerobot", "path": whole}, **told})
    client = viewing(tmp_path)
    page = read(client, "/")
    (named, *_) = [one for one in page.iter(f"{HTML}span") if one.get("title") == whole]
    assert text(named).replace(" ", "") == "act@020000"
    assert "what one is for nightly act" in rows(client)["one"][1]
    links = {text(a): a.get("href") for a in page.iter(f"{HTML}a") if a.get("class") == "tag"}
    assert links["nightly 1"] == "/?tag=nightly"
    for address_of_rows in ("/?tag=act", "/rows?tag=act"):
        answer = client.get(address_of_rows).text
        assert 'data-run="one"' in answer
        assert 'data-run="two"' in answer
        assert 'data-run="three"' not in answer
    shown = text(read(client, "/run/one/"))
    for words in (whole, "act@020000", "what one is for", "moved the camera", "nightly"):
        assert words in shown


def test_every_page_has_its_keys(tmp_path: Path) -> None:
    make_run(tmp_path / "a", {"a": [True, False]})
    make_run(tmp_path / "b", {"a": [True, True]})
    client = viewing(tmp_path)
    for path in ("/", "/chart/", "/run/a/", "/compare/?run=a&run=b", "/episode/a/?group=a&task=0&episode=0"):
        page = read(client, path)
        (dialog,) = page.iter(f"{HTML}dialog")
        keys = {text(key) for key in dialog.iter(f"{HTML}kbd")}
        assert keys == {key for _, group in KEYS for pressed, _ in group for key in pressed}
        assert [button.get("class") for button in page.iter(f"{HTML}button") if button.get("aria-haspopup")]


def test_the_docs_list_every_key() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "view.md").read_text()
    for _, group in KEYS:
        for pressed, _ in group:
            for key in pressed:
                assert f"`{key}`" in docs, key


def test_hostile_names_are_only_text(tmp_path: Path) -> None:
    name = HOSTILE.replace("/", "_")
    path = make_run(tmp_path / name, {f"x/{HOSTILE}": [True, None]}, videos=True)
    RunDirectory(path).write_config(
        {
            "job_name": HOSTILE, "policy": {"path": HOSTILE}, "env": {"type": HOSTILE, "task": "\ud800"},
            "tags": f"{HOSTILE},javascript:alert(1)", "description": HOSTILE, "notes": f"{HOSTILE}\ud800",
        }
    )  # fmt: skip
    with EpisodeTable(path / "run.sqlite") as table:
        table.add_note(HOSTILE)
        table.set_meta("stopped", {"episodes": 1, "rule": HOSTILE, "decision": "better", "wins": 1, "losses": 0})
    (path / "logs").mkdir()
    (path / "logs" / f"{name}.log").write_text("x")
    odd = make_run(tmp_path / os.fsdecode(b"caf\xe9"), {"a": [True]})
    client = viewing(tmp_path)
    run, other = address(name), address(odd.name)
    for page in (
        "/",
        "/rows",
        "/chart/?by=tag",
        f"/?tag={HOSTILE}&q={HOSTILE}",
        run,
        run.replace("/run/", "/parts/"),
        run.replace("/run/", "/report/"),
        f"{run}logs/",
        f"{run}?task={HOSTILE}",
        other,
    ):
        answer = client.get(page)
        assert answer.status_code == 200, page
        assert "<script>alert" not in answer.text
        assert "<img src=x" not in answer.text
    for page in ("/", "/chart/?by=tag", run, f"{run}logs/", other):
        tree = read(client, page)
        assert not [a for a in tree.iter(f"{HTML}a") if (a.get("href") or "").startswith("javascript:")]
        assert not [e for e in tree.iter() if any(key.startswith("on") for key in e.attrib)]
        assert all(script.get("src") for script in tree.iter(f"{HTML}script"))
    assert len(rows(client)) == 2
    links = [a.get("href") for a in read(client, run).iter(f"{HTML}a") if a.get("class") == "watch"]
    assert client.get(run + links[0]).headers["content-type"] == "video/mp4"
    both = client.get("/compare/", params=[("run", name), ("run", name)])
    assert both.status_code == 200
    assert "<script>alert" not in both.text


def test_hundreds_of_runs_are_listed_and_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = make_run(tmp_path / "run-000", {"a": [True, False], "b": [True, True]})
    for number in range(1, 300):
        shutil.copytree(pattern, tmp_path / f"day-{number % 7}" / f"run-{number:03}")
    runs = Runs(tmp_path)
    assert len(runs.all()) == 300
    opened: list[Path] = []
    real = EpisodeTable.__init__

    def noted(self: EpisodeTable, path: Path, *, read_only: bool = False) -> None:
        opened.append(path)
        real(self, path, read_only=read_only)

    monkeypatch.setattr(EpisodeTable, "__init__", noted)
    assert len(runs.all()) == 300
    assert opened == []
    changed = tmp_path / "day-3" / "run-010"
    alter(changed, "episodes", lambda row: {**row, "success": 0})
    opened.clear()
    (fresh,) = [run for run in runs.all() if run.path == "day-3/run-010"]
    assert fresh.rate.successes == 0
    assert opened == [changed / "run.sqlite"]
    shutil.rmtree(changed)
    assert len(runs.all()) == 299


def test_a_run_s_page_shows_the_report_and_its_episodes(tmp_path: Path) -> None:
    make_run(tmp_path, {"near": [True, False], "far": [None, True]}, videos=True)
    client = viewing(tmp_path)  # the folder is the run itself
    assert list(rows(client)) == ["."]
    page = read(client, "/run/")
    sections = [section.get("id") for section in page.iter(f"{HTML}section")]
    assert sections[:3] == ["result", "all-episodes", "tasks"]
    assert "setup" in sections
    (table,) = [table for table in page.iter(f"{HTML}table") if table.get("id") == "episode-rows"]
    shown = [[text(cell) for cell in row] for row in table.iter(f"{HTML}tr")]
    assert [row[:4] for row in shown[1:]] == [
        ["near", "0", "success", "watch"], ["far", "0", "error", ""],
        ["near", "1", "failure", "watch"], ["far", "1", "success", "watch"],
    ]  # fmt: skip
    assert shown[2][-1] == "it broke"
    assert client.get("/run/videos/near_0/eval_episode_0.mp4").status_code == 200
    for query, count in (
        ("task=NEA", 2),
        ("outcome=failure", 1),
        ("task=far&outcome=failure", 0),
        ("outcome=x", 4),
    ):
        assert (
            len([row for row in read(client, f"/run/?{query}").iter(f"{HTML}tr") if row.get("data-outcome")])
            == count
        )
    answer = client.get("/report/")
    assert "Evaluation report" in answer.text
    assert "script-src &#39;sha256-" in answer.text


def test_a_run_that_a_rule_ended_says_so(tmp_path: Path) -> None:
    make_run(tmp_path / "run", {"a": [True, False, True, True]}, missing=[("a", 3)])
    with EpisodeTable(tmp_path / "run" / "run.sqlite") as table:
        table.set_meta("stopped", {"episodes": 2, "rule": "ci<=0.3", "decision": "better", "wins": 1, "losses": 0})
    client = viewing(tmp_path)
    found = rows(client)["run"][2:6]
    assert found == ["stopped by a rule ci<=0.3", "50.0 %", "95 % interval 9.5–90.5", "1/2"]
    assert "Stopped after 2 of 4 episodes: ci<=0.3" in text(read(client, "/run/run/"))


def test_a_run_that_has_no_plan_yet_says_so(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.path.mkdir()
    run.write_config({"policy": {"type": "zero"}})
    with run.table() as table:
        table.set_meta("identity", {"seed": 1})
    client = viewing(tmp_path)
    assert "never started" in text(read(client, "/run/run/"))
    with RunLock(run.path):
        assert "starting" in text(read(client, "/run/run/"))
    assert client.get("/compare/?run=run&run=run").status_code == 409


def test_two_runs_are_compared_on_their_seeds(tmp_path: Path) -> None:
    make_run(tmp_path / "old", {"a": [False] * 12}, videos=True)
    make_run(tmp_path / "new", {"a": [True] * 12}, videos=True)
    client = viewing(tmp_path)
    page = read(client, "/compare/?run=old&run=new")
    assert "B is better" in text(page) or "better" in text(page)
    links = [a.get("href") for a in page.iter(f"{HTML}a") if (a.get("href") or "").endswith(".mp4")]
    assert client.get(f"/compare/{links[0]}").headers["content-type"] == "video/mp4"
    assert client.get("/compare?run=old&run=new").url.path == "/compare/"
    assert read(client, "/compare/?run=old", 400) is not None
    assert "There is no run gone here" in text(read(client, "/compare/?run=old&run=gone", 404))


def test_an_empty_folder_says_what_a_run_is(tmp_path: Path) -> None:
    assert "There is no run here yet" in text(read(viewing(tmp_path), "/"))


def test_episodes_are_shown_page_by_page_with_the_same_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.viewer.pages.MOST_ROWS", 10)
    make_run(tmp_path / "long", {"near": [True, False] * 12, "far": [False] * 24})
    pages, summary = Pages(tmp_path), summarise(tmp_path, tmp_path / "long", None)

    def shown(**query: str) -> tuple[list[str], str]:
        text = bytes(pages.run(summary, tmp_path / "long", query).body).decode()
        row = r'<tr data-key="[^"]+" data-outcome="\w+"><td>(\w+)</td><td class="n"><a [^>]*>(\d+)</a></td>'
        found = re.findall(row, text)
        return [f"{task} {index}" for task, index in found], text

    seen: list[str] = []
    for number in range(1, 6):
        rows, text = shown(page=str(number))
        seen += rows
        assert f"page {number} of 5" in text
        assert (">previous</a>" in text, ">next</a>" in text) == (number > 1, number < 5)
    assert seen == [f"{task} {index}" for index in range(24) for task in ("near", "far")]
    rows, text = shown(task="near", outcome="failure", page="2")
    assert rows == ["near 21", "near 23"]
    assert '<a href="?task=near&amp;outcome=failure&amp;page=1#all-episodes">previous</a>' in text
    for odd in ("0", "-1", "99", "x", "9" * 40, "²"):
        assert shown(page=odd)[0]


def test_a_run_that_nobody_writes_to_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path / "run", {"near": [True, False]})
    reads: list[Path] = []
    whole = read_outcomes

    def counted(table: EpisodeTable, plan: Plan, held: dict[int, EpisodeRecord] | None = None) -> Outcomes:
        reads.append(table.path)
        return whole(table, plan, held)

    monkeypatch.setattr(stored_run, "read_outcomes", counted)
    pages, summary = Pages(tmp_path), summarise(tmp_path, tmp_path / "run", None)
    reads.clear()
    first = pages.run(summary, tmp_path / "run", {}).body
    assert "1 of 2" in bytes(first).decode()
    pages.run(summary, tmp_path / "run", {"outcome": "failure"})
    assert len(reads) == 1
    with EpisodeTable(tmp_path / "run" / "run.sqlite") as table:
        table.add_note("something happened")
    pages.run(summary, tmp_path / "run", {})
    assert len(reads) == 2
