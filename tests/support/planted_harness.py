"""LeRobot's own evaluation with one fault planted in it: in its environment, its processors, or its loop.

`Sound` is LeRobot's harness on small pictures, short episodes and goals in their place, so that nothing differs.
Every other class has one fault more, made where people make it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import lerobot.envs.metaworld as lerobot_metaworld
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy.spatial.transform import Rotation

from lerobot_runs import SmallEnv
from proctor.diff.lerobot_harness import LeRobotHarness
from proctor.types import Task


class Sound(LeRobotHarness):
    """No fault."""

    env: type[SmallEnv] = SmallEnv
    limit: int | None = None

    def make_env(self, task: Task) -> Any:
        def make() -> Any:
            env = self.env(task=task.name, obs_type="pixels_agent_pos", render_mode="rgb_array")
            env._max_episode_steps = self.limit or task.max_steps
            return env

        return gym.vector.SyncVectorEnv([make])


def with_pictures(change: Callable[[NDArray[Any]], NDArray[Any]]) -> type[Sound]:
    """Return a harness whose environment changes its pictures."""

    class Env(SmallEnv):
        def _format_raw_obs(self, raw_obs: Any) -> Any:
            found = super()._format_raw_obs(raw_obs)
            return {**found, "pixels": np.ascontiguousarray(change(found["pixels"]))}

    return type("Changed", (Sound,), {"env": Env})


def with_states(change: Callable[[NDArray[Any]], NDArray[Any]]) -> type[Sound]:
    """Return a harness whose environment changes its state."""

    class Env(SmallEnv):
        def _format_raw_obs(self, raw_obs: Any) -> Any:
            found = super()._format_raw_obs(raw_obs)
            return {**found, "agent_pos": change(found["agent_pos"])}

    return type("Changed", (Sound,), {"env": Env})


def with_inputs(change: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]) -> type[Sound]:
    """Return a harness that changes what its network is given, in view of the observation."""

    class Changed(Sound):
        def load_policy(self, task: Task) -> None:
            super().load_policy(task)
            before = self.preprocessor
            self.preprocessor = lambda seen: change(dict(before(dict(seen))), dict(seen))

    return Changed


def with_actions(change: Callable[[Any, Any], Any]) -> type[Sound]:
    """Return a harness that changes its postprocessor: given that one and the network's answer."""

    class Changed(Sound):
        def load_policy(self, task: Task) -> None:
            super().load_policy(task)
            before = self.postprocessor
            self.postprocessor = lambda raw: change(before, raw)

    return Changed


def with_execution(change: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]) -> type[Sound]:
    """Return a harness whose environment executes something else, in view of the state."""

    class Env(SmallEnv):
        def _format_raw_obs(self, raw_obs: Any) -> Any:
            self.state = raw_obs[:4]
            return super()._format_raw_obs(raw_obs)

        def step(self, action: NDArray[Any]) -> Any:
            return super().step(change(action, self.state))

    return type("Changed", (Sound,), {"env": Env})


class OtherSize(Sound):
    class env(SmallEnv):
        def _ensure_env(self) -> None:
            super()._ensure_env()
            self._env.mujoco_renderer.width = self._env.mujoco_renderer.height = 32

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.observation_space["pixels"] = gym.spaces.Box(0, 255, (32, 32, 3), np.uint8)


class GoalsOfTheEpisodeBefore(Sound):
    class env(SmallEnv):
        def _format_raw_obs(self, raw_obs: Any) -> Any:
            return lerobot_metaworld.MetaworldEnv._format_raw_obs(self, raw_obs)


def centre_crop(picture: NDArray[Any]) -> NDArray[Any]:
    side = 61  # 0.9 of the area, as OpenVLA's
    middle = Image.fromarray(picture[1 : 1 + side, 1 : 1 + side])
    return np.asarray(middle.resize((64, 64), Image.Resampling.BILINEAR))


class BytesNormalised(Sound):
    def load_policy(self, task: Task) -> None:
        super().load_policy(task)
        before = self.preprocessor
        self.preprocessor = lambda seen: before({**seen, "observation.image": 255 * seen["observation.image"]})


def rotation_as_euler(state: NDArray[Any]) -> NDArray[Any]:
    """Take the first three numbers for an axis times an angle."""
    angles: NDArray[Any] = Rotation.from_rotvec(state[:3]).as_euler("xyz")
    return np.concatenate([angles, state[3:]])


def state_as_observed(batch: dict[str, Any], seen: dict[str, Any]) -> dict[str, Any]:
    return {**batch, "observation.state": seen["observation.state"]}


