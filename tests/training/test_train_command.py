"""`proctor train` as a user runs it: evaluations beside training, one curve, nothing lost whatever is killed."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness import SUPPORT, descendants, digests, is_over, run_cli, start_cli, stored, wait_until
from proctor.config.load import build_settings
from proctor.engine.evaluation import evaluate_settings
from stepwise_trainer import allow, make_dataset, make_interpreter, policy_of

STEPS = 3
TINY = f"{SUPPORT / 'tiny.py'}:Tiny"


class Training:
    """A training on the tiny benchmark by the trainer of these tests."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.place = folder / "training"
        flags = {
            "policy.type": "compact",
            "policy.python": make_interpreter(folder),
            "dataset.root": make_dataset(folder / "dataset"),
            "env.type": TINY,
            "env.task": "a,b",
            "env.scratch": folder,
            "eval.n_episodes": 3,
            "eval.batch_size": 2,
            "steps": STEPS,
            "eval_freq": 1,
            "output_dir": self.place,
            **changes,
        }
        self.arguments = [f"--{name.replace('__', '.')}={value}" for name, value in flags.items()]

    @property
    def told(self) -> dict[str, Any]:
        """What `training.json` says."""
        found: dict[str, Any] = json.loads((self.place / "training.json").read_text())
        return found

    @property
    def evaluated(self) -> list[int]:
        return [one["step"] for one in self.told["evaluations"]] if (self.place / "training.json").exists() else []

    @property
    def progress(self) -> str:
        """What the trainer has said of itself."""
        file = self.place / "logs/progress.log"
        return file.read_text() if file.exists() else ""

    def digests(self) -> dict[str, Any]:
        """The digests of every episode of every evaluation."""
        return {run.name: digests(run) for run in sorted((self.place / "eval").iterdir())}


def trainer_of(pid: int) -> psutil.Process:
    (found,) = [one for one in descendants(pid) if "trainer.json" in " ".join(one.cmdline())]
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Training:
    training = Training(tmp_path_factory.mktemp("undisturbed"))
    allow(training.place, STEPS)
    done = run_cli("train", *training.arguments)
    assert done.returncode == 0, done.stderr
    assert "the best so far" in done.stdout
    return training


def test_every_due_checkpoint_is_a_point_of_the_curve_and_the_best_is_linked(undisturbed: Training) -> None:
    told = undisturbed.told
    assert undisturbed.evaluated == [1, 2, 3]
    assert [one["successes"] == one["episodes"] == 6 for one in told["evaluations"]] == [False, True, False]
    assert told["best"] == 2
    best = undisturbed.place / "checkpoints" / "best"
    assert str(best.readlink()) == "000002", "a relative link: the folder may be moved"
    report = (undisturbed.place / "report.html").read_text()
    for link in re.findall(r'href="([^"#]+)"', report):
        assert (undisturbed.place / link).is_file(), link
    assert report.count("/report.html") == 3
    assert "<svg" in report
    assert "http" not in report.replace("http-equiv", "")


def test_a_finished_training_has_nothing_to_do_and_shows_its_curve(undisturbed: Training) -> None:
    before = {file: file.stat().st_mtime_ns for file in undisturbed.place.glob("eval/*/run.sqlite")}
    done = run_cli("train", f"--resume={undisturbed.place}")
    assert done.returncode == 0, done.stderr
    assert "nothing to do" in done.stdout
    assert "100.0 %" in done.stdout
    assert "evaluating" not in done.stdout
    assert {file: file.stat().st_mtime_ns for file in before} == before


def test_an_evaluation_beside_training_is_the_evaluation_of_its_checkpoint(
    undisturbed: Training, tmp_path: Path
) -> None:
    tree = {
        "policy": {"path": str(undisturbed.place / "checkpoints/000002/pretrained_model")},
        "env": {"type": TINY, "task": "a,b", "scratch": str(tmp_path)},
        "eval": {"n_episodes": 3, "batch_size": 1},
        "output_dir": str(tmp_path / "alone"),
        "display": "none",
    }
    assert digests(evaluate_settings(build_settings(tree))) == undisturbed.digests()["000002"]


def test_training_does_not_wait_for_evaluations_and_none_is_left_out(tmp_path: Path) -> None:
    training = Training(tmp_path, **{"env.delay": 0.01, "eval.n_episodes": 4})
    allow(training.place, STEPS)
    process = start_cli("train", *training.arguments)
    assert process.stdout is not None
    wait_until(lambda: (training.place / "checkpoints/000003").exists())
    assert training.evaluated == [], "all steps are done before the first evaluation is"
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert training.evaluated == [1, 2, 3]
    assert "more wait" in out


