"""`--rename_map`: a policy that knows the benchmark's observations by other names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import SUPPORT, Digests, digests, run_cli, run_tiny
from proctor.errors import IdentityError, UsageError

RENAMED: dict[str, Any] = {"policy": {"path": f"{SUPPORT / 'tiny_policies.py'}:Renamed"}}
MAP = {"observation.state": "robot/state", "observation.image": "robot/image"}


@pytest.mark.parametrize("placement", ["central", "worker"])
def test_only_the_names_change(tmp_path: Path, reference: Digests, placement: str) -> None:
    policy = {**RENAMED["policy"], "placement": placement}
    evaluation = run_tiny(tmp_path / "run", policy=policy, rename_map=MAP)
    assert evaluation.error is None
    assert digests(evaluation) == reference


def test_everything_in_one_process(tmp_path: Path, reference: Digests) -> None:
    evaluation = run_tiny(tmp_path / "run", **RENAMED, rename_map=MAP, eval={"use_async_envs": False})
    assert digests(evaluation) == reference


def test_without_it_such_a_policy_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="looks at robot/image, robot/state, which tiny does not give"):
        run_tiny(tmp_path / "run", **RENAMED)


def test_an_observation_that_the_benchmark_does_not_give(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--rename_map: tiny gives no observation\.depth"):
        run_tiny(tmp_path / "run", rename_map={"observation.depth": "depth"})


def test_two_observations_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the same name"):
        run_tiny(tmp_path / "run", rename_map={"observation.state": "observation.image"})


def test_it_is_part_of_a_runs_identity(tmp_path: Path) -> None:
    run_tiny(tmp_path / "run", **RENAMED, rename_map=MAP, n_episodes=1)
    with pytest.raises(IdentityError, match="rename_map"):
        run_tiny(tmp_path / "run", n_episodes=1)


def test_as_a_flag_it_is_json(tmp_path: Path) -> None:
    done = run_cli(
        "eval", "--policy.type=zero", "--env.type=metaworld", "--env.task=reach-v3",
        '--rename_map={"observation.nothing": "x"}', f"--output_dir={tmp_path / 'run'}",
    )  # fmt: skip
    assert done.returncode == 2
    assert "metaworld gives no observation.nothing" in done.stderr
