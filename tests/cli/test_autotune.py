"""`proctor autotune` as a user runs it: it ends in a command that works, and leaves nothing behind."""

from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness import Digests, descendants, digests, flags, run_cli, start_cli, tiny_tree, wait_until
from proctor.cli.autotune import paste_ready
from proctor.tuning.advice import Advice


def advice(shards: int = 1, environment: dict[str, str] | None = None, **chosen: str) -> Advice:
    named = {name.replace("__", "."): value for name, value in chosen.items()}
    return cast(Advice, SimpleNamespace(shards=shards, flags=named, environment=environment or {}))


@pytest.mark.parametrize(
    "given",
    [
        ["--eval.batch_size=3", "--env.task=a b"],
        ["--eval.batch_size", "3", "--env.task=a b"],
        ["eval.batch_size=3", "--env.task=a b"],
        ["--eval.batch-size=3", "--env.task=a b"],
    ],
)
def test_the_command_has_what_was_given_and_what_was_found(given: list[str]) -> None:
    line = paste_ready(given, advice(eval__batch_size="8", policy__placement="central"))
    assert line == "proctor eval '--env.task=a b' --eval.batch_size=8 --policy.placement=central"


def test_another_renderer_and_several_gpus_are_in_the_command() -> None:
    line = paste_ready(["--seed=1"], advice(4, {"MUJOCO_GL": "osmesa"}, eval__batch_size="8"))
    assert line == "MUJOCO_GL=osmesa proctor parallel --num-shards=4 --seed=1 --eval.batch_size=8"


@pytest.mark.slow
def test_the_advice_is_a_command_that_gives_the_same_results(tmp_path: Path, reference: Digests) -> None:
    tree: dict[str, Any] = tiny_tree(tmp_path / "run")
    done = run_cli("autotune", *flags(tree), "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(tmp_path.iterdir()) == []
    assert found["machine"]["cores"] >= 1
    assert found["one_worker"]["asks"] > 0
    first = found["choices"][0]
    assert found["flags"]["eval.batch_size"] == str(first["workers"])
    assert all(first["seconds"] <= 1.05 * other["seconds"] for other in found["choices"])
    program, command, *arguments = shlex.split(found["command"])
    assert (program, command) == ("proctor", "eval")
    run = run_cli(command, *arguments)
    assert run.returncode == 0, run.stderr
    assert digests(tmp_path / "run") == reference


@pytest.mark.slow
def test_without_a_policy_it_measures_the_benchmark_alone(tmp_path: Path) -> None:
    tree: dict[str, Any] = {name: part for name, part in tiny_tree(tmp_path / "run").items() if name != "policy"}
    done = run_cli("eval-autotune", *flags(tree), "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["policy"] is None
    assert found["one_worker"]["chunk"] == 1.0
    assert found["choices"][0]["steps_per_second"] > 0
    assert found["command"].startswith("proctor eval --policy.path=POLICY ")
    assert "policy" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_it_and_everything_that_it_started(tmp_path: Path) -> None:
    process = start_cli("autotune", *flags(tiny_tree(tmp_path / "run", env={"delay": 0.01})))
    wait_until(lambda: len(descendants(process.pid)) >= 2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert out == ""


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--jsn"], 2, "unknown flag --jsn. Did you mean '--json'? See: proctor autotune --help"),
        (["--env.typ=metaworld"], 2, "--env.type is missing"),
        (["--policy.type=zero", "--env.type=metaworld", "--env.tsk=reach-v3"], 2, "Did you mean '--env.task'"),
        (["--policy.type=zero", "--env.type=metaworld", "--env.task=reech-v3"], 2, "reach-v3"),
    ],
)
def test_a_wrong_flag_is_told_in_one_line(arguments: list[str], status: int, words: str) -> None:
    done = run_cli("autotune", *arguments)
    assert done.returncode == status
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_says_what_it_does() -> None:
    done = run_cli("autotune", "--help")
    assert done.returncode == 0
    assert "proctor autotune" in done.stdout
