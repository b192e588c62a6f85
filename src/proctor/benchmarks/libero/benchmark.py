"""LIBERO: 130 language-conditioned manipulation tasks in five suites.

The tasks' names lie in `tasks.json`, so that planning a run needs neither LIBERO nor its files. `make test-libero`
compares them with hf-libero's own.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Literal

from proctor.benchmarks.libero.assets import HOW_TO_GET, fetch_assets, find_assets, fingerprint, package_root
from proctor.benchmarks.libero.cameras import CAMERAS, camera_keys
from proctor.benchmarks.protocol import Benchmark, Simulator
from proctor.config.settings import EXECUTION, AtLeast, EnvSettings, Locates, comma_list
from proctor.errors import UsageError, check_known
from proctor.installation import missing_package
from proctor.types import STATE, BenchmarkSpec, Feature, Task

STATE_SIZE = 8

_MODULES = {
    "libero": "hf-libero", "robosuite": "robosuite", "mujoco": "mujoco", "bddl": "bddl", "termcolor": "termcolor",
    "easydict": "easydict", "cv2": "opencv-python", "gymnasium": "gymnasium", "matplotlib": "matplotlib",
    "cloudpickle": "cloudpickle",
}  # fmt: skip
"""What the simulators import, and what brings it."""


@dataclass(frozen=True, kw_only=True)
class LiberoSettings(EnvSettings):
    """`--env.*` of LIBERO."""

    task: Annotated[
        str, "suite, or a comma list: libero_spatial, libero_object, libero_goal, libero_10, libero_90"
    ] = "libero_10"
    task_ids: Annotated[tuple[int, ...] | None, "numbers of tasks in their suite: 0,3,7 [all]"] = None
    obs_type: Annotated[
        Literal["pixels", "pixels_agent_pos"], "what the policy sees: cameras, or cameras and the arm"
    ] = "pixels_agent_pos"
    camera_name: Annotated[str, "cameras, a comma list; the first is for videos"] = ",".join(CAMERAS)
    camera_name_mapping: Annotated[
        dict[str, str] | None, "other names of pictures, as JSON: {camera: name}, for observation.images.NAME"
    ] = None
    observation_height: Annotated[int, AtLeast(1), "height of every picture"] = 360
    observation_width: Annotated[int, AtLeast(1), "width of every picture"] = 360
    control_mode: Annotated[
        Literal["relative", "absolute"], "whether actions move the hand, or say where it shall be"
    ] = "relative"
    init_states: Annotated[bool, "start from LIBERO's fixed initial states; false: from the seed alone"] = True
    episode_length: Annotated[int | None, AtLeast(1), "step limit [280 to 520, by the suite]"] = None
    assets_path: Annotated[
        str | None,
        Locates("folder"),
        EXECUTION,
        "directory with LIBERO's meshes and textures [found, or downloaded]",
    ] = None


class Libero(Benchmark):
    """130 manipulation tasks given in words, in five suites; a task's id is its number in its suite."""

    Settings = LiberoSettings
    fps = 20
    uses_gl = True
    fetches = True

    settings: LiberoSettings

    @cached_property
    def spec(self) -> BenchmarkSpec:
        """A picture per camera, and the arm's state where it is asked for."""
        s = self.settings
        picture = Feature((s.observation_height, s.observation_width, 3), "uint8", drawn=True)
        state = {STATE: Feature((STATE_SIZE,), "float32")}
        features = dict.fromkeys(self.cameras.values(), picture)
        return BenchmarkSpec(
            name="libero",
            features=features | state if s.obs_type == "pixels_agent_pos" else features,
            action_size=7,
            privileged=state,
            clips_actions=s.control_mode == "relative",  # an absolute one is a pose, taken as it is
        )

    @cached_property
    def cameras(self) -> dict[str, str]:
        """The observation key of each camera, in the order of the settings."""
        return camera_keys(self.settings.camera_name, self.settings.camera_name_mapping)

    def tasks(self) -> Sequence[Task]:
        """Return the chosen tasks of every suite that is named."""
        names = comma_list(self.settings.task)
        if not names:
            raise UsageError(f"--env.task is missing: name suites ({', '.join(MAX_STEPS)}).")
        check_known("env.task", names, MAX_STEPS)
        return [task for name in names for task in self._suite(name)]

    def catalogue(self) -> Mapping[str, Sequence[Task]]:
        """Return every suite with all its tasks."""
        whole = Libero(replace(self.settings, task=",".join(MAX_STEPS), task_ids=None)).tasks()
        return {suite: [task for task in whole if task.group == suite] for suite in MAX_STEPS}

    def _suite(self, suite: str) -> list[Task]:
        names = suites()[suite]
        chosen = self.settings.task_ids
        for task_id in chosen or ():
            if not 0 <= task_id < len(names):
                raise UsageError(f"--env.task_ids={task_id}: {suite} has tasks 0 to {len(names) - 1}.")
        return [
            Task(
                suite,
                task_id,
                names[task_id],
                prompt(names[task_id]),
                self.settings.episode_length or MAX_STEPS[suite],
                initial_states=INITIAL_STATES if self.settings.init_states else None,
            )
            for task_id in (range(len(names)) if chosen is None else sorted(set(chosen)))
        ]

    def make_simulator(self, task: Task) -> Simulator:
        """Import LIBERO, here and not before, and build the task."""
        from proctor.benchmarks.libero.simulator import LiberoSimulator

        return LiberoSimulator(task, self.settings, self.cameras)

    def distributions(self) -> Sequence[str]:
        """MuJoCo versions change every trajectory bitwise, and so may what compiles the controllers' maths."""
        return ("hf-libero", "robosuite", "mujoco", "numpy", "numba", "scipy")

    def check_installed(self) -> None:
        """Say how to get LIBERO if it is not there."""
        package_root()
        for module, distribution in _MODULES.items():
            if importlib.util.find_spec(module) is None:
                raise missing_package("--env.type=libero", distribution, "libero")

    def fetch(self) -> None:
        """Download the meshes and textures if they are nowhere on this machine."""
        if find_assets(self.settings.assets_path) is None:
            fetch_assets()

    def fingerprints(self) -> Mapping[str, str]:
        """Meshes decide contacts and pictures, and have no version of their own."""
        root = find_assets(self.settings.assets_path)
        if root is None:
            raise UsageError(f"LIBERO's assets are not on this machine. {HOW_TO_GET}")
        return {"libero-assets": fingerprint(root)}


MAX_STEPS = {
    "libero_spatial": 280,
    "libero_object": 280,
    "libero_goal": 300,
    "libero_10": 520,
    "libero_90": 400,
}
"""LeRobot's step limits; LIBERO itself has none. Its keys are the suites."""

INITIAL_STATES = 50
"""How many fixed initial states every task has."""

_SCENE = re.compile(r"[A-Z_]+_SCENE\d+_")


@cache
def suites() -> dict[str, tuple[str, ...]]:
    """Return the tasks of every suite; a task's place is its id."""
    names = json.loads(Path(__file__).with_name("tasks.json").read_text(encoding="utf-8"))
    return {suite: tuple(tasks) for suite, tasks in names.items()}


def prompt(task: str) -> str:
    """Return the words for a task: its name without the scene, as LIBERO and LeRobot have them.

    >>> prompt("KITCHEN_SCENE10_close_the_top_drawer_of_the_cabinet")
    'close the top drawer of the cabinet'
    """
    return _SCENE.sub("", task, count=1).replace("_", " ")
