"""What a model card says of a run is what the run says, and never more."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from made_up_run import MadeUp, alter
from made_up_run import make_run as make_up

from harness import run_cli, run_tiny
from hostile_runs import UNREADABLE, make_hostile
from made_runs import make_run
from proctor.cli.main import run as run_command
from proctor.errors import UsageError
from proctor.report.card import Listing, outcomes_hash, write_card
from proctor.results import ScoredRun
from proctor.stats.intervals import wilson
from proctor.store.bundles import bundle_hash, content_hash, opened, write_bundle
from proctor.store.checksums import Row
from proctor.store.episodes import EpisodeTable
from proctor.store.run_directory import Shard
from proctor.store.stored_run import StoredRun

LISTING = Listing("org/data set", "libero_10")


def folder(tmp_path: Path) -> Path:
    found = tmp_path / "model"
    found.mkdir(exist_ok=True)
    return found


def metric(card: Path) -> dict[str, Any]:
    """Return the one metric of a card, and fail if there are more."""
    index = yaml.safe_load((card / "README.md").read_text().split("---")[1])["model-index"]
    (result,) = index[0]["results"]
    (found,) = result["metrics"]
    assert isinstance(found, dict)
    return found


def test_the_card_has_k_of_n_interval_seeds_limit_versions_and_hash(tmp_path: Path) -> None:
    run = ScoredRun.open(make_run(tmp_path / "run", {"a": [True, True, False], "b": [True, False, True]}))
    changed = write_card(run, folder(tmp_path), listing=LISTING)
    assert [path.name for path in changed] == ["README.md", "proctor_org_data_set_libero_10.yaml"]
    found, rate = metric(tmp_path / "model"), wilson(4, 6)
    assert found["value"] == pytest.approx(100 * 4 / 6, abs=1e-4)
    assert found["name"] == "Success rate in %: 4 of 6 episodes, 95 % interval 30.0 to 90.3"
    told = found["args"]
    assert (told["successes"], told["episodes"], told["errors"]) == (4, 6, 0)
    assert told["interval"] == pytest.approx([100 * rate.low, 100 * rate.high], abs=1e-4)
    assert (told["seeds"], told["max_steps"], told["versions"]) == ("1000 to 1002", "100", {"mujoco": "3.3.0"})
    assert told["outcomes_sha256"] == outcomes_hash(run)
    assert told["bundle_sha256"] == bundle_hash(run)
    (entry,) = yaml.safe_load(changed[1].read_text())
    assert entry["dataset"] == {"id": "org/data set", "task_id": "libero_10"}
    assert entry["value"] == found["value"]
    for words in ("4 of 6 episodes", "seeds 1000 to 1002", "100 steps", "mujoco 3.3.0", told["outcomes_sha256"]):
        assert told["bundle_sha256"] in entry["notes"]
        assert words in entry["notes"]


def test_running_it_twice_changes_nothing_more(tmp_path: Path) -> None:
    run = ScoredRun.open(make_run(tmp_path / "run", {"a": [True, False]}))
    assert len(write_card(run, folder(tmp_path), listing=LISTING)) == 2
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "model").rglob("*")}
    assert write_card(run, folder(tmp_path), listing=LISTING) == []
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "model").rglob("*")} == before


def test_another_run_of_the_same_tasks_replaces_the_result_and_one_of_others_is_added(tmp_path: Path) -> None:
    for name, outcomes in (("one", [True, False]), ("two", [True, True])):
        write_card(ScoredRun.open(make_run(tmp_path / name, {"a": outcomes})), folder(tmp_path))
    assert metric(tmp_path / "model")["value"] == 100
    write_card(ScoredRun.open(make_up(tmp_path / "three", MadeUp(n_episodes=1, errors=0))), folder(tmp_path))
    index = yaml.safe_load((tmp_path / "model" / "README.md").read_text().split("---")[1])["model-index"]
    assert [result["dataset"]["type"] for result in index[0]["results"]] == ["unknown benchmark", "metaworld"]


def test_errors_count_as_failures_and_it_says_so(tmp_path: Path) -> None:
    run = ScoredRun.open(make_run(tmp_path / "run", {"a": [True, True, None, True]}))
    write_card(run, folder(tmp_path))
    found = metric(tmp_path / "model")
    assert found["value"] == 75
    assert "3 of 4 episodes" in found["name"]
    assert "1 error counted as a failure" in found["name"]
    assert found["args"]["errors"] == 1


def stopped(path: Path, outcomes: list[bool | None]) -> ScoredRun:
    make_run(path, {"a": outcomes}, missing=[("a", 3)])
    told = {"successes": 1, "n_episodes": 2, "low": 0.05, "high": 0.95, "method": "anytime"}
    with EpisodeTable(path / "run.sqlite") as table:
        table.set_meta(
            "stopped",
            {"episodes": 2, "rule": "ci<=0.45", "decision": "precise", "wins": 0, "losses": 0, "interval": told},
        )
    return ScoredRun.open(path)


def test_a_run_that_a_rule_stopped_says_so_and_has_the_rule_s_interval(tmp_path: Path) -> None:
    write_card(stopped(tmp_path / "run", [True, False, True, True]), folder(tmp_path))
    found = metric(tmp_path / "model")
    assert found["name"].endswith(
        "1 of 2 episodes, 95 % interval 5.0 to 95.0, stopped early after 2 of 4 episodes (ci<=0.45)"
    )
    assert (found["args"]["interval_method"], found["args"]["seeds"]) == ("anytime", "1000 to 1001")
    with pytest.raises(UsageError, match="no interval holds for both"):
        write_card(stopped(tmp_path / "other", [True, None, True, True]), folder(tmp_path))


def refused(run: Path, model: Path, *flags: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line with which a command is refused; nothing is written."""
    before = {path: path.lstat().st_mtime_ns for path in model.rglob("*")}
    assert run_command(["card", str(run), f"--to={model}", *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert {path: path.lstat().st_mtime_ns for path in model.rglob("*")} == before
    return line


def test_what_does_not_stand_for_the_policy_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = folder(tmp_path)
    partial = make_run(tmp_path / "partial", {"a": [True, True, False]}, missing=[("a", 1)])
    assert "is not complete: 1 episode of 3" in refused(partial, model, capsys=capsys)
    whole = Shard(0, 2)
    make_run(tmp_path / "shards", {"a": [True, False]}, shard=whole)
    assert "is shard 0 of 2" in refused(tmp_path / "shards" / whole.name, model, capsys=capsys)
    chosen = run_tiny(tmp_path / "chosen", task="a", n_episodes=2, only="a:1").directory
    assert "is of chosen episodes (--only=a:1)" in refused(chosen, model, capsys=capsys)
    silent = make_up(tmp_path / "silent", MadeUp(n_episodes=1, errors=0, tells_success=False))
    assert "has no success rate" in refused(silent, model, capsys=capsys)
    failed = make_run(tmp_path / "failed", {"a": [None, None]})
    assert "nothing finished" in refused(failed, model, capsys=capsys)
    good = make_run(tmp_path / "good", {"a": [True]})
    assert "go together" in refused(good, model, "--benchmark=a/b", capsys=capsys)
    assert "no such model folder" in refused(good, model / "gone", capsys=capsys)
    assert "holds no run" in refused(model, model, capsys=capsys)


@pytest.mark.parametrize("name", sorted(UNREADABLE))
def test_a_run_that_cannot_be_read_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    refused(make_hostile(tmp_path / "run", UNREADABLE[name]), folder(tmp_path), capsys=capsys)
    assert list((tmp_path / "model").iterdir()) == []


def test_files_that_are_no_files_are_not_written_through(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, model = make_run(tmp_path / "run", {"a": [True, False]}), folder(tmp_path)
    readme, elsewhere = model / "README.md", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "text.md").write_text("hello")
    readme.symlink_to(elsewhere / "text.md")
    assert "README.md is a link" in refused(run, model, capsys=capsys)
    readme.unlink()
    os.mkfifo(readme)
    assert "README.md is a named pipe" in refused(run, model, capsys=capsys)
    readme.unlink()
    readme.write_bytes(b"caf\xe9")
    assert "is no UTF-8 text" in refused(run, model, capsys=capsys)
    readme.unlink()
    (model / ".eval_results").symlink_to(elsewhere)
    flags = ("--benchmark=a/b", "--task-id=c")
    assert ".eval_results is a link" in refused(run, model, *flags, capsys=capsys)
    assert [path.name for path in elsewhere.iterdir()] == ["text.md"]


def test_hostile_words_of_a_run_stay_words(tmp_path: Path) -> None:
    hostile = "x\n---\nlicense: other\n" + "y" * 5000
    path = make_run(tmp_path / "run", {"a": [True]}, identity={"versions": {hostile: hostile}})
    (path / "config.yaml").write_text(yaml.safe_dump({"env": {"type": hostile, "task": hostile}, "policy": {}}))
    write_card(ScoredRun.open(path), folder(tmp_path))
    text = (tmp_path / "model" / "README.md").read_text()
    assert list(yaml.safe_load(text.split("\n---\n")[0])) == ["model-index"]
    assert len(text) < 4000


def test_the_card_of_a_run_has_the_hash_of_its_bundle_and_that_of_a_bundle_its_own(tmp_path: Path) -> None:
    run_tiny(tmp_path / "run", task="a,b", n_episodes=2, eval={"batch_size": 2})
    named = write_bundle(StoredRun.open(tmp_path / "run"), tmp_path / "one.proctor")
    assert named == content_hash(tmp_path / "one.proctor")
    # Wherever it lies, whoever reads it, and whatever was filmed since.
    shutil.copytree(tmp_path / "run", tmp_path / "elsewhere" / "moved")
    assert write_bundle(StoredRun.open(tmp_path / "elsewhere" / "moved"), tmp_path / "two.proctor") == named
    assert (tmp_path / "one.proctor").read_bytes() == (tmp_path / "two.proctor").read_bytes()
    with opened(tmp_path / "one.proctor") as directory:
        assert bundle_hash(StoredRun.open(directory)) == named
    if importlib.util.find_spec("av"):
        assert run_cli("film", str(tmp_path / "elsewhere" / "moved"), "--which=all").returncode == 0
        assert bundle_hash(StoredRun.open(tmp_path / "elsewhere" / "moved")) == named
    # And a run of one worker has what one of two has.
    run_tiny(
        tmp_path / "again" / "run",
        task="a,b",
        n_episodes=2,
        eval={"batch_size": 1},
        env={"scratch": str(tmp_path)},
    )
    assert bundle_hash(StoredRun.open(tmp_path / "again" / "run")) == named
    for source in ("run", "one.proctor"):
        (tmp_path / f"model-{source}").mkdir()
        assert run_command(["card", str(tmp_path / source), f"--to={tmp_path / f'model-{source}'}"]) == 0
        assert metric(tmp_path / f"model-{source}")["args"]["bundle_sha256"] == named


def test_the_hash_is_of_every_outcome(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", {"a": [True, False, True]})
    before = outcomes_hash(ScoredRun.open(path))
    assert outcomes_hash(ScoredRun.open(make_run(tmp_path / "same", {"a": [True, False, True]}))) == before
    for name, value in (("success", 1), ("steps", 7), ("digest", "other"), ("seed", 9)):
        other = make_run(tmp_path / name, {"a": [True, False, True]})

        def changed(row: Row, name: str = name, value: Any = value) -> Row:
            return {**row, name: value} if row["episode_index"] == 1 else row

        alter(other, "episodes", changed)
        assert outcomes_hash(ScoredRun.open(other)) != before, name


def test_no_path_is_written(tmp_path: Path) -> None:
    run = ScoredRun.open(run_tiny(tmp_path / "run", task="a", n_episodes=2).directory)
    for path in write_card(run, folder(tmp_path), listing=LISTING):
        assert str(tmp_path) not in path.read_text()
        assert str(Path(__file__).parent.parent) not in path.read_text()


def test_it_says_when_the_run_evaluated_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, model = make_run(tmp_path / "run", {"a": [True]}), folder(tmp_path)
    assert run_command(["card", str(run), f"--to={model}"]) == 0
    said = capsys.readouterr()
    assert "the run evaluated run.py:Policy" in said.err
    assert said.out.replace("\n", "") == f"written: {model / 'README.md'}"
    (run / "config.yaml").write_text(yaml.safe_dump({"policy": {"type": "lerobot", "path": str(model)}}))
    assert run_command(["card", str(run), f"--to={model}"]) == 0
    capsys.readouterr()  # other settings are another bundle, with another hash
    assert run_command(["card", str(run), f"--to={model}"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "nothing was changed" in said.out


def test_a_bundle_gives_the_card_of_its_run(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", {"a": [True, False, True]})
    assert run_cli("bundle", str(path), f"--output={tmp_path / 'b.proctor'}").returncode == 0
    cards = []
    for number, source in enumerate((path, tmp_path / "b.proctor")):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        assert run_cli("card", str(source), f"--to={folder}", "--name=m").returncode == 0
        cards.append((folder / "README.md").read_bytes())
    assert cards[0] == cards[1]
