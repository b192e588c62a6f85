"""What a benchmark provides: named tasks, and a simulator for each.

The one idea: *drawing happens only on a look.* A step is told beforehand which observation keys the
policy will want after it (usually none); only those are produced. Drawing costs about a hundred times
a physics step, so a policy that emits chunks of 50 actions pays for 1 drawing in 50.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from proctor.config.settings import EnvSettings
from proctor.errors import SimulatorError, UsageError

if TYPE_CHECKING:
    from proctor.benchmarks.processors import EnvProcessor

Observation = dict[str, Any]
"""Arrays by LeRobot's keys (`observation.image`, `observation.state`, ...), and `task`: the prompt."""

Look = frozenset[str]
"""The observation keys that will be asked for; empty: nobody looks."""

NO_LOOK: Look = frozenset()


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a benchmark, as chosen by a run's settings."""

    group: str
    task_id: int
    name: str
    prompt: str
    max_steps: int
    initial_states: int | None = None
    """How many beginnings its episodes take in turn, by their index; `None`: every seed makes its own."""
    reports_success: bool = True
    """Whether its simulator says that an episode succeeded. If so, an episode of which it never does is a failure.
    If not, there is no success rate, and the simulator must not speak of success at all."""

    def to_wire(self) -> dict[str, Any]:
        """Return plain values that msgpack and JSON carry."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Episode:
    """The unit of everything: planned, seeded, run, retried, stored, compared and shown as one thing."""

    task: Task
    index: int
    seed: int

    @property
    def key(self) -> EpisodeKey:
        """What identifies the episode inside its run."""
        return EpisodeKey(self.task.group, self.task.task_id, self.index)

    @property
    def repeats(self) -> bool:
        """Whether an earlier episode of the plan begins from the same initial state."""
        return self.task.initial_states is not None and self.index >= self.task.initial_states

    def to_wire(self) -> dict[str, Any]:
        """Return plain values that msgpack carries to a worker."""
        return {"task": self.task.to_wire(), "index": self.index, "seed": self.seed}

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> Episode:
        """Rebuild an episode from `to_wire`."""
        return cls(task=Task(**wire["task"]), index=wire["index"], seed=wire["seed"])

    def __str__(self) -> str:
        return f"{self.task.name} episode {self.index}"


class EpisodeKey(NamedTuple):
    """Group, task id and index: unique in a plan, stable across resumes, shards and merges."""

    group: str
    task_id: int
    episode_index: int


def as_flag(name: str, value: Any) -> bool:
    """Return a simulator's flag as a truth value.

    Simulators give them as booleans, or as numbers and arrays of one number that are 0 or 1. Anything else, NaN or
    the text "False" among them, would count as true in Python: it is the simulator's error.
    """
    if value is True or value is False:
        return value
    try:
        number = np.asarray(value).item()
        if not isinstance(number, str | bytes) and number in (0, 1):
            return bool(number)
    except (TypeError, ValueError):
        pass
    raise SimulatorError(f"the simulator gave {name} as {value!r:.60}; it must be true or false")


class Outcome(NamedTuple):
    """What one step of a simulator yields besides the observation.

    `success` is `None` in every step of a task that does not report success (`Task.reports_success`).
    """

    reward: float
    terminated: bool
    truncated: bool
    success: bool | None
    metrics: Mapping[str, float] = {}


@runtime_checkable
class Simulator(Protocol):
    """One simulated world for one task. It lives in one process and is reused across episodes."""

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


@dataclass(frozen=True, slots=True)
class Feature:
    """Shape and dtype of one observation key; `drawn` if a camera makes it."""

    shape: tuple[int, ...]
    dtype: str
    drawn: bool = False


@dataclass(frozen=True, slots=True)
class BenchmarkSpec:
    """What a policy may rely on, known before any simulator starts.

    `features` are the observation keys that the run's settings offer to a policy. `privileged` are keys
    that the simulator can give besides, for scripted experts; no learned policy sees them unasked.
    `action_low` and `action_high` bound every number of an action, or each its own; they may be infinite.
    `action_integers`: only whole numbers between the bounds are actions, and both bounds are.
    `clips_actions`: simulators clip actions to the bounds before they move anything, so that is what recordings
    hold.
    """

    name: str
    features: dict[str, Feature]
    action_size: int
    action_low: float | tuple[float, ...] = -1.0
    action_high: float | tuple[float, ...] = 1.0
    action_integers: bool = False
    privileged: dict[str, Feature] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    """The simulator's own names of features that were renamed for the policy."""
    clips_actions: bool = False
    """False unless said otherwise: an action is executed as it is, whatever the bounds."""

    def executed(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Return one action, or several, as simulators execute them: within the bounds, where they clip them."""
        if not self.clips_actions:
            return actions
        clipped: NDArray[Any] = np.clip(actions, self.action_low, self.action_high)
        return clipped.astype(actions.dtype, copy=False)

    def renamed(self, rename_map: Mapping[str, str]) -> BenchmarkSpec:
        """Return the spec as a policy sees it that knows features by other names (`--rename_map`)."""
        unknown = sorted(rename_map.keys() - self.every.keys())
        if unknown:
            raise UsageError(
                f"--rename_map: {self.name} gives no {', '.join(unknown)}. "
                f"It gives {', '.join(sorted(self.every))}."
            )
        names = [rename_map.get(key, key) for key in self.every]
        if len(set(names)) < len(names):
            raise UsageError("--rename_map gives two observations the same name.")
        return replace(
            self,
            features={rename_map.get(key, key): feature for key, feature in self.features.items()},
            privileged={rename_map.get(key, key): feature for key, feature in self.privileged.items()},
            sources={new: old for old, new in rename_map.items()},
        )

    @property
    def every(self) -> dict[str, Feature]:
        """Offered and privileged features together."""
        return {**self.privileged, **self.features}

    def to_wire(self) -> dict[str, Any]:
        """Return plain values that msgpack carries to a child."""
        return asdict(self)

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> BenchmarkSpec:
        """Rebuild a spec from `to_wire`."""

        def features(raw: dict[str, Any]) -> dict[str, Feature]:
            return {key: Feature(tuple(f["shape"]), f["dtype"], f["drawn"]) for key, f in raw.items()}

        def bound(raw: Any) -> float | tuple[float, ...]:
            return tuple(raw) if isinstance(raw, (list, tuple)) else float(raw)

        return cls(
            **{
                **wire,
                "features": features(wire["features"]),
                "privileged": features(wire["privileged"]),
                "action_low": bound(wire["action_low"]),
                "action_high": bound(wire["action_high"]),
            }
        )


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
