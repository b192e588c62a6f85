"""LeRobot as the other harness: its environments, processors and policy, in the loop of `lerobot-eval`.

Imported only where lerobot is. The loop is that of `lerobot.scripts.lerobot_eval.rollout` with one environment,
taken apart into steps. One thing is done for it: torch is seeded for each episode as ours is. LeRobot seeds it
once for a whole evaluation, so that no episode of a policy that draws could be compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import lerobot
import numpy as np
import torch
from lerobot.envs.factory import make_env, make_env_config, make_env_pre_post_processors
from lerobot.envs.utils import NEW_ROLLOUT_OPTION, preprocess_observation
from lerobot.policies.factory import make_policy, make_pre_post_processors
from lerobot.utils.constants import ACTION
from numpy.typing import NDArray

from proctor.engine.randomness import episode_generator
from proctor.policies.lerobot.checkpoint import open_checkpoint
from proctor.types import Episode, Task

_NOT_LEROBOTS = ("type", "task", "python", "assets_path", "max_parallel_tasks")
"""Of a run's `--env` settings, what LeRobot is not told, or is told otherwise."""


class LeRobotHarness:
    """LeRobot's own evaluation, step by step.

    Args:
        settings: of a run: `policy`, `env` and `rename_map`.
    """

    name = f"LeRobot {lerobot.__version__}"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._env: Any = None
        self._task: Task | None = None

    def begin(self, task: Task, seed: int, index: int) -> Mapping[str, Any]:
        """Reset policy and environment, as `rollout` does."""
        if self._task != task:
            self.close()
            self._task, self._env = task, self.make_env(task)
            self.load_policy(task)
        torch.manual_seed(int(episode_generator(Episode(task, index, seed)).integers(2**63)))
        self.policy.reset()
        inner = self._env.envs[0].unwrapped
        if hasattr(inner, "init_state_id"):
            inner.init_state_id = index  # LIBERO's comes round with every reset
        self._seen, _ = self._env.reset(seed=[seed], options={NEW_ROLLOUT_OPTION: True})
        self._step, self._limit = 0, int(self._env.call("_max_episode_steps")[0])
        return self._shown()

    def act(self) -> Mapping[str, Any]:
        """Preprocess, select an action, postprocess."""
        batch = self.preprocessor(self._observation())
        inputs = {key: value.clone() for key, value in batch.items() if isinstance(value, torch.Tensor)}
        with ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            if getattr(self.policy.config, "use_amp", False):
                stack.enter_context(torch.autocast(torch.device(self.policy.config.device).type))
            stack.enter_context(torch.inference_mode())
            raw = self.policy.select_action(batch)
        answered = raw.clone()
        action = self.env_postprocessor({ACTION: self.postprocessor(raw)})[ACTION]
        return {
            "action": action.to("cpu").numpy()[0],
            "raw_action": answered,
            "policy_input": inputs,
            "prompt": self.prompt(),
        }

    def step(self, action: NDArray[Any]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the environment; at its limit of steps the episode is over."""
        self._seen, reward, terminated, truncated, info = self._env.step(action[None])
        self._step += 1
        over = self._step >= self._limit
        found = {"is_success": _succeeded(info)}
        return self._shown(), float(reward[0]), bool(terminated[0]), bool(truncated[0]) or over, found

    def layout(self) -> dict[str, float]:
        """Return where Meta-World's goal and object are; of other environments nothing is known."""
        env = getattr(self._env.envs[0].unwrapped, "_env", None)
        places = (("goal", getattr(env, "_target_pos", None)), ("object", getattr(env, "obj_init_pos", None)))
        return {
            f"{what}_{axis}": float(number)
            for what, place in places
            if place is not None
            for axis, number in zip("xyz", place, strict=True)
        }

    def close(self) -> None:
        """Close the environment."""
        if self._env is not None:
            self._env.close()
            self._env = None

    def make_env(self, task: Task) -> Any:
        """Return LeRobot's vector environment of one, for a task."""
        envs = make_env(self.env_config(task), n_envs=1, use_async_envs=False)
        (of_tasks,) = envs.values()
        return next(iter(of_tasks.values()))

    def env_config(self, task: Task) -> Any:
        """Return LeRobot's config of the environment, with what the run's settings say that it knows."""
        given = dict(self._settings["env"])
        kind = str(given["type"])
        plain = make_env_config(kind)
        known = {one.name for one in dataclasses.fields(plain) if one.init} - {*_NOT_LEROBOTS}
        fields = {name: value for name, value in given.items() if name in known and value is not None}
        if kind == "metaworld":
            fields["task"] = task.name
        elif kind == "libero":
            fields |= {"task": task.group, "task_ids": [task.task_id]}
        return make_env_config(kind, **fields)

    def load_policy(self, task: Task) -> None:
        """Load policy and processors as `lerobot-eval` does."""
        given = self._settings["policy"]
        trusted = bool(given.get("trust_remote_code"))
        overrides = given.get("overrides") or {}
        checkpoint = open_checkpoint(str(given["path"]), overrides, given.get("device"), trusted)
        renames = dict(self._settings.get("rename_map") or {})
        env_config = self.env_config(task)
        with checkpoint.guard.watch():
            self.policy = make_policy(cfg=checkpoint.config, env_cfg=env_config, rename_map=renames)
            self.policy.eval()
            changes: dict[str, Any] = {"device_processor": {"device": str(self.policy.config.device)}}
            if renames:
                changes["rename_observations_processor"] = {"rename_map": renames}
            self.preprocessor, self.postprocessor = make_pre_post_processors(
                policy_cfg=checkpoint.config,
                pretrained_path=str(checkpoint.directory),
                preprocessor_overrides=changes,
            )
        self.env_preprocessor, self.env_postprocessor = make_env_pre_post_processors(
            env_cfg=env_config, policy_cfg=checkpoint.config
        )

    def prompt(self) -> str:
        """Return what the policy is told to do, asked of the environment as `rollout` asks."""
        for name in ("task_description", "task"):
            try:
                return str(self._env.call(name)[0])
            except (AttributeError, NotImplementedError):
                continue
        return ""

    def _observation(self) -> dict[str, Any]:
        observation = preprocess_observation(self._seen)
        found: dict[str, Any] = self.env_preprocessor({**observation, "task": [self.prompt()]})
        return found

    def _shown(self) -> dict[str, Any]:
        """Return the observation before the policy's own processors, pictures as they are drawn."""
        return {
            key: _picture(value[0])
            for key, value in self._observation().items()
            if isinstance(value, torch.Tensor)
        }


def _picture(value: Any) -> NDArray[Any]:
    """Return a picture of LeRobot's, in [0, 1] and channels first, as bytes and channels last."""
    array: NDArray[Any] = value.detach().cpu().numpy()
    if array.ndim != 3 or array.shape[0] not in (1, 3, 4):
        return array.copy()
    scaled = np.rint(255.0 * array)
    if np.abs(255.0 * array - scaled).max() > 1e-3 or scaled.min() < 0 or scaled.max() > 255:
        return array.copy()
    return np.ascontiguousarray(np.moveaxis(scaled.astype(np.uint8), 0, -1))


def _succeeded(info: Mapping[str, Any]) -> bool:
    """Read success out of a vector environment's info, as `rollout` does."""
    final = info.get("final_info")
    if isinstance(final, Mapping):
        return bool(np.any(final.get("is_success", False)))
    if final is not None:
        return any(isinstance(one, Mapping) and bool(one.get("is_success")) for one in final)
    return bool(np.any(info.get("is_success", False)))
