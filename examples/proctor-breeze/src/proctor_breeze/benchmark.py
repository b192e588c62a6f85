"""What is known of Breeze before any simulator starts. Nothing heavy is imported here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from proctor import (
    EXECUTION,
    AtLeast,
    Benchmark,
    BenchmarkSpec,
    EnvSettings,
    Feature,
    Simulator,
    Task,
    UsageError,
)

IMAGE, STATE, WORLD = "observation.image", "observation.state", "observation.environment_state"

TASKS = [
    Task("reach", 0, "reach-near", "fly to the flag", max_steps=100),
    Task("reach", 1, "reach-far", "fly to the flag in the far corner", max_steps=200),
    Task("push", 0, "push-puck", "push the puck to the flag", max_steps=400),
]


@dataclass(frozen=True, kw_only=True)
class BreezeSettings(EnvSettings):
    """The flags `--env.*` of Breeze. `type`, `task` and others are inherited."""

    wind: Annotated[float, AtLeast(0), "strength of the wind; 1 is as strong as the disc"] = 0.3
    image_size: Annotated[int, AtLeast(8), "side of the policy's image in pixels"] = 64
    # Videos cannot change a result, so a run may be continued with another size of them.
    video_size: Annotated[int, AtLeast(8), EXECUTION, "side of a video in pixels"] = 256


class Breeze(Benchmark):
    """A disc that reaches and pushes in the wind, drawn by numpy."""

    Settings = BreezeSettings
    settings: BreezeSettings
    fps = 20

    @property
    def spec(self) -> BenchmarkSpec:
        """The camera and the disc's own state for the policy; the whole world for scripts."""
        side = self.settings.image_size
        return BenchmarkSpec(
            name="breeze",
            features={IMAGE: Feature((side, side, 3), "uint8", drawn=True), STATE: Feature((4,), "float64")},
            privileged={WORLD: Feature((8,), "float64")},
            action_size=2,
        )

    def tasks(self) -> Sequence[Task]:
        """Return the tasks that `--env.task` names, by name or group; all of them without it."""
        wanted = [name.strip() for name in self.settings.task.split(",") if name.strip()]
        for name in wanted:
            if name not in {word for task in TASKS for word in (task.group, task.name)}:
                raise UsageError(f"--env.task={name}: Breeze has {', '.join(task.name for task in TASKS)}.")
        return [task for task in TASKS if not wanted or task.group in wanted or task.name in wanted]

    def catalogue(self) -> Mapping[str, Sequence[Task]]:
        """Return all there is, by group, whatever the settings name."""
        every = type(self)(replace(self.settings, task="")).tasks()
        return {group: [task for task in every if task.group == group] for group in ("reach", "push")}

    def make_simulator(self, task: Task) -> Simulator:
        """Build the world, in the worker that will use it."""
        from proctor_breeze.simulator import BreezeSimulator

        return BreezeSimulator(task, self.settings)

    def distributions(self) -> Sequence[str]:
        """A run is not continued under another version of these."""
        return ("proctor-breeze", "numpy")
