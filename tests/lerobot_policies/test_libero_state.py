"""LIBERO's state of eight numbers against LeRobot's own processor."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import torch
from lerobot.envs.configs import LiberoEnv
from lerobot.processor.env_processor import LiberoProcessorStep

from proctor.benchmarks.libero.benchmark import MAX_STEPS, LiberoSettings
from proctor.benchmarks.libero.simulator import robot_state


def test_the_state_is_what_lerobots_processor_makes() -> None:
    random = np.random.default_rng(0)
    quaternions = random.normal(size=(200, 4))
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    quaternions[0] = [0, 0, 0, 1]
    positions, fingers = random.normal(size=(200, 3)), random.normal(size=(200, 2))
    theirs = (
        LiberoProcessorStep()
        .observation(
            {
                "observation.robot_state": {
                    "eef": {"pos": torch.from_numpy(positions), "quat": torch.from_numpy(quaternions)},
                    "gripper": {"qpos": torch.from_numpy(fingers)},
                }
            }
        )["observation.state"]
        .numpy()
    )
    ours = np.stack([robot_state(*row) for row in zip(positions, quaternions, fingers, strict=True)])
    assert theirs.dtype == ours.dtype
    assert np.array_equal(ours[:, [0, 1, 2, 6, 7]], theirs[:, [0, 1, 2, 6, 7]])
    # Two libraries' arc cosine in single precision.
    assert np.allclose(ours[:, 3:6], theirs[:, 3:6], rtol=0, atol=2e-6)


def test_flags_and_defaults_are_those_of_lerobots_config() -> None:
    theirs, ours = LiberoEnv(), LiberoSettings()
    for name in (
        "task", "task_ids", "episode_length", "obs_type", "camera_name", "camera_name_mapping", "init_states",
        "observation_height", "observation_width", "control_mode",
    ):  # fmt: skip
        assert getattr(ours, name) == getattr(theirs, name), name
    # Importing their wrapper would take LIBERO itself.
    source = Path(inspect.getfile(LiberoEnv)).with_name("libero.py").read_text()
    assert all(f'"{suite}": {steps},' in source for suite, steps in MAX_STEPS.items())
