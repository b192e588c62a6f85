"""A process that stops, whatever it is doing, is noticed and replaced; one that was frozen with all is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness import (
    SUPPORT,
    THOUGHTFUL,
    Digests,
    descendants,
    digests,
    flags,
    role,
    run_tiny,
    start_cli,
    stored,
    tiny_tree,
    wait_until,
)
from proctor.config.load import build_settings
from proctor.config.plain_values import to_plain
from proctor.config.settings import LimitSettings
from proctor.engine.meter import Meter
from proctor.engine.rollout import EpisodeSinks, LocalActor, PolicyView
from proctor.engine.transport import Phase
from proctor.engine.worker import SimulatorCache, play
from proctor.engine.worker_handle import WorkerHandle, WorkerRecipe
from proctor.errors import PolicyHostError, ProctorError
from proctor.identity import benchmark_identity
from proctor.policies.protocol import Policy
from proctor.store.episodes import EpisodeTable
from proctor.store.schema import EpisodeRecord
from proctor.types import Episode, VideoChoice
from tiny import Tiny
from tiny_policies import Thoughtful, aside

POLICIES = SUPPORT / "tiny_policies.py"
FAULTY = f"{POLICIES}:Faulty"


def attempts(directory: Path) -> list[str]:
    """Return why attempts of a run failed."""
    with EpisodeTable(directory / "run.sqlite", read_only=True) as table:
        return [attempt.reason for attempt in table.attempts()]


def notes(directory: Path) -> list[str]:
    """Return what the user was told during a run."""
    with EpisodeTable(directory / "run.sqlite", read_only=True) as table:
        return [note.message for note in table.notes()]


@pytest.fixture
def freed() -> Iterator[list[psutil.Process]]:
    """Processes that are let go on when a test is over, so that none is left stopped."""
    held: list[psutil.Process] = []
    yield held
    for process in held:
        if process.is_running():
            process.send_signal(signal.SIGCONT)


# A policy that hangs.


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Digests:
    """What a policy gives that never comes to hang."""
    policy = {"path": FAULTY, "kwargs": {"how": "hang", "at": 10**9}}
    return digests(run_tiny(tmp_path_factory.mktemp("calm") / "run", policy=policy))


@pytest.mark.parametrize("placement", ["central", "worker"])
def test_a_policy_that_hangs_is_replaced_wherever_it_runs(tmp_path: Path, placement: str, calm: Digests) -> None:
    policy = {"path": FAULTY, "placement": placement}
    arguments: dict[str, Any] = {"how": "hang", "at": 40, "once": aside(tmp_path / "marker")}
    evaluation = run_tiny(tmp_path / "run", policy={**policy, "kwargs": arguments}, limits={"act": 2.0})
    assert evaluation.error is None
    assert (tmp_path / "marker").exists()
    assert digests(evaluation) == calm
    assert {record.status for record in evaluation.records} == {"finished"}


@pytest.mark.parametrize("placement", ["central", "worker"])
def test_a_policy_that_always_hangs_ends_the_run_and_fails_no_episode(tmp_path: Path, placement: str) -> None:
    policy = {"path": FAULTY, "placement": placement, "kwargs": {"how": "hang", "at": 1}}
    evaluation = run_tiny(tmp_path / "run", policy=policy, limits={"act": 1.0}, eval={"max_attempts": 2})
    assert isinstance(evaluation.error, PolicyHostError)
    assert "the policy hangs: act took longer than 1 s (--limits.act)" in str(evaluation.error)
    assert not list(evaluation.records)


@pytest.mark.parametrize("placement", ["central", "worker"])
def test_a_policy_that_kills_its_process_ends_the_run_and_fails_no_episode(tmp_path: Path, placement: str) -> None:
    policy = {"path": FAULTY, "placement": placement, "kwargs": {"how": "kill", "at": 1}}
    evaluation = run_tiny(tmp_path / "run", policy=policy)
    assert isinstance(evaluation.error, PolicyHostError)
    assert "was killed by SIGKILL" in str(evaluation.error)
    assert not list(evaluation.records)


def test_a_live_policy_that_hangs_ends_the_run(tmp_path: Path) -> None:
    from proctor.policies.python import PlainPolicy
    from tiny_policies import Faulty

    evaluation = run_tiny(tmp_path / "run", live=PlainPolicy(Faulty("hang")), limits={"act": 1.0})
    assert isinstance(evaluation.error, PolicyHostError)
    assert "the policy hangs: act took longer than 1 s" in str(evaluation.error)


def test_a_hung_process_says_in_its_log_where_it_hangs(tmp_path: Path) -> None:
    run_tiny(tmp_path / "run", env={"mischief": "step.hang!:a:0:1"}, limits={"step": 1.0})
    assert any("in misbehave" in log.read_text() for log in (tmp_path / "run" / "logs").glob("worker-*.log"))


# A process that was stopped.


def test_a_worker_that_is_stopped_while_it_waits_is_replaced(
    tmp_path: Path, reference: Digests, freed: list[psutil.Process]
) -> None:
    gate, asked = tmp_path / "gate", tmp_path / "asked"
    arguments = {"gate": aside(gate), "asked": aside(asked)}
    policy = {"path": f"{POLICIES}:Patient", "placement": "central", "kwargs": arguments}
    tree = tiny_tree(tmp_path / "run", policy=policy, limits={"respond": 2.0}, eval={"batch_size": 1})
    process = start_cli("eval", *flags(tree))
    wait_until(asked.exists)
    worker = next(one for one in descendants(process.pid) if role(one) == "worker")
    freed.append(worker)
    worker.suspend()
    gate.touch()
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    assert digests(tmp_path / "run") == reference
    assert any("(--limits.respond)" in reason for reason in attempts(tmp_path / "run"))


def test_a_worker_that_is_stopped_while_it_idles_is_noticed_with_its_next_order(
    tmp_path: Path, freed: list[psutil.Process]
) -> None:
    worker = WorkerHandle(0, _recipe(tmp_path), None)
    process = psutil.Process(worker.child.process.pid)
    freed.append(process)
    wait_until(lambda: worker.slot.phase.read()[0] == Phase.IDLE)
    process.suspend()
    limits = LimitSettings(respond=0.5)
    for _ in range(4):
        time.sleep(0.3)
        worker.kill_if_hung(limits)
    assert worker.verdict is None  # it has nothing to do
    worker.give(Episode(_benchmark(tmp_path).tasks()[0], 0, 1000))

    def noticed() -> bool:
        worker.kill_if_hung(limits)
        return worker.verdict is not None

    wait_until(noticed)
    assert "it did not take up what waited for it within 0.5 s (--limits.respond)" in worker.bury().reason


def test_a_host_that_is_stopped_while_it_idles_is_replaced(
    tmp_path: Path, reference: Digests, freed: list[psutil.Process]
) -> None:
    policy = {"path": THOUGHTFUL, "placement": "central"}
    tree = tiny_tree(
        tmp_path / "run",
        n_episodes=2,
        policy=policy,
        limits={"respond": 2.0},
        env={"delay": 0.05},
        eval={"batch_size": 1},
    )
    process = start_cli("eval", *flags(tree))
    wait_until(lambda: stored(tmp_path / "run") > 0)
    host = next(one for one in descendants(process.pid) if role(one) == "host")
    freed.append(host)
    host.suspend()
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    assert digests(tmp_path / "run").items() <= reference.items()
    assert "the policy hangs" in " ".join(notes(tmp_path / "run"))


def test_a_host_that_hangs_before_it_loads_anything_is_told(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *engine.child*) exec sleep 600;; esac\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    with pytest.raises(ProctorError, match=r"start took longer than 1 s \(--limits.start\)"):
        run_tiny(tmp_path / "run", policy={"path": THOUGHTFUL, "python": str(python)}, limits={"start": 1.0})


def test_what_is_filmed_is_finished_under_a_limit(tmp_path: Path) -> None:
    seen: list[Phase] = []
    meter = Meter()

    class Film:
        def wants(self, step: int) -> bool:
            return False

        def add(self, frame: Any) -> None:
            pass

        def finish(self) -> None:
            seen.append(meter.phase)

        def abandon(self) -> None:
            pass

    benchmark, policy = _benchmark(tmp_path), Thoughtful()
    episode = Episode(benchmark.tasks()[0], 0, 1000)
    actor = LocalActor(policy, benchmark.spec.action_size)
    view = PolicyView.of(policy.spec, benchmark.spec)
    record = play(
        SimulatorCache(benchmark, [], meter),
        episode,
        actor,
        view,
        meter,
        EpisodeSinks(Film(), films=VideoChoice(first=1)),
    )
    assert isinstance(record, EpisodeRecord)
    assert seen == [Phase.ENCODE]


def interrupt_twice(process: subprocess.Popen[str]) -> None:
    """Two signals at the same moment are one: the second is sent when the first has arrived."""
    process.send_signal(signal.SIGINT)

    def arrived() -> bool:
        told = Path(f"/proc/{process.pid}/status").read_text()
        pending = [int(line.split()[1], 16) for line in told.splitlines() if line.startswith(("SigPnd", "ShdPnd"))]
        return not any(mask & 1 << signal.SIGINT - 1 for mask in pending)

    wait_until(arrived)
    time.sleep(0.3)  # and Python's own handler has run
    process.send_signal(signal.SIGINT)


def test_a_second_ctrl_c_ends_what_hangs_in_the_process_itself(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    arguments = {"gate": aside(tmp_path / "never"), "asked": aside(asked)}
    policy = {"path": f"{POLICIES}:Patient", "kwargs": arguments}
    process = start_cli("eval", *flags(tiny_tree(tmp_path / "run", policy=policy, eval={"use_async_envs": False})))
    wait_until(asked.exists)
    interrupt_twice(process)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors


def test_a_second_ctrl_c_ends_what_hangs_while_it_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import pathlib, time\n"
        "class Slow:\n"
        "    def __init__(self):\n"
        f"        pathlib.Path({str(tmp_path / 'begun')!r}).touch()\n"
        "        time.sleep(3600)\n"
        "    def act(self, observation): ...\n"
    )
    tree = tiny_tree(tmp_path / "run", policy={"path": f"{tmp_path}/slow.py:Slow"}, eval={"use_async_envs": False})
    process = start_cli("eval", *flags(tree))
    wait_until((tmp_path / "begun").exists)
    interrupt_twice(process)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert not (tmp_path / "run").exists()


# All at once.


def test_whoever_is_frozen_with_all_the_others_is_not_late(
    tmp_path: Path, reference: Digests, freed: list[psutil.Process]
) -> None:
    limits = dict.fromkeys(("step", "act", "respond", "reset"), 4.0)
    tree = tiny_tree(tmp_path / "run", task="a,b", n_episodes=2, limits=limits, env={"delay": 0.1})
    process = start_cli("eval", *flags(tree))
    wait_until(lambda: stored(tmp_path / "run") > 0)
    family = [psutil.Process(process.pid), *descendants(process.pid)]
    freed += family
    for one in family:
        one.suspend()
    time.sleep(5.0)  # longer than any limit: this is what is tested
    family[0].resume()  # the watchdog wakes up first, and sees everybody where they were
    time.sleep(0.5)
    for one in family[1:]:
        one.resume()
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    assert attempts(tmp_path / "run") == []
    assert digests(tmp_path / "run").items() <= reference.items()


# Giving up.


def test_many_workers_that_all_fail_once_are_no_reason_to_give_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.engine.retries.HOPELESS", 3)  # fewer than there are workers
    names = [f"t{number}" for number in range(5)]
    mischief = " ".join(f"step.raise!:{name}:0:1" for name in names)
    evaluation = run_tiny(
        tmp_path / "run",
        task=",".join(names),
        n_episodes=1,
        env={"mischief": mischief, "delay": 0.3, "max_steps": 8},
        eval={"batch_size": 5},
    )
    assert evaluation.error is None
    assert len(evaluation.records) == 5
    assert {record.status for record in evaluation.records} == {"finished"}


def test_a_task_that_always_fails_at_once_does_not_end_a_run_whose_other_task_takes_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.engine.retries.HOPELESS", 3)
    evaluation = run_tiny(
        tmp_path / "run",
        task="a,b",
        n_episodes=2,
        env={"mischief": "build.raise:a:*:*", "delay": 0.2},
        eval={"batch_size": 2},
    )
    assert evaluation.error is None
    assert {record.task: record.status for record in evaluation.records} == {"a": "error", "b": "finished"}


def _benchmark(tmp_path: Path) -> Tiny:
    settings = build_settings(tiny_tree(tmp_path / "run"))
    return Tiny(settings.env)


def _recipe(tmp_path: Path) -> WorkerRecipe:
    settings = build_settings(tiny_tree(tmp_path / "run"))
    benchmark = Tiny(settings.env)
    policy: Policy = Thoughtful()
    name = f"{SUPPORT / 'tiny.py'}:Tiny"
    return WorkerRecipe(
        benchmark=name,
        env=to_plain(settings.env),
        spec=benchmark.spec.to_wire(),
        policy_spec=policy.spec.to_wire(),
        benchmark_identity=benchmark_identity(name, settings.env, benchmark.distributions(), ()),
        policy_identity={},
        logs=tmp_path / "logs",
        environment=dict(os.environ),
    )
