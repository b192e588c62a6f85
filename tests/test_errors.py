"""Errors name flags on the command line, and arguments and settings in Python."""

from __future__ import annotations

import pytest

import proctor
from harness import SUPPORT
from proctor.errors import RunError, UsageError, for_python, nearest_flag

TINY = f"{SUPPORT / 'tiny.py'}:Tiny"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("--eval.n_episodes=0: must be at least 1.", "n_episodes=0: must be at least 1."),
        ("--eval.max-attempts=0: must be 1.", "eval.max_attempts=0: must be 1."),
        (
            "unknown flag --env.tsk. Did you mean '--env.task'? See: proctor eval --help",
            "unknown setting env.tsk.",
        ),
        ("Run: pip install --force-reinstall x; sbatch --array=0-9", None),
        ("--seed=x: must be a whole number.", "seed=x: must be a whole number."),
    ],
)
def test_a_python_caller_is_told_of_arguments(told: str, said: str | None) -> None:
    @for_python({"eval.n_episodes": "n_episodes", "seed": "seed"})
    def fail() -> None:
        raise UsageError(told)

    with pytest.raises(UsageError) as caught:
        fail()
    assert str(caught.value).startswith(told if said is None else said)
    assert "--help" not in str(caught.value)


def test_the_kind_and_the_cause_of_an_error_stay() -> None:
    @for_python({"env.": ""})
    def fail() -> None:
        raise RunError("--env.wind=9: too much") from KeyError("wind")

    with pytest.raises(RunError, match=r"^wind=9: too much$") as caught:
        fail()
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_episodes": 0}, "n_episodes=0: must be at least 1."),
        ({"workers": -1}, "workers=-1: must be at least 0."),
        ({"seed": 2**40}, "seed="),
        ({"settings": {"eval": {"max_attempts": 0}}}, "eval.max_attempts=0: must be at least 1."),
        ({"settings": {"evil": {}}}, "unknown setting evil"),
        ({"benchmark": "tny"}, "benchmark=tny: unknown."),
        ({"task": ["a", ""]}, "task: a task's name is empty."),
        ({"task": ["a", 3], "benchmark": "metaworld"}, "task=a: unknown."),
        ({"task": 3}, "task=3: must be a valid string."),
        ({"env": [1]}, "env=[1]: must be a dict."),
        ({"settings": 3}, "settings=3: must be a dict."),
        ({"settings": {"eval": 3}}, "eval=3: 'eval' is a section"),
        ({"settings": {"eval.max_attempts": 0}}, "'eval.max_attempts': nest it, as {eval: {max_attempts: ...}}."),
        ({"settings": {3: 0}}, "unknown setting 3."),
        ({"settings": {"config_path": "x"}}, "unknown setting config_path."),
        ({"settings": {"config_pth": "x"}}, "unknown setting config_pth."),
        ({"display": "loud"}, "display=loud: must be"),
    ],
)
def test_evaluate_speaks_of_no_flag(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        proctor.evaluate("zero", **{"benchmark": TINY, "task": "a", **arguments})  # type: ignore[arg-type]
    assert str(caught.value).startswith(words)
    assert "--" not in str(caught.value)


def test_make_env_config_speaks_of_its_own_arguments() -> None:
    with pytest.raises(UsageError, match=r"^obs_type=pix: must be"):
        proctor.make_env_config("metaworld", obs_type="pix")


@pytest.mark.parametrize(
    ("flag", "meant"),
    [
        ("--eval.n_episode", "--eval.n_episodes"),
        ("--eval.batch-siz", "--eval.batch_size"),
        ("--policy.batch_siz", "--policy.batch_size"),
        ("--env.n_episodes", "--eval.n_episodes"),
        ("--n_episodes", "--eval.n_episodes"),
        ("--evl.n_episodes", "--eval.n_episodes"),
        ("--env.n_episode", None),
        ("--policy.tsk", None),
        ("--env.sed", None),
    ],
)
def test_a_mistyped_flag_is_taken_for_one_of_its_own_section(flag: str, meant: str | None) -> None:
    known = ["--eval.n_episodes", "--eval.batch_size", "--policy.batch_size", "--env.task", "--seed"]
    assert nearest_flag(flag, known) == meant
