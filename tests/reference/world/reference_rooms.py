"""A package that registers Gymnasium environments: `--env.package=reference_rooms`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

HEIGHT, WIDTH = 8, 6


class Room(gymnasium.Env):  # type: ignore[misc]
    """A point in a room, seen by numbers and two cameras."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, success: str = "is_success", reach: float = 2.0) -> None:
        self.render_mode, self._success, self._reach = render_mode, success, reach
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
        self.task = "cross the room"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._place: NDArray[np.float64] = self.np_random.normal(size=2)
        return self._observe(), {}

    def step(self, action: NDArray[np.float32]) -> Any:
        assert self.action_space.contains(action), action
        self._place += 0.1 * action
        done = bool(self._place[1] > self._reach)
        info: dict[str, Any] = {"deep": {"height": self._place[1]}}
        if self._success:
            info[self._success] = done
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
        ramp = np.arange(HEIGHT * WIDTH * 3).reshape(HEIGHT, WIDTH, 3)
        picture: NDArray[np.uint8] = (127 * (1 + np.sin(colour * ramp * self._place.sum()))).astype(np.uint8)
        return picture

    def render(self) -> NDArray[np.uint8]:
        return self._draw(7)


gymnasium.register("rooms/Plain-v0", Room, max_episode_steps=30)
gymnasium.register("rooms/Quiet-v0", Room, max_episode_steps=30, kwargs={"success": ""})
