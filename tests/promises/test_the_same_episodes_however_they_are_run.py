"""Promise: what an episode yields does not depend on how the run was run.

Not on the number of workers, the placement of the policy, shards, videos, recording, the order of arrival, or on
whether there are processes at all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import run_cli
from outside import Scene, digests, edit, result

WAYS = {
    "five workers": ["--eval.batch_size=5"],
    "in the workers": ["--policy.placement=worker", "--eval.batch_size=3"],
    "no processes": ["--eval.use_async_envs=false"],
    "two workers": ["--eval.batch_size=2"],
    "videos": ["--eval.max_episodes_rendered=2"],
    "recorded": ["--eval.recording=true"],
    "fresh workers": ["--eval.recycle_after=1"],
    "one task at a time": ["--env.max_parallel_tasks=1"],
    "slowly": ["--env.delay=0.001"],
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], str]:
    scene = Scene(tmp_path_factory.mktemp("reference") / "scene")
    done = scene.eval()
    assert done.returncode == 0, done.stderr
    found = digests(scene.run)
    assert len(set(found.values())) == 12  # no two episodes are alike
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", WAYS)
def test_a_way_to_run_changes_nothing(tmp_path: Path, expected: dict[tuple[str, int], str], way: str) -> None:
    scene = Scene(tmp_path / "scene")
    done = scene.eval(*WAYS[way])
    assert done.returncode == 0, done.stderr
    assert digests(scene.run) == expected


@pytest.mark.slow  # tests/engine/test_merging.py has it, and tests/reference
def test_shards_and_their_merge_are_the_one_run(tmp_path: Path, expected: dict[tuple[str, int], str]) -> None:
    scene = Scene(tmp_path / "scene")
    for number in (2, 0, 1):
        done = scene.eval("--eval.num_shards=3", f"--eval.shard_id={number}")
        assert done.returncode == 0, done.stderr
    done = run_cli("merge", str(scene.run))
    assert done.returncode == 0, done.stderr
    assert digests(scene.run) == expected
    assert result(scene.run)["run"]["complete"]


@pytest.mark.slow  # tests/engine/test_determinism.py has it, and tests/reference
def test_more_episodes_later_are_those_of_a_longer_run(
    tmp_path: Path, expected: dict[tuple[str, int], str]
) -> None:
    scene = Scene(tmp_path / "scene")
    for episodes in (1, 4, 6):
        assert scene.eval(f"--eval.n_episodes={episodes}").returncode == 0
    assert digests(scene.run) == expected


@pytest.mark.slow  # tests/engine/test_determinism.py has it
def test_another_seed_is_another_run(tmp_path: Path, expected: dict[tuple[str, int], str]) -> None:
    scene = Scene(tmp_path / "scene")
    assert scene.eval("--seed=7").returncode == 0
    assert not set(digests(scene.run).values()) & set(expected.values())


SCRIBBLER = """
class Scribbler:
    def act(self, observation):
        observation["observation.state"] -= 1.0  # its own business
        return observation["observation.state"][:2]
"""


def test_a_policy_may_write_into_what_it_is_shown(tmp_path: Path) -> None:
    found = []
    ways = ("--policy.placement=central", "--policy.placement=worker", "--eval.use_async_envs=false")
    for number, way in enumerate(ways):
        scene = Scene(tmp_path / str(number))
        scene.policy.write_text(SCRIBBLER)
        # It keeps its contract: nobody but itself writes to what it gave away.
        edit(scene.benchmark, "self._state.copy()", "self._state")
        done = scene.eval(way, f"--policy.path={scene.policy}:Scribbler")
        assert done.returncode == 0, done.stderr
        found.append(digests(scene.run))
    assert found[0] == found[1] == found[2]
