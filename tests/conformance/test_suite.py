"""The conformance suite passes what is sound, and finds each fault where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import proctor
from harness import SUPPORT
from proctor import CheckResult
from proctor.benchmarks.rendering import find_renderer
from proctor.errors import NoPicturesError, UsageError


def check(source: str, **options: Any) -> dict[str, CheckResult]:
    """Check a class of the tests, by check."""
    return {result.name: result for result in proctor.check_benchmark(f"{SUPPORT}/{source}", **options)}


def failed(results: dict[str, CheckResult]) -> list[str]:
    return [name for name, result in results.items() if result.state == "failed"]


@pytest.fixture
def draws() -> None:
    try:
        find_renderer()
    except NoPicturesError as error:
        pytest.skip(str(error))


def test_a_sound_benchmark_passes_every_check() -> None:
    results = check("sound_benchmark.py:Sound", env={"task": "a,bb"})
    assert {name: result.state for name, result in results.items()} == {
        **dict.fromkeys(results, "passed"),
        "after the end": "skipped",  # random actions succeed before the step limit
    }
    assert len(results) == 21
    short = check("sound_benchmark.py:Sound", env={"max_steps": 30})
    assert short["after the end"].state == "passed"
    assert short["after success"].state == short["other tasks"].state == "skipped"


def test_a_benchmark_need_not_tell_success_nor_have_prompts_nor_frames() -> None:
    results = check("sound_benchmark.py:Reticent", steps=8)
    assert failed(results) == []
    assert results["frames"].text == "it cannot be filmed: there is no camera"
    assert results["tasks"].state == "note"
    assert results["after the end"].state == "passed"


def test_it_is_told_whether_episodes_can_be_replayed() -> None:
    sound = check("sound_benchmark.py:Sound", steps=8)["replay"]
    assert (sound.state, "it can be filmed after its run" in sound.text) == ("passed", True)
    keeps = check("unrepeatable.py:Keeps", env={"task": "a"}, steps=8)["replay"]
    assert (keeps.state, "replays = False" in keeps.remedy) == ("note", True)
    assert "'two processes' fails" in keeps.text
    says = check("unrepeatable.py:SaysSo", env={"task": "a"}, steps=8)["replay"]
    assert (says.state, "as replays = False says" in says.text) == ("note", True)


def test_a_benchmark_that_clips_actions_may_say_so() -> None:
    results = check("sound_benchmark.py:Clipping", steps=8)
    assert failed(results) == []
    assert results["clipped actions"].state == "passed"


def test_a_benchmark_that_cannot_even_be_asked() -> None:
    (result,) = check("sound_benchmark.py:Speechless").values()
    assert (result.state, result.text) == ("failed", "asking the benchmark raised ValueError: no tasks")


BROKEN = {
    "IgnoresItsSeed": ["two processes"],
    "RemembersTheLastEpisode": ["reused simulator"],
    "ShowsAnOldPicture": ["looks"],
    "StumblesAfterSuccess": ["after success"],
    "LeaksAFile": ["close"],
}
ALSO_BROKEN = {
    "GivesFloat32": ["observations"],
    "GivesItsBuffer": ["arrays"],
    "OnlySaysThatItClips": ["clipped actions"],
    "SharesAGenerator": ["reused simulator", "new simulator"],
    "DrawingMovesTheWorld": ["looks"],
    "GivesAnotherShape": ["observations"],
    "GivesNaN": ["observations"],
    "GivesEverything": ["observations"],
    "ChangesTheAction": ["actions"],
    "SaysZeroForFalse": ["outcomes"],
    "HasWordsForMetrics": ["outcomes"],
    "LeaksAThread": ["close"],
    "LeaksAProcess": ["close"],
    "FilmsAtRandom": ["frames"],
    "FilmsInFloats": ["frames"],
    "OtherWordsEveryTime": ["settings"],
}


@pytest.mark.parametrize(
    ("name", "checks"),
    [
        *BROKEN.items(),
        *(pytest.param(name, checks, marks=pytest.mark.slow) for name, checks in ALSO_BROKEN.items()),
    ],
)
def test_a_broken_benchmark_fails_the_check_that_is_meant_for_it(name: str, checks: list[str]) -> None:
    results = check(f"broken_benchmarks.py:{name}", steps=8)
    assert failed(results) == checks, "\n".join(map(str, results.values()))
    assert all(results[check].remedy for check in checks)


def test_a_simulator_that_is_imported_too_early() -> None:
    results = check("early_importing_benchmark.py:ImportsTooEarly", steps=8)
    assert failed(results) == ["imports"]
    assert "mujoco" in results["imports"].text


@pytest.mark.slow
def test_a_reset_that_fails_after_the_end_is_told_with_what_it_raised() -> None:
    results = check("broken_benchmarks.py:StumblesAfterTheEnd", steps=8, env={"max_steps": 30})
    assert failed(results) == ["after the end"]
    assert "reset raised RuntimeError: the episode is over" in results["after the end"].text


def test_pictures_that_depend_on_the_task_before() -> None:
    results = check("broken_benchmarks.py:MixesUpTasks", steps=8, env={"task": "a,bb"})
    assert failed(results) == ["other tasks"]
    assert "observation.image differs" in results["other tasks"].text


@pytest.mark.slow
def test_a_simulator_that_can_be_built_only_once() -> None:
    results = check("broken_benchmarks.py:CannotBeBuiltTwice", steps=8)
    assert failed(results) == ["new simulator", "close"]
    assert "only one window can be open" in results["new simulator"].text
    assert results["looks"].state == "skipped"
    assert "'new simulator' fails" in results["looks"].text


@pytest.mark.slow
def test_two_tasks_of_one_number() -> None:
    assert failed(check("broken_benchmarks.py:CountsAllTasksAsOne", steps=8, env={"task": "a,bb"}))[0] == "tasks"


@pytest.mark.slow
def test_a_crash_is_told_and_ends_nothing_else() -> None:
    results = check("broken_benchmarks.py:Crashes", steps=8)
    assert failed(results) == ["simulators", "close"]
    assert "SIGSEGV" in results["simulators"].text
    assert results["two processes"].state == "skipped"
    assert results["imports"].state == "passed"


@pytest.mark.slow
@pytest.mark.gl
@pytest.mark.usefixtures("draws")
def test_drawing_without_a_look_is_a_fault_unless_the_benchmark_says_so() -> None:
    results = check("always_drawing_benchmark.py:DrawsEveryStep", steps=4, env={"max_steps": 6})
    assert failed(results) == ["drawing"]
    assert "that nobody looked at drew" in results["drawing"].text
    said = check("always_drawing_benchmark.py:SaysThatItDrawsEveryStep", steps=4, env={"max_steps": 6})
    assert failed(said) == []
    assert said["drawing"].state == "note"


def test_the_benchmark_of_the_other_tests_passes() -> None:
    results = proctor.check_benchmark(f"{SUPPORT}/tiny.py:Tiny", env={"task": "a,b"})
    assert [str(result) for result in results if not result.ok] == []


@pytest.mark.gl
@pytest.mark.usefixtures("draws")
def test_meta_world_passes_and_its_expert_shows_what_follows_success() -> None:
    results = proctor.check_benchmark("metaworld", tasks="reach-v3", steps=8, env={"obs_type": "state"})
    states = {result.name: result.state for result in results}
    assert states == {
        **dict.fromkeys(states, "passed"),
        "other tasks": "skipped",
        "drawing": "skipped",
    }, "\n".join(map(str, results))


@pytest.mark.gl
@pytest.mark.slow
@pytest.mark.usefixtures("draws")
def test_meta_world_passes_with_its_camera_on_tasks_of_three_groups() -> None:
    results = proctor.check_benchmark("metaworld")
    assert {result.state for result in results} == {"passed"}, "\n".join(map(str, results))


@pytest.mark.slow
def test_other_tasks_and_lengths_can_be_chosen() -> None:
    results = check(
        "sound_benchmark.py:Sound", env={"task": "a,bb,ccc,dddd"}, tasks=["dddd", "a"], episodes=3, steps=5
    )
    assert failed(results) == []
    assert "4 tasks in 4 groups, 2 of them played" in results["tasks"].text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tasks": "b"}, "tasks=b: unknown"),
        ({"tasks": "all,a"}, "'all' stands alone"),
        ({"episodes": 1}, "episodes=1: must be at least 2"),
        ({"steps": 1}, "steps=1: must be at least 4"),
        ({"env": {"tusk": "a"}}, "unknown setting env.tusk. Did you mean 'env.task'?"),
        ({"policy": {"type": "random", "python": "/usr/bin/python3"}}, "leave it out"),
    ],
)
def test_what_cannot_be_checked_is_refused_in_one_line(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        check("sound_benchmark.py:Sound", **options)
    assert words in str(caught.value)


def test_the_simulators_own_interpreter_plays(tmp_path: Path) -> None:
    import sys

    log = tmp_path / "log"
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\necho "$@" >> {log}\nPYTHONPATH=$PYTHONPATH:{SUPPORT} exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    assert failed(check("sound_benchmark.py:Sound", steps=4, env={"python": str(python)})) == []
    started = log.read_text().splitlines()
    assert sum("proctor.engine.child" in line for line in started) == 3
    assert any("proctor.benchmarks.facts" in line for line in started)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1"])
def test_gymnasiums_classics_pass(task: str) -> None:
    results = proctor.check_benchmark("gym", env={"task": task}, steps=8)
    assert [str(result) for result in results if not result.ok] == []
