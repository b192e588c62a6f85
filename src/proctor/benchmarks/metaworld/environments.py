"""Which environments are run: quick ones where these are known to be Meta-World's own, bit for bit, else its own.

The quick ones (`quick_env.py`) repeat what certain sources say, so they are used with exactly these sources, and
with the MuJoCo for which they were proved to yield the same. What NumPy and SciPy compute may differ with their
version and with the processor: that is tried once in every process. Wherever anything differs, Meta-World's own
environments run, and yield the same more slowly.
"""

from __future__ import annotations

import hashlib
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from proctor.machine.versions import installed_versions


class Proved(NamedTuple):
    """Versions with which tests of this repository prove the quick environments equal on all fifty tasks.

    `sources` is the SHA-256 of Meta-World's base class, reward functions and tasks, together.
    """

    metaworld: str
    mujoco: str
    sources: str

    @property
    def packages(self) -> str:
        """What to ask pip for."""
        return f"metaworld=={self.metaworld} mujoco=={self.mujoco}"


PROVED = (
    Proved("3.1.1", "3.3.0", "ed927283a1d9f00329bde91ac038c06a0d92cbd47414fd83ee2b0d1a49327b6c"),
    # What LeRobot's users have: its 0.6 asks for this Meta-World, which the MuJoCo of 2026 breaks.
    Proved("3.0.0", "3.8.1", "000e409e95fcbc92c359d349da5c80c84fbfd8c2ec9df05fd8fc6f0e133b6250"),
)
"""The first is what Proctor installs."""

_GYMNASIUM = {
    "1aef55fa320260143da79ed5ceb170f539de30606187520a7a51a4f704c95924": "1.1.1",
    "879f6dad1197797dd7fa9e0cddfe8ac6d31562beb2d301f928c969087405d743": "1.2.0 to 1.2.3",
    "665f3d68d86e8212361f67eb4d36bde247b2411c8f9dff34bfadeba9d923ce82": "1.3.0",
    "77e8205c380d8e0d7dc68f6ad136cf192f07c061cd3f00eeebfac8414c71bc49": "1.4.0",
}
"""Versions of Gymnasium by the SHA-256 of their `MujocoEnv`. In all of them simulation and reset are the same."""


def environment_class(task: str) -> Any:
    """Import Meta-World and return the class to build a task's environment from."""
    stock = stock_class(task)
    if why_stock() or not _arithmetic_agrees():
        return stock
    from proctor.benchmarks.metaworld.quick_env import quick_class

    return quick_class(stock)


def stock_class(task: str) -> Any:
    """Return Meta-World's own class for a task."""
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS

    return ALL_V3_ENVIRONMENTS[task]


@cache
def why_stock() -> str:
    """Say why Meta-World's own environments have to be run; empty if nothing speaks for them. Imports nothing."""
    proved = _with_these_sources()
    if proved is None:
        return f"metaworld's source is not that of {' or '.join(pair.metaworld for pair in PROVED)}"
    mujoco = installed_versions(["mujoco"])["mujoco"]
    if mujoco != proved.mujoco:
        return f"mujoco is {mujoco}, not {proved.mujoco}"
    if _sha256(_folder("gymnasium") / "envs" / "mujoco" / "mujoco_env.py") not in _GYMNASIUM:
        return "gymnasium's MujocoEnv is of an unknown version"
    return ""


def nearest_proved() -> Proved:
    """Return the versions to install for quick environments, for the Meta-World that is there if it has some."""
    return _with_these_sources() or PROVED[0]


@cache
def _with_these_sources() -> Proved | None:
    package = _folder("metaworld")
    sources = [package / "sawyer_xyz_env.py", package / "utils" / "reward_utils.py"]
    digest = _sha256(*sources, *sorted((package / "envs").glob("*.py")))
    return next((pair for pair in PROVED if pair.sources == digest), None)


@cache
def _arithmetic_agrees() -> bool:
    """Whether the quick functions compute what NumPy's, SciPy's and Meta-World's do here, on chosen inputs."""
    try:
        from proctor.benchmarks.metaworld.exact import trial
    except (ImportError, AttributeError):  # a NumPy without the names that they are made of
        return False
    return all(ours == original for ours, original in trial())


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _sha256(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        try:
            # Lines end as on any machine.
            digest.update(file.read_bytes().replace(b"\r\n", b"\n"))
        except OSError:
            return ""
    return digest.hexdigest()
