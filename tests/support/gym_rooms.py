"""A package that registers Gymnasium environments of every sort that the tests need: `--env.package=gym_rooms`."""

from __future__ import annotations

import random
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

HEIGHT, WIDTH = 8, 6


class Room(gymnasium.Env):  # type: ignore[misc]
    """A point in a room, seen by numbers and two cameras.

    Args:
        success: where `info` tells success: an entry's name, a.b inside another; empty: nowhere.
        only_then: whether it is told only when it happens.
        careless: draws from the global generators, as environments should not.
        leaky: carries a number over from one episode to the next, as environments should not.
        dark: cannot draw frames, though it says so only when asked for one.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(
        self,
        render_mode: str | None = None,
        success: str = "is_success",
        only_then: bool = False,
        careless: bool = False,
        leaky: bool = False,
        reach: float = 2.0,
        dark: bool = False,
    ) -> None:
        self.render_mode, self._success, self._only_then = render_mode, success, only_then
        self._careless, self._leaky, self._reach, self._dark = careless, leaky, reach, dark
        camera = spaces.Box(0, 255, (HEIGHT, WIDTH, 3), np.uint8)
        self.observation_space = spaces.Dict(
            {
                "agent_pos": spaces.Box(-np.inf, np.inf, (2,), np.float32),
                "environment_state": spaces.Box(-1, 1, (3,), np.float64),
                "pixels": spaces.Dict({"front": camera, "wrist": camera}),
                "mood": spaces.Discrete(3),
                "arm": spaces.Dict({"joints": spaces.MultiBinary(4)}),
            }
        )
        self.action_space = spaces.Box(np.array([-1, 0], np.float32), np.array([1, 5], np.float32))
        self.episodes = self.drawings = 0
        self.task = "cross the room"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.episodes += 1
        self._place: NDArray[np.float64] = self.np_random.normal(size=2)
        if self._careless:
            self._place += np.random.normal(size=2) + random.random()
        if self._leaky:
            self._place += self.episodes
        return self._observe(), {}

    def step(self, action: NDArray[np.float32]) -> Any:
        assert self.action_space.contains(action), action
        self._place += 0.1 * action
        done = bool(self._place[1] > self._reach)
        info: dict[str, Any] = {"drawings": self.drawings, "deep": {"height": self._place[1]}}
        if self._success and (done or not self._only_then):
            outer, _, inner = self._success.rpartition(".")
            info.setdefault(outer, {}).update({inner: done}) if outer else info.update({inner: done})
        return self._observe(), float(self._place.sum()), done, False, info

    def _observe(self) -> dict[str, Any]:
        return {
            "agent_pos": self._place,  # its own array, and of another type than it says
            "environment_state": np.tanh([*self._place, 0.5]),
            "pixels": {"front": self._draw(3), "wrist": self._draw(5)},
            "mood": int(abs(self._place[0])) % 3,
            "arm": {"joints": (np.arange(4) < self._place[0]).astype(np.int8)},
        }

    def _draw(self, colour: int) -> NDArray[np.uint8]:
        self.drawings += 1
        ramp = np.arange(HEIGHT * WIDTH * 3).reshape(HEIGHT, WIDTH, 3)
        picture: NDArray[np.uint8] = (127 * (1 + np.sin(colour * ramp * self._place.sum()))).astype(np.uint8)
        return picture

    def render(self) -> NDArray[np.uint8]:
        if self._dark:
            raise RuntimeError("the lamp is broken")
        return self._draw(7)


class LazyRoom(Room):
    """One that draws only what it is told will be looked at."""

    look: frozenset[str] = frozenset()

    def set_look(self, look: frozenset[str]) -> None:
        self.look = look

    def _observe(self) -> dict[str, Any]:
        pictures = {
            n: self._draw(c) for n, c in (("front", 3), ("wrist", 5)) if f"observation.images.{n}" in self.look
        }
        draw, self._draw = self._draw, lambda colour: np.zeros(0, np.uint8)  # type: ignore[method-assign]
        seen = super()._observe()
        self._draw = draw  # type: ignore[method-assign]
        return {**seen, "pixels": pictures}


class Stuck(Room):
    """One that breaks when it is stepped."""

    def step(self, action: NDArray[np.float32]) -> Any:
        raise RuntimeError("stuck")


class Panel(gymnasium.Env):  # type: ignore[misc]
    """Switches: whatever action and observation space it is given; an action's sum is the reward."""

    def __init__(
        self, action_space: spaces.Space[Any], observation_space: spaces.Space[Any] | None = None
    ) -> None:
        self.action_space = action_space
        self.observation_space = observation_space or spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        return self.observation_space.sample(), float(np.sum(action)), False, False, {"success": False}


def _register(name: str, entry_point: Any, steps: int | None = 30, **kwargs: Any) -> None:
    gymnasium.register(f"rooms/{name}-v0", entry_point, max_episode_steps=steps, kwargs=kwargs)


_register("Plain", Room)
gymnasium.register("gym_rooms/Plain-v0", Room, max_episode_steps=30)
_register("Lazy", LazyRoom)
_register("Stuck", Stuck)
_register("Endless", Room, None)
_register("Quiet", Room, success="")
_register("Boastful", Room, success="final.outcome", only_then=True)
_register("Careless", Room, careless=True)
_register("Leaky", Room, leaky=True)
_register("Switch", Panel, action_space=spaces.Discrete(3, start=2))
_register("Switches", Panel, action_space=spaces.MultiDiscrete([2, 5], start=[0, -2]))
_register("Buttons", Panel, action_space=spaces.MultiBinary(3))
_register(
    "Knobs",
    Panel,
    action_space=spaces.Box(
        np.array([[-1, 0], [-np.inf, 2]], np.float32), np.array([[1, np.inf], [0, 3]], np.float32)
    ),
)
_register("Steps", Panel, action_space=spaces.Box(-3, 3, (2,), np.int32))
_register("Both", Panel, action_space=spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]))
_register(
    "Goal",
    Panel,
    action_space=spaces.Discrete(2),
    observation_space=spaces.Dict(
        {k: spaces.Box(-1, 1, (3,)) for k in ("observation", "achieved_goal", "desired_goal")}
    ),
)
_register(
    "Film", Panel, action_space=spaces.Discrete(2), observation_space=spaces.Box(0, 255, (8, 8, 3), np.uint8)
)
_register("Talk", Panel, action_space=spaces.Discrete(2), observation_space=spaces.Text(5))
_register("Row", Panel, action_space=spaces.Discrete(2), observation_space=spaces.Sequence(spaces.Discrete(2)))
