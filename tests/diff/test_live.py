"""Another loop beside ours: a fault is named, two faults are two, and what nobody can explain is called that."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import own_loop
from harness import SUPPORT, run_cli, run_tiny
from proctor.cli.main import run as run_command
from proctor.diff.findings import LiveDiff
from proctor.diff.harness import OtherSide, load_harness
from proctor.diff.live import LiveQuestion, OurSide, question_of
from proctor.errors import UsageError
from proctor.store.bundles import write_bundle
from proctor.store.stored_run import StoredRun
from proctor.types import Episode

PLAIN = f"{SUPPORT / 'tiny_policies.py'}:plain"
OWN = SUPPORT / "own_loop.py"


def settings(max_steps: int = 12) -> dict[str, Any]:
    env = {"type": f"{SUPPORT / 'tiny.py'}:Tiny", "task": "a", "max_steps": max_steps}
    return {"policy": {"path": PLAIN}, "env": env, "eval": {"n_episodes": 3}}


@pytest.fixture(scope="module")
def ours() -> OurSide:
    return OurSide(settings())


def diff(ours: OurSide, harness: type[Any], seed: int = 1000, steps: int = 0) -> LiveDiff:
    (task,) = ours.tasks
    question = LiveQuestion(settings(), Episode(task, 0, seed), steps=steps, seeds=(1000, 1001))
    return ours.compare(OtherSide(harness(settings()), harness.__name__), question)


def lines(found: LiveDiff) -> list[str]:
    return [str(one) for one in found.differences]


@pytest.mark.parametrize("seed", range(1000, 1006))
def test_a_sound_loop_differs_in_nothing(seed: int, ours: OurSide) -> None:
    found = diff(ours, own_loop.OwnLoop, seed)
    assert (lines(found), found.notes) == ([], [])


@pytest.mark.parametrize(
    ("harness", "said"),
    [
        (own_loop.Mirrored, ["step 0, observation.image: mirrored: it is ours with its columns reversed"]),
        (own_loop.Backwards, ["step 0, action: every number has the other sign"]),
        (own_loop.Seedless, ["step 0, observation.state: it begins as seed 0 does, and ours has seed 1002"]),
        (own_loop.Unlimited, ["step 12, ending: its step limit is above ours of 12"]),
        (
            own_loop.TwoFaults,
            [
                "step 0, observation.image: mirrored: it is ours with its columns reversed",
                "step 0, action: every number has the other sign",
            ],
        ),
        (
            own_loop.Noisy,
            [
                "step 0, observation.image: no cause that is known here explains it",
                "step 0, action: no cause that is known here explains it",
            ],
        ),
    ],
)
def test_what_is_wrong_with_a_loop_is_named_and_nothing_else(
    harness: type[Any], said: list[str], ours: OurSide
) -> None:
    found = diff(ours, harness, seed=1002)
    assert lines(found) == said
    assert all(one.values for one in found.differences)


def test_only_so_many_steps_are_compared(ours: OurSide) -> None:
    found = diff(ours, own_loop.OwnLoop, seed=1002, steps=3)
    assert (found.steps, found.ended, lines(found)) == (3, "cut off here", [])


def test_what_a_loop_raises_is_its_own(ours: OurSide) -> None:
    with pytest.raises(UsageError, match=r"the other harness \(Broken\): act\(\) raised: KeyError"):
        diff(ours, own_loop.Broken)
    with pytest.raises(UsageError, match="an action that is no finite numbers"):
        diff(ours, own_loop.NoNumbers)
    with pytest.raises(UsageError, match="has no begin, act, step"):
        load_harness(f"{OWN}:not_a_loop", {})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("live") / "run"
    run_tiny(path, task="a", n_episodes=2, policy={"path": PLAIN}, env={"max_steps": 12})
    return path


def test_the_command_steps_the_first_episode_or_the_one_that_is_named(run: Path) -> None:
    paths = {"PYTHONPATH": os.pathsep.join((os.environ.get("PYTHONPATH", ""), str(SUPPORT)))}
    done = run_cli("diff", str(run), "--live", f"--harness={OWN}:OwnLoop", extra_env=paths)
    assert done.returncode == 0, done.stderr
    assert "a episode 0 (seed 1000) beside OwnLoop" in done.stdout
    assert "nothing differs" in done.stdout
    assert "note: the stored episode has the same rewards" in done.stdout
    done = run_cli("diff", str(run), "a:1", "--live", f"--harness={OWN}:TwoFaults", "--json", extra_env=paths)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert (document["index"], document["seed"]) == (1, 1001)
    assert [one["field"] for one in document["differences"]] == ["observation.image", "action"]


def test_mistakes_end_with_status_2_and_one_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_bundle(StoredRun.open(run), tmp_path / "run.proctor")
    for words, said in (
        ([str(run), "--live"], "Name a harness of yours: --harness=file.py:factory"),
        ([str(run), "a", "--live", "--harness=x:y"], "names 2 episodes"),
        ([str(run), "b:0", "--live", "--harness=x:y"], "no task is called 'b'"),
        ([str(tmp_path / "run.proctor"), "--live", "--harness=x:y"], "is a bundle"),
        ([str(run), "--live", "--harness=x:y", "--steps=0"], "--steps=0"),
        ([str(run), "--live", "--harness=x:y", "--python=/no/such/python"], "/no/such/python"),
        (["--live"], "name a run"),
        ([str(run), str(run), "--harness=x:y"], "--harness is for --live"),
    ):
        assert run_command(["diff", *words]) == 2, words
        said_here = capsys.readouterr().err
        assert said in " ".join(said_here.split()), (words, said_here)


def test_the_question_has_the_runs_settings_and_no_interpreters(run: Path) -> None:
    question = question_of(StoredRun.open(run), "", f"{OWN}:OwnLoop", 5)
    assert question.settings["policy"]["path"] == PLAIN
    assert not {"python", "placement"} & {*question.settings["policy"], *question.settings["env"]}
    assert (question.steps, question.seeds, question.episode.index) == (5, (1000, 1001), 0)
