"""Quick environments are used only where they are known to be Meta-World's own; else Meta-World's own are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import proctor
from harness import digests
from proctor.benchmarks.metaworld import environments, exact
from proctor.benchmarks.metaworld.environments import (
    PROVED,
    environment_class,
    nearest_proved,
    stock_class,
    why_stock,
)
from proctor.machine.versions import installed_versions


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    """A process asks once; here each test asks again."""

    def forget() -> None:
        why_stock.cache_clear()
        environments._with_these_sources.cache_clear()
        environments._arithmetic_agrees.cache_clear()

    forget()
    yield
    forget()


def is_quick() -> bool:
    return environment_class("reach-v3") is not stock_class("reach-v3")


def test_the_proved_versions_have_quick_environments() -> None:
    """These tests run with each of them: the first by `make test`, the second by `make test-lerobot`."""
    versions = installed_versions(["metaworld", "mujoco"])
    assert (versions["metaworld"], versions["mujoco"]) in {pair[:2] for pair in PROVED}
    assert why_stock() == ""
    assert is_quick()
    assert nearest_proved().packages == f"metaworld=={versions['metaworld']} mujoco=={versions['mujoco']}"


def test_the_mujoco_of_another_proved_pair_has_meta_worlds_own(monkeypatch: pytest.MonkeyPatch) -> None:
    here = nearest_proved()
    other = next(pair.mujoco for pair in PROVED if pair != here)
    monkeypatch.setattr(environments, "installed_versions", lambda names: {"mujoco": other})
    assert why_stock() == f"mujoco is {other}, not {here.mujoco}"
    assert not is_quick()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ("metaworld/sawyer_xyz_env.py", "metaworld's source"),
        ("metaworld/utils/reward_utils.py", "metaworld's source"),
        ("metaworld/envs/sawyer_reach_v3.py", "metaworld's source"),
        ("metaworld/envs/another.py", "metaworld's source"),
        ("gymnasium/envs/mujoco/mujoco_env.py", "gymnasium's MujocoEnv"),
    ],
)
def test_one_changed_line_of_what_the_quick_ones_repeat_brings_meta_worlds_own_back(
    changed: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("metaworld", "gymnasium"):
        for source in environments._folder(package).rglob("*.py"):
            copy = tmp_path / package / source.relative_to(environments._folder(package))
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes().replace(b"\n", b"\r\n"))  # how lines end does not matter
    monkeypatch.setattr(environments, "_folder", lambda package: tmp_path / package)
    assert is_quick()
    with (tmp_path / changed).open("a") as file:
        file.write("TARGET_RADIUS = 0.06\n")
    why_stock.cache_clear()
    environments._with_these_sources.cache_clear()
    assert why_stock().startswith(reason)
    assert not is_quick()
    assert nearest_proved() in PROVED


def test_arithmetic_that_differs_on_this_machine_brings_meta_worlds_own_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert is_quick()
    environments._arithmetic_agrees.cache_clear()
    one_bit = exact.bits(1.0), exact.bits(1.0 + 2**-52)
    monkeypatch.setattr(exact, "trial", lambda: iter([(one_bit[0], one_bit[0]), one_bit]))
    assert not is_quick()


def test_both_kinds_of_environments_give_one_run(tmp_path: Path) -> None:
    """So a run may be continued with the other kind."""
    for directory, n_episodes, stock in (("half", 1, True), ("half", 2, False), ("whole", 2, True)):
        proctor.evaluate(
            "expert", task="reach-v3,door-open-v3", n_episodes=n_episodes, output_dir=tmp_path / directory,
            display="none", env={"obs_type": "state", "stock": stock},
        )  # fmt: skip
    assert digests(tmp_path / "half") == digests(tmp_path / "whole")
    assert len(digests(tmp_path / "whole")) == 4
