"""Meta-World: fifty manipulation tasks for one robot arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from proctor.benchmarks.metaworld.cameras import CameraName
from proctor.benchmarks.metaworld.tasks import GROUPS, MAX_STEPS, MT10, MT50, load_prompts
from proctor.benchmarks.protocol import Benchmark, Simulator
from proctor.config.settings import EXECUTION, AtLeast, EnvSettings, comma_list
from proctor.errors import UsageError, check_known
from proctor.installation import require
from proctor.types import ENVIRONMENT_STATE, IMAGE, STATE, BenchmarkSpec, Feature, Task

_REFUSES = "1.1.0"
"""The only Gymnasium that wants four render modes of a MuJoCo environment; Meta-World's have three."""

TASK_ONE_HOT = "observation.task_one_hot"


@dataclass(frozen=True, kw_only=True)
class MetaWorldSettings(EnvSettings):
    """`--env.*` of Meta-World."""

    obs_type: Annotated[
        Literal["state", "pixels", "pixels_agent_pos"],
        "what the policy sees: numbers, a camera, or a camera and the arm",
    ] = "pixels_agent_pos"
    camera_name: Annotated[CameraName, "camera; corner2 is placed and turned as in LeRobot"] = "corner2"
    observation_height: Annotated[int, AtLeast(1), "height of the policy's image"] = 480
    observation_width: Annotated[int, AtLeast(1), "width of the policy's image"] = 480
    visualization_height: Annotated[int, AtLeast(0), EXECUTION, "height of videos; 0: as the policy's image"] = 0
    visualization_width: Annotated[int, AtLeast(0), EXECUTION, "width of videos; 0: as the policy's image"] = 0
    one_hot: Annotated[
        bool, "also give observation.task_one_hot: Meta-World's 10 numbers for mt10, else its 50"
    ] = False
    prompts: Annotated[Path | None, "YAML file of task: prompt, over LeRobot's or Proctor's own wording"] = None
    episode_length: Annotated[int, AtLeast(1), "step limit"] = MAX_STEPS
    stock: Annotated[
        bool, EXECUTION, "run Meta-World's own environments, not the quick ones: the same bits, more slowly"
    ] = False


class MetaWorld(Benchmark):
    """Meta-World's fifty V3 tasks, by name, comma list, difficulty group, `mt10` or `mt50`."""

    Settings = MetaWorldSettings
    fps = 80
    uses_gl = True

    settings: MetaWorldSettings

    @cached_property
    def spec(self) -> BenchmarkSpec:
        """Observation keys by `obs_type`; the raw state is privileged where pixels are asked for."""
        s = self.settings
        image = Feature((s.observation_height, s.observation_width, 3), "uint8", drawn=True)
        state, environment = Feature((4,), "float64"), Feature((39,), "float64")
        features = {
            "state": {STATE: state, ENVIRONMENT_STATE: environment},
            "pixels": {IMAGE: image},
            "pixels_agent_pos": {IMAGE: image, STATE: state},
        }[s.obs_type]
        if s.one_hot:
            features[TASK_ONE_HOT] = Feature((len(one_hot_tasks(s)),), "float32")
        return BenchmarkSpec(
            name="metaworld",
            features=features,
            action_size=4,
            privileged={STATE: state, ENVIRONMENT_STATE: environment},
            clips_actions=True,
        )

    def tasks(self) -> Sequence[Task]:
        """Return the named tasks. A group's tasks count inside it; a task by name is its own group."""
        names = comma_list(self.settings.task)
        if not names:
            raise UsageError(
                "--env.task is missing: name tasks (reach-v3,push-v3), a group "
                "(easy, medium, hard, very_hard), mt10 or mt50."
            )
        if self.settings.episode_length > MAX_STEPS:
            raise UsageError(f"--env.episode_length: Meta-World ends every episode after {MAX_STEPS} steps.")
        return self._tasks_of(names)

    def _tasks_of(self, names: Sequence[str]) -> list[Task]:
        check_known("env.task", [name.removeprefix(_PREFIX) for name in names], [*MT50, *GROUPS])
        prompts = load_prompts(self.settings.prompts)
        return [
            Task(group, task_id, name, prompts[name], self.settings.episode_length)
            for group, members in map(_members, names)
            for task_id, name in enumerate(members)
        ]

    def catalogue(self) -> Mapping[str, Sequence[Task]]:
        """Return every group with its tasks; each task is also known by its own name."""
        return {group: self._tasks_of([group]) for group in GROUPS}

    def make_simulator(self, task: Task) -> Simulator:
        """Import Meta-World, here and not before, and build the task."""
        from proctor.benchmarks.metaworld.simulator import MetaWorldSimulator

        return MetaWorldSimulator(task, self.settings, self.spec)

    def distributions(self) -> Sequence[str]:
        """MuJoCo versions change every trajectory bitwise, so they are part of a run's identity."""
        return ("metaworld", "mujoco", "gymnasium", "numpy")

    def check_installed(self) -> None:
        """Say how to get Meta-World if it is not there, or what it cannot live with if that is."""
        from proctor.machine.versions import installed_versions

        require("--env.type=metaworld", "metaworld", "metaworld", "mujoco", "gymnasium", "packaging")
        if installed_versions(["gymnasium"])["gymnasium"] == _REFUSES:
            raise UsageError(
                f"--env.type=metaworld: gymnasium {_REFUSES} refuses Meta-World's environments (AssertionError: "
                "['human', 'rgb_array', 'depth_array']), and no other version does. Run: pip install -U gymnasium"
            )


def one_hot_tasks(settings: MetaWorldSettings) -> Sequence[str]:
    """Return the tasks that the places of a one-hot vector stand for, as in Meta-World's own MT10 and MT50."""
    return MT10 if settings.task.strip() == "mt10" else MT50


_PREFIX = "metaworld-"
"""LeRobot accepts it before a task's name."""


def _members(name: str) -> tuple[str, Sequence[str]]:
    plain = name.removeprefix(_PREFIX)
    return plain, GROUPS.get(plain) or (plain,)
