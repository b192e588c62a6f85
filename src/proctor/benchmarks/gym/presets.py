"""PushT and ALOHA as LeRobot configures them: its tasks, keys, sizes and step limits. Nothing is opened to tell.

Both draw inside every step of their own; here they draw on a look only, the very same pixels (`lazy_render.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import methodcaller
from typing import Annotated, Any, ClassVar, Literal

from proctor.benchmarks.gym.env_facts import EnvRecipe, open_env
from proctor.benchmarks.protocol import Benchmark, Simulator
from proctor.config.settings import EXECUTION, AtLeast, EnvSettings, comma_list
from proctor.errors import UsageError, check_known
from proctor.installation import require
from proctor.types import ENVIRONMENT_STATE, IMAGE, IMAGES, STATE, BenchmarkSpec, Feature, Task

TOP = f"{IMAGES}.top"


class Preset(Benchmark):
    """A Gymnasium package whose spaces are known. The group is the preset's name, as in LeRobot."""

    name: ClassVar[str]
    package: ClassVar[str]
    prompts: ClassVar[dict[str, str]]
    """The tasks, with the words that LeRobot gives to a policy for them."""
    needs: ClassVar[tuple[str, ...]]
    """Distributions whose versions change a trajectory."""

    def tasks(self) -> Sequence[Task]:
        """Return the tasks in the order in which they are named; the place is the id."""
        names = [name.removeprefix(f"{self.package}/") for name in comma_list(self.settings.task)]
        check_known("env.task", names, self.prompts)
        if not names:
            raise UsageError(f"--env.task is empty. {self.name} has {', '.join(self.prompts)}.")
        if len(set(names)) < len(names):
            raise UsageError(f"--env.task={self.settings.task} names a task twice.")
        return self._tasks_of(names)

    def _tasks_of(self, names: Iterable[str]) -> list[Task]:
        s = self.settings
        return [
            Task(self.name, place, name, s.prompt or self.prompts[name], s.episode_length)
            for place, name in enumerate(names)
        ]

    def catalogue(self) -> dict[str, list[Task]]:
        """Return every task, by its name."""
        return {name: self._tasks_of([name]) for name in self.prompts}

    def _simulator(self, task: Task, obs_type: str, wrap: Callable[[Any], Any], *metrics: str) -> Simulator:
        from proctor.benchmarks.gym.simulator import GymSimulator

        s = self.settings
        kwargs = {
            "obs_type": obs_type,
            "observation_height": s.observation_height,
            "observation_width": s.observation_width,
            "visualization_height": s.visualization_height or s.observation_height,
            "visualization_width": s.visualization_width or s.observation_width,
        }
        recipe = EnvRecipe(f"{self.package}/{task.name}", (self.package,), kwargs, s.episode_length)
        where = methodcaller("layout")
        return GymSimulator(lambda: wrap(open_env(recipe)), task.name, ("is_success",), metrics, layout=where)

    def distributions(self) -> Sequence[str]:
        """The package, and the physics beneath it."""
        return ("gymnasium", "numpy", *self.needs)

    def check_installed(self) -> None:
        """Say how to get the package if it is not there."""
        require(f"--env.type={self.name}", self.name, "gymnasium", self.package)


@dataclass(frozen=True, kw_only=True)
class PushTSettings(EnvSettings):
    """`--env.*` of PushT."""

    task: Annotated[str, "there is one task"] = "PushT-v0"
    obs_type: Annotated[
        Literal["pixels_agent_pos", "pixels", "environment_state_agent_pos", "state"],
        "what the policy sees: picture and agent, picture, keypoints and agent, or five numbers",
    ] = "pixels_agent_pos"
    observation_height: Annotated[int, AtLeast(1), "height of the policy's picture"] = 96
    observation_width: Annotated[int, AtLeast(1), "width of the policy's picture"] = 96
    visualization_height: Annotated[int, AtLeast(1), EXECUTION, "height of videos"] = 384
    visualization_width: Annotated[int, AtLeast(1), EXECUTION, "width of videos"] = 384
    episode_length: Annotated[int, AtLeast(1), "step limit"] = 300
    prompt: Annotated[str, "the task in words; LeRobot gives none"] = ""


