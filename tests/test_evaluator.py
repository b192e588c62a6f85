"""Evaluations one after the other: processes stay where they may, and results are those of `evaluate`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import proctor
from harness import SUPPORT
from tiny_policies import Thoughtful, plain

TINY = f"{SUPPORT / 'tiny.py'}:Tiny"
ARGUMENTS: dict[str, Any] = {"task": ["a", "b"], "n_episodes": 2, "workers": 2, "display": "none"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def evaluator() -> Iterator[proctor.Evaluator]:
    with proctor.Evaluator(benchmark=TINY, **ARGUMENTS) as one:
        yield one


def digests(result: proctor.EvalResult) -> list[Any]:
    return [record.digests for record in result]


def fresh(policy: Any, benchmark: str = TINY, **changes: Any) -> list[Any]:
    return digests(proctor.evaluate(policy, benchmark=benchmark, **{**ARGUMENTS, **changes}))


def workers_of(evaluator: proctor.Evaluator) -> list[int]:
    assert evaluator._warm is not None
    return sorted(worker.child.process.pid for worker in evaluator._warm._workers)


def hosts_of(evaluator: proctor.Evaluator) -> list[int]:
    assert evaluator._warm is not None
    return [host.child.process.pid for host in evaluator._warm._hosts]


def test_workers_stay_while_a_live_policy_changes(evaluator: proctor.Evaluator) -> None:
    first = evaluator.evaluate(plain)
    before = workers_of(evaluator)
    second = evaluator.evaluate(Thoughtful())
    assert workers_of(evaluator) == before
    assert len(before) == 2
    third = evaluator.evaluate(plain)
    assert workers_of(evaluator) == before
    assert digests(first) == digests(third) == fresh(plain)
    assert digests(second) == fresh(Thoughtful())
    assert len({first.path, second.path, third.path}) == 3


def test_a_policy_inside_the_workers_stays_while_it_is_the_same(evaluator: proctor.Evaluator) -> None:
    evaluator.evaluate("random")
    before = workers_of(evaluator)
    again = evaluator.evaluate("random")
    assert workers_of(evaluator) == before
    other = evaluator.evaluate("zero")
    assert not set(workers_of(evaluator)) & set(before)
    assert digests(again) == fresh("random")
    assert digests(other) == fresh("zero")


def test_an_edited_policy_is_the_new_one(evaluator: proctor.Evaluator, tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    found = []
    for action in (0.1, 0.9):
        source.write_text(f"def act(observation):\n    return [{action}, 0.0]\n")
        found.append(digests(evaluator.evaluate(f"{source}:act")))
        assert found[-1] == fresh(f"{source}:act")
    assert found[0] != found[1]


def test_an_edited_benchmark_is_the_new_one(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    shutil.copy(SUPPORT / "tiny.py", source)
    with proctor.Evaluator(benchmark=f"{source}:Tiny", **ARGUMENTS) as evaluator:
        first = evaluator.evaluate(plain)
        before = workers_of(evaluator)
        text = source.read_text()
        assert "max_steps: int = 40" in text
        source.write_text(text.replace("max_steps: int = 40", "max_steps: int = 7"))
        second = evaluator.evaluate(plain)
        assert not set(workers_of(evaluator)) & set(before)
    assert max(record.steps for record in first) > 7
    assert max(record.steps for record in second) <= 7


def test_children_of_other_surroundings_are_not_used(
    evaluator: proctor.Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator.evaluate(plain)
    before = workers_of(evaluator)
    other = "Nehalem" if os.environ.get("OPENBLAS_CORETYPE") == "Haswell" else "Haswell"
    monkeypatch.setenv("OPENBLAS_CORETYPE", other)
    evaluator.evaluate(plain)
    assert not set(workers_of(evaluator)) & set(before)


def test_what_died_in_between_is_replaced(evaluator: proctor.Evaluator) -> None:
    first = evaluator.evaluate(plain)
    victim, other = workers_of(evaluator)
    os.kill(victim, signal.SIGKILL)
    second = evaluator.evaluate(plain)
    assert other in workers_of(evaluator)
    assert victim not in workers_of(evaluator)
    assert digests(first) == digests(second)


def test_what_dies_in_an_evaluation_is_replaced(tmp_path: Path) -> None:
    env = {"mischief": "step.kill!:a:0:3", "scratch": str(tmp_path)}
    with proctor.Evaluator(benchmark=TINY, env=env, **ARGUMENTS) as evaluator:
        first, second = evaluator.evaluate(plain), evaluator.evaluate(plain)
    assert max(record.attempts for record in first) == 2
    assert digests(first) == digests(second) == fresh(plain)


def test_a_policy_that_fails_ends_its_evaluation_alone(evaluator: proctor.Evaluator) -> None:
    def broken(observation: dict[str, Any]) -> list[float]:
        raise ValueError("no idea")

    evaluator.evaluate(plain)
    with pytest.raises(proctor.PolicyError, match="no idea"):
        evaluator.evaluate(broken)
    assert digests(evaluator.evaluate(plain)) == fresh(plain)


def test_a_host_that_cannot_load_another_is_not_kept(evaluator: proctor.Evaluator, tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_text("def act(observation):\n    return [0.5, 0.0]\n")
    first = evaluator.evaluate(f"{source}:act")
    assert hosts_of(evaluator) == []
    assert digests(evaluator.evaluate(f"{source}:act")) == digests(first)


def test_nothing_is_left_when_it_is_closed() -> None:
    evaluator = proctor.Evaluator(benchmark=TINY, **ARGUMENTS)
    evaluator.evaluate(plain)
    left = workers_of(evaluator)
    evaluator.close()
    evaluator.close()
    assert not [pid for pid in left if Path(f"/proc/{pid}").exists()]
    with pytest.raises(proctor.UsageError, match="this Evaluator is closed"):
        evaluator.evaluate(plain)


def test_each_evaluation_has_its_own_logs(evaluator: proctor.Evaluator) -> None:
    def noisy(observation: dict[str, Any]) -> list[float]:
        return [0.0, 0.0]

    env = {"mischief": "step.print:a:*:1"}
    with proctor.Evaluator(benchmark=TINY, env=env, **ARGUMENTS) as one:
        results = [one.evaluate(noisy) for _ in range(2)]
    for result in results:
        assert any("hello" in log.read_text() for log in (result.path / "logs").glob("worker-*.log"))


def test_settings_hold_where_no_argument_is_given() -> None:
    settings = {"seed": 7, "eval": {"n_episodes": 3}}
    result = proctor.evaluate(plain, benchmark=TINY, task="a", display="none", settings=settings)
    assert [record.seed for record in result] == [7, 8, 9]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"seed": 1, "settings": {"seed": 7}}, "'seed' among the settings: give it as seed="),
        ({"n_episodes": 3, "settings": {"eval": {"n_episodes": 3}}}, r"give it as n_episodes="),
        ({"env": {"task": "a"}}, r"'env.task' among the settings: give it as task="),
        ({"settings": {"output_dir": "x"}}, r"give it as output_dir="),
        ({"settings": {"resume": "x"}}, r"give the run directory as output_dir="),
        ({"settings": {"policy": {"path": "x"}}}, r"give it as policy="),
        ({"env": {"delay": 0.1}, "settings": {"env": {"delay": 0.2}}}, "'delay' is given twice"),
        ({"env": "a"}, "env=a: must be a dict"),
        ({"settings": {"limits": proctor.WandBConfig()}}, "limits=WandBConfig: must be a LimitSettings or a dict"),
        ({"settings": {"eval": proctor.PeftConfig()}}, "eval=PeftConfig: must be an? EvalConfig or a dict"),
        (
            {"settings": {"policy": {"kwargs": {"x": 1}}}},
            r"'policy.kwargs' among the settings: .*an object of yours",
        ),
    ],
)
def test_what_is_given_twice_is_refused(arguments: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(proctor.UsageError, match=words):
        proctor.evaluate(plain, **{"benchmark": TINY, "task": "a", **arguments})
    assert not (tmp_path / "outputs").exists()


def test_a_kind_of_policy_that_is_a_folder_too_is_refused(tmp_path: Path) -> None:
    (tmp_path / "random").mkdir()
    with pytest.raises(proctor.UsageError, match=r"Write '\./random' for the folder"):
        fresh("random")


def test_a_result_shows_itself_in_a_notebook(evaluator: proctor.Evaluator) -> None:
    result = evaluator.evaluate(plain)
    page = result._repr_html_()
    assert page.count("<tr>") == 4  # the head, two tasks, all
    rate = result.success_rate
    assert f"{rate.successes}/{rate.episodes}" in page
    assert [task.name for task in result.tasks] == ["a", "b"]
    assert sum(task.rate.successes for task in result.tasks) == result.overall.rate.successes
    assert [group.group for group in result.groups] == ["a", "b"]
    assert repr(rate) == str(rate)


def test_a_fork_leaves_the_processes_to_the_one_that_started_them(evaluator: proctor.Evaluator) -> None:
    first = evaluator.evaluate(plain)
    before = workers_of(evaluator)
    if (child := os.fork()) == 0:
        status = 1
        try:
            status = int(digests(evaluator.evaluate(plain)) != digests(first) or workers_of(evaluator) == before)
            evaluator.close()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert digests(evaluator.evaluate(plain)) == digests(first)
    assert workers_of(evaluator) == before


def test_processes_that_begin_in_one_second_get_directories_of_their_own(tmp_path: Path) -> None:
    script = (
        "import sys, proctor\n"
        f"result = proctor.evaluate(sys.argv[1], benchmark={TINY!r}, task='a', n_episodes=2, display='none')\n"
        "print(result.path, len(result))\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", script, kind], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
        for kind in ("zero", "random") * 2
    ]
    told = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert [number for _, number in told] == ["2"] * 4
