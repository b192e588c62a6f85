"""A run directory is begun, resumed, extended and tidied; nothing of anybody else's is touched."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.benchmarks.metaworld.tasks import GROUPS
from proctor.config.yaml_files import read_run_settings
from proctor.errors import IdentityError, UsageError
from proctor.plan import Plan, make_plan
from proctor.store.episodes import EpisodeTable
from proctor.store.lock import RunLock
from proctor.store.run_directory import RunDirectory, default_directory, open_run
from proctor.store.schema import EpisodeRecord
from proctor.store.videos import file_name
from proctor.types import Episode, Task

TASKS = [Task("easy", 0, "reach-v3", "reach", 500), Task("easy", 1, "push-v3", "push", 500)]
IDENTITY = {"seed": 1000, "env": {"task": "easy"}}


def finished(episode: Episode) -> EpisodeRecord:
    return EpisodeRecord(
        task_group=episode.task.group,
        task_id=episode.task.task_id,
        task=episode.task.name,
        episode_index=episode.index,
        seed=episode.seed,
        status="finished",
        success=True,
        sum_reward=1.0,
        max_reward=1.0,
        steps=3,
    )


def plan(n_episodes: int) -> Plan:
    return make_plan(TASKS, n_episodes, 1000)


# The default place.


@pytest.mark.usefixtures("in_an_empty_place")
def test_the_default_place_is_lerobots() -> None:
    moment = time.mktime((2026, 11, 15, 9, 8, 7, 0, 0, -1))
    assert default_directory("metaworld_expert", moment) == Path(
        "outputs/eval/2026-11-15/09-08-07_metaworld_expert"
    )


@pytest.mark.usefixtures("in_an_empty_place")
def test_two_runs_of_one_second_get_two_places() -> None:
    places = []
    for _ in range(4):
        place = default_directory("job", 0.0)
        place.mkdir(parents=True)
        places.append(place)
    assert len(set(places)) == 4
    assert len({place.parent for place in places}) == 1


@pytest.mark.usefixtures("in_an_empty_place")
def test_asking_for_the_default_place_makes_nothing() -> None:
    default_directory("job")
    assert not Path("outputs").exists()


@pytest.fixture
def in_an_empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@settings(deadline=None)
@given(text=st.text(max_size=20))
def test_any_text_becomes_one_plain_file_name(text: str) -> None:
    name = file_name(text)
    assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
    assert name not in (".", "..")
    assert not name.startswith(".")


@pytest.mark.parametrize("text", ["reach-v3", "very_hard", "libero_10", "a.b"])
def test_a_name_that_is_plain_already_stays_as_it_is(text: str) -> None:
    assert file_name(text) == text


# Videos.


def test_a_video_lies_where_lerobot_puts_it() -> None:
    run = RunDirectory(Path("/runs/a"))
    assert run.video(TASKS[1], 7) == Path("videos/easy_1/eval_episode_7.mp4")


def test_no_two_episodes_share_a_video() -> None:
    run = RunDirectory(Path("/runs/a"))
    tasks = [
        Task(group, number, name, "", 500) for group, names in GROUPS.items() for number, name in enumerate(names)
    ]
    tasks += [Task(name, 0, name, "", 500) for name in GROUPS["mt50"]]
    videos = [run.video(task, index) for task in tasks for index in range(3)]
    assert len(set(videos)) == len(videos)
    assert not any(video.is_absolute() or ".." in video.parts for video in videos)


# Config.


def test_the_config_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    config = {"seed": 3, "env": {"task": "très", "prompts": None}, "eval": {"n_episodes": 2, "stop_grace": 0.5}}
    RunDirectory(tmp_path).write_config(config)
    assert read_run_settings(tmp_path) == config


@pytest.mark.parametrize("text", ["- 1", "text", "a: [", ""])
def test_a_config_that_holds_no_settings_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(UsageError, match=str(tmp_path / "config.yaml")):
        read_run_settings(tmp_path)


def test_a_directory_without_a_config_holds_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no run"):
        read_run_settings(tmp_path)


# Opening and resuming.


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path)


def test_a_directory_holds_a_run_once_its_table_is_there(run: RunDirectory) -> None:
    assert not run.holds_a_run()
    with run.table():
        pass
    assert run.holds_a_run()


def test_a_fresh_run_has_its_whole_plan_to_do(run: RunDirectory) -> None:
    with run.table() as table:
        assert open_run(table, IDENTITY, plan(3), 3, run.path).pending == plan(3)


def test_resuming_leaves_what_is_missing_and_what_was_an_error_in_plan_order(run: RunDirectory) -> None:
    whole = plan(3)
    with run.table() as table:
        open_run(table, IDENTITY, whole, 3, run.path)
        table.write([finished(whole[0]), EpisodeRecord.failed(whole[1], 3, "died"), finished(whole[4])])
    with run.table() as table:
        assert open_run(table, IDENTITY, whole, 3, run.path).pending == [whole[1], whole[2], whole[3], whole[5]]


def test_more_episodes_extend_a_run(run: RunDirectory) -> None:
    with run.table() as table:
        open_run(table, IDENTITY, plan(2), 2, run.path)
        table.write([finished(episode) for episode in plan(2)])
        assert open_run(table, IDENTITY, plan(2), 2, run.path).pending == []
        assert open_run(table, IDENTITY, plan(3), 3, run.path).pending == plan(3)[4:]


def test_fewer_episodes_are_refused_with_both_numbers(run: RunDirectory) -> None:
    with run.table() as table:
        open_run(table, IDENTITY, plan(5), 5, run.path)
        with pytest.raises(IdentityError, match="planned with 5 episodes per task, this command asks for 4"):
            open_run(table, IDENTITY, plan(4), 4, run.path)
        assert open_run(table, IDENTITY, plan(5), 5, run.path).pending == plan(5)


def test_another_identity_is_refused_and_changes_nothing(run: RunDirectory) -> None:
    with run.table() as table:
        open_run(table, IDENTITY, plan(2), 2, run.path)
        with pytest.raises(IdentityError, match="seed: the run has 1000, this command gives 7"):
            open_run(table, {**IDENTITY, "seed": 7}, plan(9), 9, run.path)
        assert table.meta("identity") == IDENTITY
        assert open_run(table, IDENTITY, plan(2), 2, run.path).pending == plan(2)


def test_a_run_killed_right_after_it_noted_its_identity_can_be_resumed(run: RunDirectory) -> None:
    class Killed(BaseException):
        pass

    class Table(EpisodeTable):
        def set_meta(self, key: str, value: object) -> None:
            super().set_meta(key, value)
            raise Killed

    with Table(run.path / "run.sqlite") as table, contextlib.suppress(Killed):
        open_run(table, IDENTITY, plan(2), 2, run.path)
    with run.table() as table:
        assert open_run(table, IDENTITY, plan(2), 2, run.path).pending == plan(2)


# Tidying.


def test_a_file_is_no_run_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is a file"):
        RunDirectory(tmp_path / "file").check_usable()
    RunDirectory(tmp_path / "new").check_usable()
    RunDirectory(tmp_path).check_usable()


def test_half_written_videos_and_empty_logs_are_removed_and_the_rest_is_kept(run: RunDirectory) -> None:
    videos = run.path / "videos" / "easy_0"
    videos.mkdir(parents=True)
    run.logs.mkdir()
    kept = [
        videos / "eval_episode_0.mp4",
        run.logs / "worker-0.log",
        run.logs / "notes.txt",
        run.path / "run.sqlite",
    ]
    gone = [videos / "eval_episode_1.mp4.part", run.logs / "worker-1.log"]
    for file in [*kept, *gone]:
        file.write_text("" if file == gone[1] else "something")
    run.remove_leftovers()
    assert [file.exists() for file in kept] == [True] * 4
    assert [file.exists() for file in gone] == [False] * 2


def test_there_is_nothing_to_remove_from_an_empty_directory(run: RunDirectory) -> None:
    run.remove_leftovers()
    assert list(run.path.iterdir()) == []


def test_a_refused_command_leaves_no_directory_behind(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.logs.mkdir(parents=True)
    (run.logs / "host.log").touch()
    with RunLock(run.path):
        pass
    run.remove_if_unused([run.path])
    assert not run.path.exists()


def test_a_refused_command_keeps_a_log_that_says_why(run: RunDirectory) -> None:
    run.logs.mkdir()
    (run.logs / "host.log").write_text("Traceback ...")
    run.remove_if_unused([run.path])
    assert (run.logs / "host.log").exists()


@pytest.mark.parametrize("precious", ["notes.txt", "logs/notes.txt", "logs/older/train.log", "run.sqlite"])
def test_a_refused_command_never_removes_somebody_elses_files(run: RunDirectory, precious: str) -> None:
    file = run.path / precious
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("precious")
    run.remove_if_unused([run.path])
    assert file.read_text() == "precious"


def test_a_refused_command_does_not_remove_the_directory_that_another_process_has_locked(
    run: RunDirectory,
) -> None:
    run.logs.mkdir()
    with RunLock(run.path):
        run.remove_if_unused([run.path])
        assert (run.path / "lock").exists()


def test_looking_whether_a_run_has_begun_leaves_nothing_behind(run: RunDirectory) -> None:
    assert not run.holds_a_run()
    (run.path / "run.sqlite").touch()
    assert not run.holds_a_run()  # killed before its first table
    with run.table() as table:
        open_run(table, IDENTITY, plan(2), 2, run.path)
    before = sorted(run.path.iterdir())
    assert run.holds_a_run()
    assert sorted(run.path.iterdir()) == before == [run.path / "run.sqlite"]


def test_a_file_that_is_no_table_counts_as_a_run_so_that_opening_it_complains(run: RunDirectory) -> None:
    (run.path / "run.sqlite").write_bytes(b"not a database, but something of somebody's" * 40)
    assert run.holds_a_run()
