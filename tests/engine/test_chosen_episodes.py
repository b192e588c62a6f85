"""`--only` and `--failed` run some episodes of a plan, as a run of its own, and each as in the whole plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import digests, run_cli, run_tiny, tiny_tree
from made_runs import make_run
from proctor.config.load import build_settings, settings_from_flags
from proctor.engine.evaluation import evaluate_settings
from proctor.engine.merging import merge_runs
from proctor.errors import IdentityError, UsageError
from proctor.plan import as_choice, make_plan
from proctor.results import ScoredRun
from proctor.types import Task

TASKS = [Task("easy", 0, "reach", "", 9), Task("easy", 1, "push:v3", "", 9), Task("door", 0, "door", "", 9)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    run_tiny(path, env={"max_steps": 12})
    return path


@pytest.mark.parametrize(
    ("words", "episodes"),
    [
        ("reach:1", [("reach", 1)]),
        ("reach:2,reach:0", [("reach", 0), ("reach", 2)]),
        ("push:v3:1-2", [("push:v3", 1), ("push:v3", 2)]),
        ("push:v3", [("push:v3", 0), ("push:v3", 1), ("push:v3", 2)]),
        ("easy:1", [("reach", 1), ("push:v3", 1)]),
        (" door:0 , reach:0,", [("reach", 0), ("door", 0)]),
    ],
)
def test_words_choose_episodes(words: str, episodes: list[tuple[str, int]]) -> None:
    plan = make_plan(TASKS, 3, 1000, words)
    assert [(episode.task.name, episode.index) for episode in plan] == episodes
    assert {episode.seed - episode.index for episode in plan} == {1000}
    assert make_plan(TASKS, 3, 1000, as_choice(plan)) == plan


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("rech:1", "no task is called 'rech'. Did you mean 'reach'"),
        ("reach:3", "each task has episodes 0 to 2 here"),
        ("reach:2-1", "each task has episodes"),
        ("reach\n:1", "no task is called 'reach'"),
        (f"reach:{'9' * 5000}", "no task is called 'reach:99"),
        (",", "names no episode: --only=TASK:EPISODE, for example --only=reach:0"),
    ],
)
def test_what_is_not_there_is_refused(words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_plan(TASKS, 3, 0, words)


def test_chosen_episodes_are_those_of_the_whole_run(whole: Path, tmp_path: Path) -> None:
    evaluation = run_tiny(tmp_path / "run", env={"max_steps": 12}, only="a:1-2,c:3")
    assert digests(evaluation).items() <= digests(whole).items()
    assert len(digests(evaluation)) == 3
    assert evaluation.info["run"]["n_planned"] == 3
    assert any("3 of 12 episodes were chosen" in note.message for note in evaluation.run.notes)
    run = ScoredRun.open(tmp_path / "run")
    assert (run.complete, len(run.plan), run.only) == (True, 3, "a:1-2,c:3")


def test_such_a_run_is_continued_only_as_itself(tmp_path: Path) -> None:
    run_tiny(tmp_path / "run", only="a:1")
    run_tiny(tmp_path / "run", only="a:1")
    for other in (None, "a:2"):
        with pytest.raises(IdentityError, match="holds a run of --only=a:1, this command asks for"):
            run_tiny(tmp_path / "run", only=other)
    done = run_cli("eval", f"--resume={tmp_path / 'run'}", "--display=none")
    assert done.returncode == 0, done.stderr


def test_shards_of_chosen_episodes_and_runs_of_several_choices_are_merged(whole: Path, tmp_path: Path) -> None:
    for number in range(2):
        run_tiny(tmp_path / "run", env={"max_steps": 12}, only="a,b:0", eval={"shard_id": number, "num_shards": 2})
    merged = merge_runs([tmp_path / "run"])
    assert (len(merged.evaluation.plan), merged.missing) == (5, {})
    run_tiny(tmp_path / "other", env={"max_steps": 12}, only="c:2")
    both = merge_runs([tmp_path / "run", tmp_path / "other"], tmp_path / "all")
    assert len(digests(both.evaluation)) == len(both.evaluation.plan) == 6
    assert digests(both.evaluation).items() <= digests(whole).items()


@pytest.mark.slow
def test_parallel_takes_them_too(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = [f"--failed={whole}", f"--output_dir={out}", "--num-shards=2", "--display=none"]
    done = run_cli("parallel", *words)
    assert done.returncode == 0, done.stderr
    assert digests(out) == failures(whole)


def failures(path: Path) -> dict[object, object]:
    return {record.key: record.digests for record in ScoredRun.open(path).records if record.success is False}


def test_failures_are_run_again_as_a_new_run_with_the_settings_of_the_old(whole: Path, tmp_path: Path) -> None:
    assert 0 < len(failures(whole)) < 12
    before = (whole / "run.sqlite").read_bytes()
    done = run_cli("eval", f"--failed={whole}", f"--output_dir={tmp_path / 'run'}", "--display=none")
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "run") == failures(whole)
    assert (whole / "run.sqlite").read_bytes() == before
    done = run_cli("eval", f"--resume={tmp_path / 'run'}", "--display=none")
    assert done.returncode == 0, done.stderr


def test_another_policy_may_be_given_and_takes_no_settings_of_the_old(whole: Path, tmp_path: Path) -> None:
    words = [f"--failed={whole}", "--policy.type=random", "--seed=7", f"--output_dir={tmp_path / 'run'}"]
    settings = settings_from_flags(words)
    assert (settings.policy.type, settings.policy.path, settings.seed) == ("random", None, 7)
    assert (settings.env.task, settings.eval.n_episodes) == ("a,b,c", 4)


def test_a_run_without_failures_and_two_choices_are_refused(tmp_path: Path) -> None:
    make_run(tmp_path / "run", {"a": [True, True]})
    (tmp_path / "run" / "config.yaml").write_text("policy: {}\nenv: {}\neval: {}\n")
    settings = build_settings(tiny_tree(tmp_path / "new", failed=str(tmp_path / "run")))
    with pytest.raises(UsageError, match="none of its episodes is a failure"):
        evaluate_settings(settings)
    with pytest.raises(UsageError, match="--only and --failed both choose"):
        build_settings(tiny_tree(tmp_path / "new", failed=str(tmp_path / "run"), only="a:0"))
