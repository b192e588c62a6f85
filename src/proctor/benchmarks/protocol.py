"""What a benchmark provides: named tasks, and a simulator for each.

The one idea: *drawing happens only on a look.* A step is told beforehand which observation keys the
policy will want after it (usually none); only those are produced. Drawing costs far more than a physics
step, and a policy that emits chunks of 50 actions pays for 1 drawing in 50.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from proctor.config.settings import EnvSettings
from proctor.errors import SimulatorError, UsageError
from proctor.types import BenchmarkSpec, Episode, Look, Observation, Outcome, Task

if TYPE_CHECKING:
    from proctor.benchmarks.processors import EnvProcessor


@runtime_checkable
class Simulator(Protocol):
    """One simulated world for one task. It lives in one process and is reused across episodes.

    It may have a method `layout`: see `layout_of`.
    """

    def reset(self, episode: Episode, look: Look) -> None:
        """Start `episode` from its own seed and index alone, whatever ran here before."""

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        """Apply one action. Draw only what `look` names; an empty look draws nothing."""

    def observe(self) -> Observation:
        """Return the keys that the last reset or step was told to look at, in arrays nobody changes later."""

    def render(self) -> NDArray[np.uint8]:
        """Return the current state as an RGB frame (height, width, 3) for people and videos."""

    def close(self) -> None:
        """Free everything, GL contexts included."""


_MOST_NUMBERS = 64


def layout_of(simulator: Any) -> dict[str, float]:
    """Return named numbers of the state that an episode begins with, if its simulator gives any.

    A simulator may have a method `layout() -> Mapping[str, float]`, asked after each reset: where goal and objects
    are, which initial state was taken. It follows from the episode alone, like all else.

    Raises:
        SimulatorError: it gives something else.
    """
    give = getattr(simulator, "layout", None)
    if give is None:
        return {}
    try:
        found = {name: float(value) for name, value in give().items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise SimulatorError(f"the simulator's layout() gave no named numbers: {error}") from None
    if len(found) > _MOST_NUMBERS or not all(isinstance(name, str) for name in found):
        raise SimulatorError(f"the simulator's layout() gave more than {_MOST_NUMBERS} numbers, or no names")
    if not all(map(math.isfinite, found.values())):
        raise SimulatorError("the simulator's layout() gave NaN or infinity")
    return found


class Benchmark(ABC):
    """Names its tasks and builds a simulator for one, inside the worker that will use it.

    Making the object must touch no GPU, no GL and no simulator import: it is made in the coordinator,
    and again in every worker from the same settings.
    """

    Settings: ClassVar[type[EnvSettings]] = EnvSettings
    """The benchmark's own `--env.*` flags: a frozen dataclass that extends `EnvSettings`."""

    fps: int = 30
    """Steps a second in the robot's own time; videos play at that pace."""

    uses_gl: bool = False
    """Whether drawing goes through MuJoCo's GL backends, so that one has to be chosen."""

    no_frames: str = ""
    """Why its simulators cannot `render`; empty: they can."""

    undecided: str = ""
    """Why it could not be found out whether its tasks report success; empty: it is known."""

    notes: Sequence[str] = ()
    """What the user should read before the first episode."""

    opens_to_tell: ClassVar[bool] = False
    """Whether `spec` or `tasks` have to open a simulator: they are then asked in a process of their own."""

    draws_on_look: bool = True
    """Whether a step without a look draws nothing. False: it wraps an env that draws inside every step."""

    replays: bool = True
    """Whether seed and actions give an episode again, bit for bit. False: it is filmed as it runs, not after."""

    fetches: ClassVar[bool] = False
    """Whether `fetch` has anything to do."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    @property
    @abstractmethod
    def spec(self) -> BenchmarkSpec:
        """Observation and action features under these settings."""

    @abstractmethod
    def tasks(self) -> Sequence[Task]:
        """Return the tasks that the settings name, in plan order. Raises `UsageError` on an unknown one."""

    @abstractmethod
    def make_simulator(self, task: Task) -> Simulator:
        """Build the simulator. Called in the worker that will use it, never elsewhere."""

    def catalogue(self) -> Mapping[str, Sequence[Task]]:
        """Return all there is, by what `--env.task` calls it, for `proctor list`: here the tasks of the settings.

        A benchmark whose settings must name a task, or name only some by default, has its own.
        """
        try:
            tasks = self.tasks()
        except UsageError:
            return {}
        return {group: [task for task in tasks if task.group == group] for group in {t.group: 0 for t in tasks}}

    def get_env_processors(self) -> Sequence[EnvProcessor]:
        """Return the steps between the simulator and a policy. `spec` is what is before them."""
        return ()

    def distributions(self) -> Sequence[str]:
        """Return the installed distributions whose versions change a trajectory."""
        return ()

    def modules(self) -> Sequence[str]:
        """Return the modules of the user's own, besides this class's, whose code makes the simulators.

        A run knows them by their content. This class's own file, and what that imports, need not be named.
        """
        return ()

    def check_installed(self) -> None:  # noqa: B027 - most benchmarks have nothing to check
        """Raise `UsageError` with the command that installs what is missing. Import nothing heavy."""

    def fetch(self) -> None:  # noqa: B027
        """Download the files that simulators need, where they are missing, before the first worker starts.

        Raises:
            UsageError: that is not possible; says how to get them.
        """

    def fingerprints(self) -> Mapping[str, str]:
        """Return what else changes a trajectory, by name: files that no distribution's version stands for."""
        return {}
