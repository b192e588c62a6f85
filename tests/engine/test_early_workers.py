"""Simulators that are built while the policy loads: the first episode waits for the slower of the two."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from harness import SUPPORT, THOUGHTFUL, Digests, digests, run_tiny, tiny_tree
from proctor.benchmarks.rendering import find_renderer
from proctor.config.load import build_settings
from proctor.config.plain_values import to_plain
from proctor.engine.early_workers import EarlyWorkers
from proctor.engine.worker_handle import WorkerRecipe
from proctor.errors import NoPicturesError, UsageError
from proctor.identity import benchmark_identity
from proctor.policies.protocol import PolicySpec
from proctor.types import Episode
from tiny import Tiny
from tiny_policies import aside

POLICIES = SUPPORT / "tiny_policies.py"
NOTED = "observe.nothing!:*:*:*"
"""No mischief: the first simulator that shows something leaves a file."""


def test_a_simulator_is_there_and_has_drawn_before_the_policy(tmp_path: Path, reference: Digests) -> None:
    policy = {"path": f"{POLICIES}:Expectant", "kwargs": {"file": aside(tmp_path / "mischief-0")}}
    evaluation = run_tiny(tmp_path / "run", policy=policy, env={"mischief": NOTED})
    assert evaluation.error is None
    assert digests(evaluation) == reference


@pytest.mark.parametrize("where", ["build", "reset", "observe"])
def test_a_simulator_that_fails_meanwhile_is_built_again(tmp_path: Path, reference: Digests, where: str) -> None:
    evaluation = run_tiny(
        tmp_path / "run", policy={"placement": "central"}, env={"mischief": f"{where}.raise!:a:*:*"}
    )
    assert digests(evaluation) == reference
    assert max(record.attempts for record in evaluation.records) <= 2  # it may have had work by then


def test_a_policy_that_cannot_be_loaded_leaves_no_worker_behind(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="could not be loaded"):
        run_tiny(tmp_path / "run", policy={"path": f"{POLICIES}:Slow", "kwargs": {"wrong": 1}})
    assert psutil.Process().children(recursive=True) == []
    assert [file.name for file in (tmp_path / "run").rglob("*") if file.is_file()] == ["host.log"]


def test_a_policy_that_goes_to_the_workers_gets_others(tmp_path: Path, reference: Digests) -> None:
    evaluation = run_tiny(tmp_path / "run", policy={"path": THOUGHTFUL, "placement": "worker"})
    assert digests(evaluation) == reference


def test_on_a_resume_simulators_are_built_for_what_is_left(tmp_path: Path, reference: Digests) -> None:
    """Task a is done; b could not be run."""
    policy, tasks = {"path": THOUGHTFUL, "placement": "central"}, {"task": "a,b"}
    wrong = {**tasks, "mischief": "build.raise:b:*:*"}
    half = run_tiny(tmp_path / "run", policy=policy, env=wrong, eval={"max_attempts": 1})
    assert {record.task for record in half.records if record.error} == {"b"}
    noted = {**tasks, "mischief": "build.nothing!:a:*:* build.nothing!:b:*:*"}
    whole = run_tiny(tmp_path / "run", policy=policy, env=noted)
    assert [file.name for file in sorted(tmp_path.rglob("mischief-*"))] == ["mischief-1"]
    assert not [record for record in whole.records if record.error]
    assert digests(whole) == {key: found for key, found in reference.items() if key.group != "c"}


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_each_gets_its_core_when_another_has_built_or_has_died(tmp_path: Path) -> None:
    env = {"task": "a,b,c", "mischief": "build.hang:a:*:*"}
    settings = build_settings(tiny_tree(tmp_path / "run", env=env))
    benchmark, name = Tiny(settings.env), f"{SUPPORT / 'tiny.py'}:Tiny"
    recipe = WorkerRecipe(
        benchmark=name,
        env=to_plain(settings.env),
        spec=benchmark.spec.to_wire(),
        policy_spec=PolicySpec().to_wire(),
        benchmark_identity=benchmark_identity(name, settings.env, benchmark.distributions(), ()),
        policy_identity={"env_processors": None},
        logs=tmp_path / "logs",
        environment={},
    )
    episodes = [Episode(task, 0, 0) for task in benchmark.tasks()]
    early = EarlyWorkers(recipe, episodes, at_once=0)  # one all the same

    def started() -> list[str]:
        early.go_on()
        return [file.name for file in sorted((tmp_path / "logs").iterdir())]

    try:
        assert started() == started() == ["worker-0.log"]
        time.sleep(0.5)
        assert started() == ["worker-0.log"]
        assert str(early) == "simulators 0/3"
        psutil.Process().children()[-1].kill()  # it hangs in task a
        _until(lambda: len(started()) == 2)
        _until(lambda: len(started()) == 3)
        _until(lambda: str(early) == "simulators 2/3")
    finally:
        early.kept.close(0.0)
    assert psutil.Process().children(recursive=True) == []


_GL_TINY = """
import os
from pathlib import Path
from tiny import Tiny

class GlTiny(Tiny):
    uses_gl = True

    def make_simulator(self, task):
        with (Path(self.settings.scratch) / "built").open("a") as file:
            file.write(f"{os.getpid()} {os.environ['MUJOCO_GL']}\\n")
        return super().make_simulator(task)
"""


@pytest.mark.gl
def test_a_policy_that_looks_at_no_picture_takes_the_simulators_that_were_built_to_draw(tmp_path: Path) -> None:
    try:
        backend = find_renderer().backend
    except NoPicturesError as error:
        pytest.skip(str(error))
    benchmark = tmp_path / "gl_tiny.py"
    benchmark.write_text(_GL_TINY)
    evaluation = run_tiny(
        tmp_path / "run",
        policy={"path": f"{POLICIES}:Thoughtful", "kwargs": {"drawn": False}, "placement": "central"},
        env={"type": f"{benchmark}:GlTiny", "scratch": str(tmp_path), "task": "a,b"},
        eval={"batch_size": 1},
    )
    assert evaluation.error is None
    built = [line.split() for line in (tmp_path / "built").read_text().splitlines()]
    assert {gl for _, gl in built} == {backend}
    assert len({pid for pid, _ in built}) == 1