class PushT(Preset):
    """Push a T onto its goal, in the plane."""

    Settings = PushTSettings
    name, package, fps = "pusht", "gym_pusht", 10
    prompts: ClassVar = {"PushT-v0": ""}
    needs = ("gym-pusht", "pymunk", "shapely", "pygame", "opencv-python")

    settings: PushTSettings

    @cached_property
    def spec(self) -> BenchmarkSpec:
        """Observation keys by `obs_type`; an action is the place that the agent shall move to."""
        s = self.settings
        image = Feature((s.observation_height, s.observation_width, 3), "uint8", drawn=True)
        agent = Feature((2,), "float64")
        features = {
            "pixels_agent_pos": {IMAGE: image, STATE: agent},
            "pixels": {IMAGE: image},
            "environment_state_agent_pos": {ENVIRONMENT_STATE: Feature((16,), "float64"), STATE: agent},
            "state": {STATE: Feature((5,), "float64")},
        }[s.obs_type]
        return BenchmarkSpec(self.name, features, action_size=2, action_low=0.0, action_high=512.0)

    def make_simulator(self, task: Task) -> Simulator:
        """Import gym_pusht, here and not before."""
        from proctor.benchmarks.gym.lazy_render import LazyPushT

        return self._simulator(task, self.settings.obs_type, LazyPushT, "coverage")


@dataclass(frozen=True, kw_only=True)
class AlohaSettings(EnvSettings):
    """`--env.*` of ALOHA."""

    task: Annotated[str, "AlohaInsertion-v0, AlohaTransferCube-v0, or both"] = "AlohaInsertion-v0"
    obs_type: Annotated[
        Literal["pixels_agent_pos", "pixels"], "what the policy sees: camera and joints, or the camera"
    ] = "pixels_agent_pos"
    observation_height: Annotated[int, AtLeast(1), "height of the policy's image"] = 480
    observation_width: Annotated[int, AtLeast(1), "width of the policy's image"] = 640
    visualization_height: Annotated[int, AtLeast(0), EXECUTION, "height of videos; 0: as the policy's image"] = 0
    visualization_width: Annotated[int, AtLeast(0), EXECUTION, "width of videos; 0: as the policy's image"] = 0
    episode_length: Annotated[int, AtLeast(1), "step limit"] = 400
    prompt: Annotated[str, "the task in words [LeRobot's: insertion, transfer_cube]"] = ""


class Aloha(Preset):
    """Two arms on a table: put a peg into a socket, or hand a cube over."""

    Settings = AlohaSettings
    name, package, fps, uses_gl = "aloha", "gym_aloha", 50, True
    prompts: ClassVar = {"AlohaInsertion-v0": "insertion", "AlohaTransferCube-v0": "transfer_cube"}
    needs = ("gym-aloha", "dm-control", "mujoco")

    settings: AlohaSettings

    @cached_property
    def spec(self) -> BenchmarkSpec:
        """The camera above the table and the joints of both arms; an action is where the joints shall go."""
        s = self.settings
        features = {TOP: Feature((s.observation_height, s.observation_width, 3), "uint8", drawn=True)}
        if s.obs_type == "pixels_agent_pos":
            features[STATE] = Feature((14,), "float64")
        return BenchmarkSpec(self.name, features, action_size=14)

    def make_simulator(self, task: Task) -> Simulator:
        """Import gym_aloha, here and not before: it imports MuJoCo."""
        from proctor.benchmarks.gym.lazy_render import LazyAloha

        # The joints alone need no other environment; which keys are given is the spec's matter.
        return self._simulator(task, "pixels_agent_pos", LazyAloha)
