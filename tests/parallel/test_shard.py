"""A shard's silence counts only where it owes words, and only in time that its launcher was awake."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from proctor.engine import watchdog
from proctor.parallel.shard import ShardProcess, ShardRecipe
from proctor.plan import make_plan
from proctor.store.run_directory import RunDirectory

PROGRESS = {"event": "progress", "steps": 1, "busy": 1, "workers": 1, "running": []}
SAYS = """#!/bin/sh
printf '%s\\n' "$WORDS"
exec sleep 3600
"""


class Clock:
    """The launcher's clock, and its looks at a shard."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = 100.0
        monkeypatch.setattr(watchdog, "now", lambda: self.time)

    def watch(self, shard: ShardProcess, seconds: float) -> None:
        for _ in range(round(4 * seconds)):
            self.time += 0.25
            shard.kill_if_still(60.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def shard(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ShardProcess]:
    """A process that says the lines it is given, and then nothing for ever."""
    program = tmp_path / "shard"
    program.write_text(SAYS)
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    words = {"WORDS": "\n".join(map(json.dumps, request.param))}
    recipe = ShardRecipe("shard_0_of_1", RunDirectory(tmp_path), make_plan([], 1, 0), [], words, tmp_path / "log")
    shard = ShardProcess(recipe)
    heard = 0
    while heard < len(request.param):
        heard += len(shard.listen())
    yield shard
    shard.kill()
    shard.reap()


@pytest.mark.parametrize("shard", [[PROGRESS]], indirect=True)
def test_silence_in_its_loop_ends_it_in_words(shard: ShardProcess, clock: Clock) -> None:
    clock.watch(shard, 59.0)
    assert shard.process.poll() is None
    clock.watch(shard, 3.0)
    assert shard.process.wait(10) == -signal.SIGKILL
    assert shard.describe_end(-9) == "said nothing for longer than 60 s (--limits.respond)"


@pytest.mark.parametrize("shard", [[PROGRESS]], indirect=True)
def test_time_that_the_launcher_slept_through_does_not_count(shard: ShardProcess, clock: Clock) -> None:
    clock.watch(shard, 30.0)
    clock.time += 3600.0
    clock.watch(shard, 20.0)
    assert shard.process.poll() is None


@pytest.mark.parametrize(
    "shard",
    [[{"event": "note", "message": "loading"}], [PROGRESS, {"event": "end"}]],
    ids=["it_loads", "it_writes_its_result"],
    indirect=True,
)
def test_before_and_after_its_loop_it_may_be_silent(shard: ShardProcess, clock: Clock) -> None:
    clock.watch(shard, 600.0)
    assert shard.process.poll() is None
