"""Promise: no episode of a run comes from another policy or benchmark, though files change and processes die.

Files are edited while a run goes on, and a process is killed so that a new one has to load them: the run ends with
status 1 and without one foreign episode. With the files put back, the same command finishes it.
"""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from cases import crossed
from harness import descendants, role, wait_until
from outside import Scene, assert_one_line, digests, edit, ended, finish, kill, one_of


def undisturbed(tmp_path: Path, policy: str = "Steady") -> dict[tuple[str, int], str]:
    scene = Scene(tmp_path / "undisturbed")
    done = scene.eval(f"--policy.path={scene.policy}:{policy}")
    assert done.returncode == 0, done.stderr
    return digests(scene.run)


@pytest.mark.sampled(1)
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


@pytest.mark.slow
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
        if role(child) == "other" and "proctor.cli.child" in " ".join(child.cmdline())
    )
    kill(victim)
    status, told = finish(process)
    assert status != 0, told
    assert "policy.fingerprint" in told
    for shard in shards:
        assert all(expected[key] == digest for key, digest in digests(shard).items())


LATE = """
import time
from pathlib import Path
import numpy as np

class Late:
    def __init__(self, weights):
        self.weights = weights

    def act(self, observation):
        Path(__file__).with_name("asked").touch()
        while not Path(__file__).with_name("go").exists():
            time.sleep(0.01)
        import late_gain
        return np.full(2, late_gain.GAIN * float(Path(self.weights).read_text()))
"""


@pytest.mark.parametrize(("name", "placement"), crossed(["late_gain.py", "weights.txt"], ["central", "worker"]))
def test_what_a_policy_reads_only_at_its_first_question_is_proved_then(
    tmp_path: Path, placement: str, name: str
) -> None:
    scene = Scene(tmp_path / "scene")
    scene.policy.write_text(LATE)
    (scene.folder / "late_gain.py").write_text("GAIN = 1.0\n")
    (scene.folder / "weights.txt").write_text("1.0")
    late = (f"--policy.path={scene.policy}:Late", f"--policy.kwargs.weights={scene.folder / 'weights.txt'}")
    process = scene.start(*late, f"--policy.placement={placement}")
    wait_until((scene.folder / "asked").exists)
    edit(scene.folder / name, "1.0", "3.0")
    (scene.folder / "go").touch()
    status, told = finish(process)
    assert status == 1, told
    assert "the policy is not what this run began with" in told
    assert digests(scene.run) == {}
    edit(scene.folder / name, "3.0", "1.0")
    done = scene.eval(*late)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_simulator_that_is_imported_late_is_proved_then(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "scene")
    (scene.folder / "late_goal.py").write_text("GOAL = 0.35\n")
    gate = """
        if task.name == "b":
            (Path(__file__).with_name("asked")).touch()
            while not Path(__file__).with_name("go").exists():
                time.sleep(0.01)
            import late_goal
            self._goal = late_goal.GOAL
"""
    edit(
        scene.benchmark,
        "NO_LOOK\n        self._poison = False\n",
        f"NO_LOOK\n        self._poison = False\n{gate}",
    )
    process = scene.start("--eval.batch_size=1", "--env.max_parallel_tasks=1")
    wait_until((scene.folder / "asked").exists)
    edit(scene.folder / "late_goal.py", "0.35", "0.05")
    (scene.folder / "go").touch()
    status, told = finish(process)
    assert status == 1, told
    assert "the benchmark is not what this run began with" in told
    assert not any(task == "b" for task, _ in digests(scene.run))


def test_a_policy_may_look_for_its_modules_where_it_likes(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "scene")
    (scene.folder / "lib").mkdir()
    (scene.folder / "lib" / "hidden_gain.py").write_text("LOW = 1.0\n")
    look = "import sys, os\nsys.path.insert(0, os.path.dirname(__file__) + '/lib')\n"
    edit(scene.policy, "GAIN = 1.0", f"{look}from hidden_gain import LOW as GAIN")
    done = scene.eval("--eval.n_episodes=2")
    assert done.returncode == 0, done.stderr
    edit(scene.folder / "lib" / "hidden_gain.py", "1.0", "3.0")
    assert scene.eval().returncode == 2