def statistics(postprocessor: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(step.stats["action"] for step in postprocessor.steps if hasattr(step, "stats"))
    return found


def by_minimum_and_maximum(postprocessor: Any, raw: Any) -> Any:
    low, high = (torch.as_tensor(statistics(postprocessor)[name]) for name in ("min", "max"))
    return (raw + 1) / 2 * (high - low) + low


def gripper_turned(postprocessor: Any, raw: Any) -> Any:
    action = postprocessor(raw)
    action[:, -1] = -action[:, -1]
    return action


class ThresholdedGripper(Sound):
    """Its threshold lies among the answers of its network's first chunk."""

    def begin(self, task: Task, seed: int, index: int) -> Any:
        self._threshold: Any = None
        return super().begin(task, seed, index)

    def load_policy(self, task: Task) -> None:
        super().load_policy(task)
        before = self.postprocessor

        def thresholded(raw: Any) -> Any:
            if self._threshold is None:
                self._threshold = torch.cat([raw, *self.policy._action_queue])[:, -1].mean()
            action = before(raw)
            action[:, -1] = torch.where(raw[:, -1] > self._threshold, 1.0, -1.0)
            return action

        self.postprocessor = thresholded


def less_the_state(action: NDArray[Any], state: NDArray[Any]) -> NDArray[Any]:
    changed = action.copy()
    changed[:3] -= state[:3].astype(action.dtype)
    return changed


class OtherChunkLength(Sound):
    def load_policy(self, task: Task) -> None:
        super().load_policy(task)
        self.policy.config.n_action_steps = 2


class StaleQueue(Sound):
    def load_policy(self, task: Task) -> None:
        super().load_policy(task)
        self.policy.reset()
        self.policy.reset = lambda: None


class StepLimit(Sound):
    limit = 3


class OneSeedForAll(Sound):
    def begin(self, task: Task, seed: int, index: int) -> Any:
        return super().begin(task, 42, index)


class TaskNameAsPrompt(Sound):
    def prompt(self) -> str:
        assert self._task is not None
        return self._task.name


class SuccessOfTheLastStep(Sound):
    """It goes on after success, and asks for it in the end."""

    limit = 16

    class env(SmallEnv):
        def step(self, action: NDArray[Any]) -> Any:
            raw, reward, _, truncated, info = self._env.step(action)
            return self._format_raw_obs(raw), reward, False, truncated, {"is_success": bool(info["success"])}

    def step(self, action: NDArray[Any]) -> Any:
        found = super().step(action)
        self._last = found[4]["is_success"]
        return found

    def succeeded(self) -> bool:
        return bool(self._last)


class Settling(Sound):
    class env(SmallEnv):
        def reset(self, seed: int | None = None, **kwargs: Any) -> Any:
            _, info = super().reset(seed, **kwargs)
            for _ in range(5):
                raw, *_ = self._env.step(np.zeros(4, np.float32))
            return self._format_raw_obs(raw), info


class TwiceAsLong(Sound):
    class env(SmallEnv):
        def step(self, action: NDArray[Any]) -> Any:
            self._env.step(action)
            return super().step(action)


class LateCamera(Sound):
    class env(SmallEnv):
        def reset(self, seed: int | None = None, **kwargs: Any) -> Any:
            found, info = super().reset(seed, **kwargs)
            self._kept = found["pixels"]
            return found, info

        def step(self, action: NDArray[Any]) -> Any:
            found, *rest = super().step(action)
            late, self._kept = self._kept, found["pixels"]
            return {**found, "pixels": late}, *rest


PITFALLS: dict[str, type[Sound]] = {
    "The picture is upside down": with_pictures(lambda picture: picture[::-1]),
    "The picture is turned by 180 degrees": with_pictures(lambda picture: picture[::-1, ::-1]),
    "Red and blue are exchanged": with_pictures(lambda picture: picture[..., ::-1]),
    "The picture has another size": OtherSize,
    "The centre crop is missing, or one too many": with_pictures(centre_crop),
    "The picture comes one step late": LateCamera,
    "The goal marker is in the wrong place": GoalsOfTheEpisodeBefore,
    "Pictures of 0 to 255 are normalised as if they were 0 to 1": BytesNormalised,
    "The state is not sent": with_states(np.zeros_like),
    "The state is in another order": with_states(lambda state: state[[3, 0, 1, 2]]),
    "A rotation is written in another form": with_states(rotation_as_euler),
    "The state is not normalised": with_inputs(state_as_observed),
    "Actions are not un-normalised": with_actions(lambda postprocessor, raw: raw),
    "Actions are un-normalised with the wrong statistics": with_actions(by_minimum_and_maximum),
    "The gripper works the wrong way round": with_actions(gripper_turned),
    "The gripper's threshold": ThresholdedGripper,
    "Absolute and relative actions": with_execution(less_the_state),
    "The executed chunk has another length": OtherChunkLength,
    "Actions of the episode before are executed": StaleQueue,
    "The control rate is another": TwiceAsLong,
    "Steps before the episode": Settling,
    "The seed is another": OneSeedForAll,
    "The prompt is another": TaskNameAsPrompt,
    "The step limit is too low": StepLimit,
    "Success counts at the last step alone": SuccessOfTheLastStep,
}
"""By the headings of docs/pitfalls.md."""
