"""One Meta-World task, stepped and drawn. Imported in workers only: it pulls in MuJoCo and chooses GL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.metaworld.benchmark import TASK_ONE_HOT, MetaWorldSettings, one_hot_tasks
from proctor.benchmarks.metaworld.cameras import MetaWorldCameras, camera_arguments
from proctor.benchmarks.metaworld.environments import environment_class, stock_class
from proctor.types import (
    ENVIRONMENT_STATE,
    IMAGE,
    NO_LOOK,
    STATE,
    BenchmarkSpec,
    Episode,
    Look,
    Observation,
    Outcome,
    Task,
)

_METRICS = (
    "near_object",
    "grasp_success",
    "grasp_reward",
    "in_place_reward",
    "obj_to_target",
    "unscaled_reward",
)


class MetaWorldSimulator:
    """Wraps a V3 environment so that seeding holds and drawing happens on a look only."""

    def __init__(self, task: Task, settings: MetaWorldSettings, spec: BenchmarkSpec) -> None:
        choose = stock_class if settings.stock else environment_class
        self._env = choose(task.name)(**camera_arguments(settings))
        self._cameras = MetaWorldCameras(self._env, settings)
        self._make_seedable()
        self._one_hot = np.equal(one_hot_tasks(settings), task.name).astype(np.float32)
        self._raw: NDArray[np.float64] = np.zeros(39)
        self._look: Look = NO_LOOK

    def _make_seedable(self) -> None:
        # What `MT1(name)` and `set_task` do, without sampling tasks that seeding would override anyway:
        # the goal is visible, and every reset draws its layout from the generator that `seed()` sets.
        env = self._env
        env._set_task_called = True
        env._partially_observable = False
        env.__dict__.pop("sawyer_observation_space", None)  # cached for a hidden goal
        env._freeze_rand_vec = False
        env.seeded_rand_vec = True

    def reset(self, episode: Episode, look: Look) -> None:
        """Start an episode. `reset(seed=...)` is ignored by Meta-World; `seed()` is not."""
        self._env.seed(episode.seed)
        self._raw, _ = self._env.reset()
        self._place_markers()
        self._expect(look)

    def _place_markers(self) -> None:
        # Meta-World moves its goal markers to their new place in the first step only: until then a camera would
        # see those of the episode before. This moves what is drawn, and nothing that physics goes by.
        env = self._env
        for name, position in env._target_site_config:
            env._set_pos_site(name, position)
        mujoco.mj_kinematics(env.model, env.data)

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        """Move physics; draw nothing."""
        self._raw, reward, _, truncated, info = self._env.step(action)
        self._expect(look)
        success = bool(info["success"])
        return Outcome(
            reward=float(reward),
            terminated=success,
            truncated=bool(truncated),
            success=success,
            metrics={name: float(info[name]) for name in _METRICS if name in info},
        )

    def observe(self) -> Observation:
        """Return what the look named; the image is drawn here."""
        makers: dict[str, Callable[[], NDArray[Any]]] = {
            STATE: lambda: self._raw[:4].copy(),
            ENVIRONMENT_STATE: lambda: self._raw,
            TASK_ONE_HOT: lambda: self._one_hot,
            IMAGE: lambda: self._cameras.picture(IMAGE),
        }
        return {key: makers[key]() for key in self._look}

    def layout(self) -> dict[str, float]:
        """Return where the goal is, and where the object was put."""
        places = (("goal", self._env._target_pos), ("object", self._env.obj_init_pos))
        return {
            f"{what}_{axis}": float(number)
            for what, place in places
            for axis, number in zip("xyz", place, strict=True)
        }

    def render(self) -> NDArray[np.uint8]:
        """Return the frame for videos."""
        return self._cameras.frame()

    def close(self) -> None:
        """Free the model, and what was drawn of it."""
        self._cameras.close()
        self._env.close()

    def _expect(self, look: Look) -> None:
        self._look = look
        self._cameras.expect(look)
