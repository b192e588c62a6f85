"""What every room speaks of: tasks, episodes, what a policy looks at, and what a step yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from proctor.errors import SimulatorError, UsageError

if TYPE_CHECKING:  # loaded with the first array: `--help` has none
    from numpy.typing import NDArray

Observation = dict[str, Any]
"""Arrays by LeRobot's keys (`observation.image`, `observation.state`, ...), and `task`: the prompt."""

STATE, ENVIRONMENT_STATE = "observation.state", "observation.environment_state"
IMAGE, IMAGES = "observation.image", "observation.images"
"""LeRobot's names: the only camera's picture, and what begins the name of one of several."""

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
        import numpy as np

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
        import numpy as np

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


@dataclass(frozen=True)
class VideoChoice:
    """Which episodes have videos: the first so many of every task, and failures. Of errors there are none."""

    first: int = 0
    failures: bool = False

    def __bool__(self) -> bool:
        return bool(self.first or self.failures)

    def may_have(self, index: int) -> bool:
        """Whether an episode that has not ended may be one of them."""
        return self.failures or index < self.first

    def has(self, index: int, success: bool | None) -> bool:
        """Whether an episode that came to this is one of them."""
        return index < self.first or (self.failures and success is False)


NO_VIDEOS = VideoChoice()