@pytest.mark.parametrize("when", ["during an evaluation", "before the first checkpoint", "between two"])
@pytest.mark.sampled(1)
def test_a_killed_command_takes_its_trainer_along_and_goes_on(
    tmp_path: Path, undisturbed: Training, when: str
) -> None:
    training = Training(tmp_path, **{"env.delay": 0.005})
    process = start_cli("train", *training.arguments)
    wait_until(lambda: "from step 0" in training.progress)
    if when == "during an evaluation":
        allow(training.place, 2)
        wait_until(lambda: stored(training.place / "eval/000001") > 1)
    elif when == "between two":
        allow(training.place, 1)
        wait_until(lambda: training.evaluated == [1])
    trainer = trainer_of(process.pid)
    process.kill()
    process.communicate()
    wait_until(lambda: is_over(trainer))
    allow(training.place, STEPS)
    done = run_cli("train", *training.arguments)
    assert done.returncode == 0, done.stderr
    assert training.told["evaluations"] == undisturbed.told["evaluations"]
    assert training.digests() == undisturbed.digests()
    assert training.progress.count("from step 0") == (2 if when == "before the first checkpoint" else 1)


def test_ctrl_c_ends_both_in_order_and_says_how_to_go_on(tmp_path: Path, undisturbed: Training) -> None:
    training = Training(tmp_path, **{"env.delay": 0.005, "eval.stop_grace": 0.1})
    allow(training.place, 2)
    # A path means the same when the training goes on from elsewhere.
    relative = [word.replace(f"{tmp_path}/", "./") for word in training.arguments]
    process = start_cli("train", *relative, cwd=tmp_path)
    wait_until(lambda: stored(training.place / "eval/000001") > 1)
    trainer = trainer_of(process.pid)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert is_over(trainer)
    assert f"To go on: proctor train --resume={training.place}" in err
    assert "Traceback" not in err
    allow(training.place, STEPS)
    done = run_cli("train", f"--resume={training.place}", cwd="/")
    assert done.returncode == 0, done.stderr
    assert training.digests() == undisturbed.digests()


def test_a_trainer_that_is_killed_is_told_and_the_same_command_goes_on(
    tmp_path: Path, undisturbed: Training
) -> None:
    training = Training(tmp_path)
    allow(training.place, 2)
    process = start_cli("train", *training.arguments)
    wait_until(lambda: training.evaluated == [1, 2])
    trainer_of(process.pid).kill()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the trainer was killed by SIGKILL" in err
    assert f"--resume={training.place}" in err
    allow(training.place, STEPS)
    assert run_cli("train", *training.arguments).returncode == 0
    assert training.digests() == undisturbed.digests()


def test_a_trainer_that_fails_has_its_last_lines_and_its_log_shown(tmp_path: Path) -> None:
    training = Training(tmp_path)
    allow(training.place, STEPS)
    (tmp_path / "fail").touch()
    done = run_cli("train", *training.arguments)
    assert done.returncode == 1
    assert "ValueError: the loss is no number" in done.stderr
    assert str(training.place / "logs/trainer.log") in done.stderr
    assert len(done.stderr.splitlines()) < 10


def test_a_second_command_and_another_command_are_kept_out(tmp_path: Path) -> None:
    training = Training(tmp_path)
    allow(training.place, 1)
    process = start_cli("train", *training.arguments)
    try:
        wait_until(lambda: training.evaluated == [1])
        second = run_cli("train", *training.arguments)
        assert second.returncode == 2
        assert f"is being written by process {process.pid}" in second.stderr
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    for change, words in (
        ("--eval.n_episodes=4", "--eval.n_episodes: 3 there, 4 now"),
        ("--batch_size=7", "--batch_size: not given there, 7 now"),
    ):
        other = run_cli("train", *training.arguments, change)
        assert other.returncode == 2
        assert words in other.stderr
    allow(training.place, STEPS)
    free = run_cli("train", *training.arguments, "--eval.batch_size=1", "--display=json")
    assert free.returncode == 0, free.stderr
    events = [json.loads(line) for line in free.stdout.splitlines()]
    assert [event["step"] for event in events if event["event"] == "evaluation"] == [2, 3]
    assert events[-1]["event"] == "result"
    assert events[-1]["best"] == 2


def test_a_checkpoint_that_cannot_be_evaluated_ends_nothing_and_is_tried_again(
    tmp_path: Path, undisturbed: Training
) -> None:
    training = Training(tmp_path)
    (tmp_path / "damage-1").touch()
    allow(training.place, STEPS)
    done = run_cli("train", *training.arguments)
    assert done.returncode == 1
    assert "step 1 could not be evaluated" in done.stdout
    assert training.evaluated == [2, 3]
    assert [one["step"] for one in training.told["failures"]] == [1]
    policy_of(1).write(training.place / "checkpoints/000001/pretrained_model")
    assert run_cli("train", *training.arguments).returncode == 0
    assert training.told["evaluations"] == undisturbed.told["evaluations"]
    assert training.told["failures"] == []


def test_trackers_are_told_the_rate_at_the_training_step(tmp_path: Path) -> None:
    training = Training(tmp_path, **{"report_to": f"{SUPPORT / 'told_trackers.py'}:Notebook"})
    allow(training.place, STEPS)
    done = run_cli("train", *training.arguments)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (training.place / "told.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["start", *["log"] * 3, "conclude"]
    assert [line["step"] for line in lines[1:]] == [1, 2, 3, 3]
    assert lines[2]["values"]["eval/pc_success"] == 100.0
    assert lines[-1]["values"]["best/step"] == 2.0
    assert not list(training.place.glob("eval/*/told.jsonl")), "of the training, and not of every evaluation"
