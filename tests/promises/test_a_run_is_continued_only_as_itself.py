"""Promise: a run directory is continued by what it began with, and by nothing else.

Whatever can change what an episode yields is refused with status 2, and whatever cannot is not: where files lie,
how tasks are spelled, how many workers there are.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from outside import Scene, assert_one_line, digests, edit, result

OWN_SETTINGS = """
from dataclasses import dataclass
from typing import Annotated
from proctor import PolicySettings
from proctor.config.settings import EXECUTION

@dataclass(frozen=True, kw_only=True)
class OwnSettings(PolicySettings):
    gain: float = 1.0
    colour: Annotated[str, EXECUTION, "of the log"] = "red"

class Own(Steady):
    Settings = OwnSettings

    @classmethod
    def from_settings(cls, settings, benchmark):
        global GAIN
        GAIN = settings.gain
        return cls()
"""

GYM = """
import gymnasium, numpy as np

class Slope(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-9, 9, (3,), np.float64)
    action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float64)
    PULL = 0.25

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.normal(size=3)
        return self.state, {"is_success": False}

    def step(self, action):
        self.state = 0.9 * self.state + self.PULL * np.r_[action, 0.0]
        return self.state, 0.0, False, False, {"is_success": bool(self.state[0] > 0.3)}

gymnasium.register("Slope-v0", Slope, max_episode_steps=20)
"""


BEGIN = ("--eval.n_episodes=3",)
"""Three episodes a task, which more episodes would extend."""


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A run that goes on in no test: each takes a copy."""
    scene = Scene(tmp_path_factory.mktemp("begun") / "scene")
    done = scene.eval(*BEGIN)
    assert done.returncode == 0, done.stderr
    return scene


@pytest.fixture
def scene(begun: Scene, tmp_path: Path) -> Scene:
    """The same in a folder of the test's own."""
    return begun.copied(tmp_path / "scene")


def refused(scene: Scene, name: str, *more: str, **environment: str) -> str:
    before = digests(scene.run)
    done = scene.eval(*more, **environment)
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert name in done.stderr
    assert_one_line(done.stderr)
    assert digests(scene.run) == before
    return done.stderr


def continued(scene: Scene, *more: str, **environment: str) -> None:
    done = scene.eval("--eval.batch_size=2", *more, **environment)  # with another number of workers
    assert done.returncode == 0, done.stderr
    assert len(digests(scene.run)) == 12


def test_the_same_command_continues(scene: Scene) -> None:
    continued(scene)


def test_a_policys_own_setting_may_not_change_though_its_fingerprint_is_fixed(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "scene")
    scene.policy.write_text(scene.policy.read_text() + OWN_SETTINGS)
    own = (f"--policy.type={scene.policy}:Own", "--policy.path=none")
    assert scene.eval(*own, *BEGIN, "--policy.gain=1").returncode == 0
    refused(scene, "policy.gain: the run has 1.0, this command gives 2.0", *own, "--policy.gain=2")
    continued(scene, *own, "--policy.gain=1", "--policy.colour=blue")


def test_a_policy_whose_class_was_edited_is_refused_though_its_fingerprint_is_fixed(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "scene")
    scene.policy.write_text(scene.policy.read_text() + OWN_SETTINGS)
    own = (f"--policy.type={scene.policy}:Own", "--policy.path=none")
    assert scene.eval(*own, *BEGIN).returncode == 0
    edit(scene.policy, "return Actions(", "return  Actions(")
    refused(scene, "policy.source", *own)


def test_an_edited_policy_is_refused(scene: Scene) -> None:
    edit(scene.policy, "GAIN = 1.0", "GAIN = 1.5")
    refused(scene, "policy.fingerprint")


def test_an_edited_benchmark_is_refused(scene: Scene) -> None:
    edit(scene.benchmark, "> 0.35", "> 0.30")
    refused(scene, "env.source")


def test_unchanged_files_in_another_folder_continue(scene: Scene) -> None:
    continued(scene.moved("elsewhere"))


def test_a_module_beside_the_policy_is_part_of_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "scene")
    beside = scene.folder / "gains.py"
    beside.write_text("LOW = 1.0\n")
    edit(scene.policy, "GAIN = 1.0", "from gains import LOW as GAIN")
    assert scene.eval(*BEGIN).returncode == 0
    shutil.copy(beside, tmp_path / "kept")
    beside.write_text("LOW = 3.0\n")
    refused(scene, "policy.fingerprint")
    shutil.copy(tmp_path / "kept", beside)
    continued(scene)


def test_a_module_beside_the_benchmark_is_part_of_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "scene")
    beside = scene.folder / "goals.py"
    beside.write_text("GOAL = 0.35\n")
    edit(scene.benchmark, "bool(self._state[0] > 0.35)", "bool(self._state[0] > __import__('goals').GOAL)")
    edit(scene.benchmark, "import numpy as np\n", "import numpy as np\nimport goals\n")
    assert scene.eval(*BEGIN).returncode == 0
    beside.write_text("GOAL = 0.1\n")
    refused(scene, "env.source")


