"""What a command says and ends with when its run is over: nothing to do, a threshold, the first error, silence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from harness import digests, flags, run_cli, tiny_tree
from proctor.store.stored_run import StoredRun

BROKEN = {"mischief": "step.raise:b:2:1"}
"""Episode 2 of task b raises at its first step, at every attempt."""


def test_a_finished_run_has_nothing_to_do_and_says_what_would_run_more(tmp_path: Path) -> None:
    arguments = flags(tiny_tree(tmp_path / "run", display="plain"))
    first, second = run_cli("eval", *arguments), run_cli("eval", *arguments)
    assert "nothing to do" not in first.stdout
    assert second.returncode == 0, second.stderr
    more = f"proctor eval --resume={tmp_path / 'run'} --eval.n_episodes=8"
    assert f"nothing to do: all 12 episodes had ended before. For more of each task: {more}" in second.stdout
    third = run_cli(*more.split()[1:], "--display=plain")
    assert "nothing to do" not in third.stdout
    assert len(digests(tmp_path / "run")) == 24


def test_episodes_with_errors_are_something_to_do(tmp_path: Path) -> None:
    arguments = flags(tiny_tree(tmp_path / "run", display="plain", env=BROKEN, eval={"max_attempts": 1}))
    first, second = run_cli("eval", *arguments), run_cli("eval", *arguments)
    assert first.returncode == second.returncode == 3
    assert "nothing to do" not in second.stdout


def test_display_none_prints_nothing_of_a_run_that_is_well(tmp_path: Path) -> None:
    for _ in range(2):  # the second has nothing to do, and says nothing either
        done = run_cli("eval", *flags(tiny_tree(tmp_path / "run")), "--eval.stop_when=ci<=0.4")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_display_none_prints_problems_on_standard_error_alone(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", env=BROKEN, eval={"max_attempts": 1})
    done = run_cli("eval", *flags(tree))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"To try the episodes with errors again: proctor eval --resume={tmp_path / 'run'}\n"


@pytest.mark.parametrize("extra", [[], ["--eval.use_async_envs=false"]])
def test_exitfirst_stops_at_the_first_error_and_goes_on_from_there(tmp_path: Path, extra: list[str]) -> None:
    tree = tiny_tree(tmp_path / "run", n_episodes=40, env=BROKEN, eval={"max_attempts": 1}, display="plain")
    done = run_cli("eval", "-x", *flags(tree), *extra)
    assert done.returncode == 3, done.stderr
    line, resume = done.stderr.strip().splitlines()[-2:]
    assert line == (
        "proctor: stopped at the first error (--exitfirst): b episode 2 ended in an error: step raised "
        "RuntimeError: the simulator fell over"
    )
    assert resume == f"To go on: proctor eval --resume={tmp_path / 'run'}"
    run = StoredRun.open(tmp_path / "run")
    assert run.ended.errors == 1
    assert not run.complete
    assert "exitfirst" not in run.settings
    done = run_cli(*resume.split()[4:], "--display=none")
    assert done.returncode == 3
    assert StoredRun.open(tmp_path / "run").complete


def test_exitfirst_over_shards_stops_them_all(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", n_episodes=60, env=BROKEN, eval={"max_attempts": 1, "batch_size": 1})
    done = run_cli("parallel", "--num-shards=2", "-x", *flags(tree))
    assert done.returncode == 3, done.stderr
    assert "stopped at the first error (--exitfirst): b episode 2 ended in an error" in done.stderr
    run = StoredRun.open(tmp_path / "run")
    assert run.ended.errors == 1
    assert not run.complete
    done = run_cli("parallel", f"--resume={tmp_path / 'run'}", "--display=none")
    assert done.returncode == 3, done.stderr
    assert StoredRun.open(tmp_path / "run").complete


def test_a_threshold_that_is_missed_ends_with_4_and_is_kept_for_the_resume(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", display="plain", min_success=1.0)
    tree["policy"] = {"type": "zero"}
    done = run_cli("eval", *flags(tree))
    assert done.returncode == 4, done.stderr
    assert done.stderr.startswith("min_success failed: the rate must reach 100 %; success ")
    again = run_cli("eval", f"--resume={tmp_path / 'run'}")
    assert again.returncode == 4
    assert run_cli("eval", f"--resume={tmp_path / 'run'}", "--min_success=none").returncode == 0


def test_json_tells_the_threshold_before_the_result(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", n_episodes=1, display="json", min_success=1.0)
    tree["policy"] = {"type": "zero"}
    done = run_cli("eval", *flags(tree))
    *_, note, result = map(json.loads, done.stdout.splitlines())
    assert note["event"] == "note"
    assert note["message"].startswith("min_success failed")
    assert (result["event"], result["status"], done.returncode) == ("result", 4, 4)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--min_success=0"], "--min_success=0: must be more than 0"),
        (["--min_success=80"], "--min_success=80: must be at most 1"),
        (["--min_success=0.5", "--min_success_by=upper"], "--min_success_by=upper: must be"),
        (["--min_success=0.5", "--eval.num_shards=2"], "--min_success is asked of a whole run"),
        (["--junit=nowhere/x.xml"], "--junit=nowhere/x.xml: there is no directory"),
    ],
)
def test_what_cannot_be_judged_is_refused_before_anything_starts(
    tmp_path: Path, given: list[str], words: str
) -> None:
    done = run_cli("eval", *flags(tiny_tree(tmp_path / "run")), *given, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_benchmark_that_reports_no_success_cannot_be_judged(tmp_path: Path) -> None:
    given = ["--env.type=gym", "--env.task=Pendulum-v1", "--policy.type=random", "--eval.n_episodes=1"]
    done = run_cli("eval", *given, "--min_success=0.5", cwd=tmp_path)
    assert done.returncode == 2
    assert "--min_success, --eval.stop_when and --eval.until_better_than need a success rate" in done.stderr
    assert not list(tmp_path.iterdir())


def test_errors_that_say_the_same_are_told_once(tmp_path: Path) -> None:
    env = {"mischief": "step.raise:*:*:1"}
    tree = tiny_tree(tmp_path / "run", n_episodes=2, display="plain", env=env, eval={"max_attempts": 1})
    done = run_cli("eval", *flags(tree))
    assert "  6 episodes of 3 tasks: step raised RuntimeError: the simulator fell over (first: a episode 0)" in (
        done.stdout
    )


def test_tags_and_notes_are_changed_afterwards_and_no_hash_with_them(tmp_path: Path) -> None:
    path = tmp_path / "run"
    tree = tiny_tree(path, n_episodes=1, tags="x,y", notes="old")
    assert run_cli("eval", *flags(tree)).returncode in (0, 3)
    before = run_cli("bundle", str(path), f"--output={tmp_path / 'one.proctor'}").stdout.split()[-1]
    done = run_cli("tag", str(path), "--add=z", "--remove=x", "--description=why", "--notes=")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{path}: tags: y, z; description: why\n"
    stored = yaml.safe_load((path / "config.yaml").read_text())
    assert (stored["tags"], stored["description"], stored["notes"]) == ("y,z", "why", None)
    told = json.loads((path / "eval_info.json").read_text())["run"]
    assert (told["tags"], told["description"], told["notes"]) == (["y", "z"], "why", None)
    assert run_cli("bundle", str(path), f"--output={tmp_path / 'two.proctor'}").stdout.split()[-1] == before
    assert (tmp_path / "one.proctor").read_bytes() == (tmp_path / "two.proctor").read_bytes()
    assert run_cli("tag", str(path)).stdout == done.stdout
    assert "is a bundle" in run_cli("tag", str(tmp_path / "one.proctor"), "--tags=a").stderr
    resumed = run_cli("eval", f"--resume={path}", "--eval.n_episodes=2", "--display=none")
    assert resumed.returncode in (0, 3), resumed.stderr
    assert StoredRun.open(path).labels["description"] == "why"
