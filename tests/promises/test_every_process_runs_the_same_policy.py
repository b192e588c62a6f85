"""Promise: no episode of a run comes from another policy or benchmark, though files change and processes die.

Files are edited while a run goes on, and a process is killed so that a new one has to load them: the run ends with
status 1 and without one foreign episode. With the files put back, the same command finishes it.
"""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from harness import descendants, role, wait_until
from outside import Scene, assert_one_line, digests, edit, ended, finish, kill, one_of


def undisturbed(tmp_path: Path, policy: str = "Steady") -> dict[tuple[str, int], str]:
    scene = Scene(tmp_path / "undisturbed")
    done = scene.eval(f"--policy.path={scene.policy}:{policy}")
    assert done.returncode == 0, done.stderr
    return digests(scene.run)


@pytest.mark.parametrize(
    ("policy", "placement", "victim", "edited", "what"),
    [
        ("Steady", "central", "host", "policy", "the policy is not what this run began with"),
        ("Plain", "central", "host", "policy", "the policy is not what this run began with"),
        ("Steady", "worker", "worker", "policy", "the policy is not what this run began with"),
        ("Steady", "central", "worker", "benchmark", "the benchmark is not what this run began with"),
    ],
)
def test_a_process_that_starts_later_ends_the_run_rather_than_change_it(
    tmp_path: Path, policy: str, placement: str, victim: str, edited: str, what: str
) -> None:
    expected = undisturbed(tmp_path, policy)
    scene = Scene(tmp_path / "scene")
    flags = (f"--policy.path={scene.policy}:{policy}", f"--policy.placement={placement}")
    file = scene.policy if edited == "policy" else scene.benchmark
    old, new = ("GAIN = 1.0", "GAIN = 3.0") if edited == "policy" else ("> 0.35", "> 0.05")
    process = scene.start(*flags)
    wait_until(lambda: ended(scene.run) > 0)
    edit(file, old, new)
    for child in [one_of(process, victim)] if victim == "host" else workers(process.pid):
        kill(child)
    status, told = finish(process)
    assert status == 1, told
    assert what in told
    assert "--output_dir" in told
    assert_one_line(told)
    kept = digests(scene.run)
    assert 0 < len(kept) < len(expected)
    assert all(expected[key] == digest for key, digest in kept.items())
    edit(file, new, old)
    done = scene.eval(*flags)
    assert done.returncode == 0, done.stderr
    assert digests(scene.run) == expected


def workers(pid: int) -> list[psutil.Process]:
    return [child for child in descendants(pid) if role(child) == "worker"]


def test_a_shard_that_is_started_again_does_not_change_the_run(tmp_path: Path) -> None:
    expected = undisturbed(tmp_path)
    scene = Scene(tmp_path / "scene")
    process = scene.start("--num-shards=2", "--eval.batch_size=1", command="parallel")
    shards = [scene.run / f"shard_{number}_of_2" for number in range(2)]
    wait_until(lambda: all(ended(shard) > 0 for shard in shards))
    edit(scene.policy, "GAIN = 1.0", "GAIN = 3.0")
    victim = next(
        child
        for child in descendants(process.pid)
        if role(child) == "other" and "proctor.parallel" in " ".join(child.cmdline())
    )
    kill(victim)
    status, told = finish(process)
    assert status != 0, told
    assert "policy.fingerprint" in told
    for shard in shards:
        assert all(expected[key] == digest for key, digest in digests(shard).items())