def test_an_edited_gymnasium_environment_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "scene")
    (scene.folder / "slope_env.py").write_text(GYM)
    gym = ("--env.type=gym", "--env.task=Slope-v0", "--env.package=slope_env")
    path = {"PYTHONPATH": os.pathsep.join([str(scene.folder), os.environ.get("PYTHONPATH", "")])}
    done = scene.eval(*gym, *BEGIN, **path)
    assert done.returncode == 0, done.stderr
    edit(scene.folder / "slope_env.py", "PULL = 0.25", "PULL = 0.75")
    refused(scene, "env.modules.slope_env", *gym, **path)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("nest", [lambda p: p, lambda p: f"[{p}]", lambda p: f"{{deep: [{{er: {p}}}]}}"])
def test_files_named_anywhere_in_a_policys_arguments_count_by_content(
    tmp_path: Path, nest: Callable[[str], str]
) -> None:
    scene = Scene(tmp_path / "scene")
    edit(scene.policy, "class Plain:", "class Plain:\n    def __init__(self, weights): pass\n")
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"trained")
    plain = f"--policy.path={scene.policy}:Plain"
    done = scene.eval(plain, f"--policy.kwargs.weights={nest(str(weights))}", *BEGIN)
    assert done.returncode == 0, done.stderr
    weights.write_bytes(b"trained more")
    refused(scene, "policy.kwargs", plain, f"--policy.kwargs.weights={nest(str(weights))}")
    moved = tmp_path / "moved.bin"
    moved.write_bytes(b"trained")
    continued(scene, plain, f"--policy.kwargs.weights={nest(str(moved))}")


def test_another_way_of_computing_is_refused(scene: Scene) -> None:
    ways = {
        "NPY_DISABLE_CPU_FEATURES": "AVX512F",
        # The machine may have one of its own.
        "OPENBLAS_CORETYPE": "Nehalem" if os.environ.get("OPENBLAS_CORETYPE") == "Haswell" else "Haswell",
        "MKL_CBWR": "COMPATIBLE",
        "ATEN_CPU_CAPABILITY": "default",
    }
    told = refused(scene, "machine.environment.", **ways)
    for name, value in ways.items():
        before = repr(os.environ.get(name))
        assert f"machine.environment.{name}: the run has {before}, this command gives '{value}'" in told


def test_a_directory_among_a_policys_arguments_counts_whatever_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path / "scene")
    edit(scene.policy, "class Plain:", "class Plain:\n    def __init__(self, weights): pass\n")
    monkeypatch.chdir(scene.folder)
    (scene.folder / "trained").mkdir()
    (scene.folder / "trained" / "w").write_text("1")
    flags = (f"--policy.path={scene.policy}:Plain", "--policy.kwargs.weights=trained")
    assert scene.eval(*flags, *BEGIN).returncode == 0
    (scene.folder / "trained" / "w").write_text("2")
    refused(scene, "policy.kwargs.weights", *flags)


@pytest.mark.slow
def test_assertions_run_or_not_whatever_the_environment_says(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "scene")
    edit(scene.policy, "GAIN = 1.0", "GAIN = 1.0 if __debug__ else 3.0")
    for number, way in enumerate(("--policy.placement=central", "--eval.use_async_envs=false")):
        found = []
        for optimize in ("", "1"):
            run = Path(f"{scene.run}-{number}-{optimize}")
            done = scene.eval(way, f"--output_dir={run}", "--eval.n_episodes=2", PYTHONOPTIMIZE=optimize)
            assert done.returncode == 0, done.stderr
            found.append(digests(run))
        assert found[0] == found[1]


def test_tasks_count_and_not_how_they_are_spelled(tmp_path: Path) -> None:
    fresh = Scene(tmp_path / "fresh")
    edit(fresh.benchmark, 'split(",")', 'replace(" ", "").split(",")')
    assert fresh.eval(*BEGIN).returncode == 0
    refused(fresh, "tasks", "--env.task=b,a")
    continued(fresh, "--env.task=a, b")


@pytest.mark.slow
def test_what_an_episode_yields_does_not_depend_on_the_order_of_sets(tmp_path: Path) -> None:
    found = []
    for seed in ("1", "2", "random"):
        scene = Scene(tmp_path / seed)
        edit(scene.policy, "GAIN = 1.0", 'GAIN = float(list({f"word {i}" for i in range(50)})[0].split()[1])')
        for number, way in enumerate(("--policy.placement=central", "--eval.use_async_envs=false")):
            done = scene.eval(way, f"--output_dir={scene.run}-{number}", PYTHONHASHSEED=seed)
            assert done.returncode == 0, done.stderr
            found.append(digests(Path(f"{scene.run}-{number}")))
    assert all(one == found[0] for one in found[1:])


def test_a_run_tells_the_versions_and_the_machine_that_it_depends_on(scene: Scene) -> None:
    identity = result(scene.run)["run"]["identity"]
    for place in (identity["versions"], identity["policy"]["versions"]):
        assert {"proctor", "python", "numpy", "libc"} <= set(place)
    assert identity["machine"]["cpu"]
    assert identity["machine"]["cpu_features"]
    assert identity["machine"]["hash_seed"] == "0"
