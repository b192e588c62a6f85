"""Episodes of LIBERO in a process of their own, step by step: `python libero_rollout.py ROUTE ASSETS EPISODE...`

An episode is SUITE:TASK:INDEX. It prints a line of JSON for each: digests and states of what was seen, by step,
all rewards, and a digest of the physics at the end. Routes: `looks` and `always` are Proctor's simulator, looking
every tenth step and every step; `blind` is the same without any GL; `theirs` is LIBERO used as LeRobot uses it,
drawing always, built anew for every episode.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from proctor.benchmarks.libero.assets import package_root
from proctor.benchmarks.libero.benchmark import Libero, LiberoSettings, suites
from proctor.benchmarks.libero.installation import import_libero
from proctor.benchmarks.libero.simulator import LiberoSimulator
from proctor.types import NO_LOOK, STATE, Episode

STEPS, EVERY, SIZE, SEED = 50, 10, 64, 1000
IMAGES = {"agentview_image": "observation.images.image", "robot0_eye_in_hand_image": "observation.images.image2"}


def actions(index: int) -> Any:
    return np.random.default_rng(index).uniform(-1, 1, (STEPS, 7)).astype(np.float32)


def digest(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def ours(route: str, assets: Path, episodes: list[tuple[str, int, int]]) -> Iterator[dict[str, Any]]:
    built: tuple[tuple[str, int], Any] | None = None
    settings = LiberoSettings(
        type="libero",
        task=",".join(suites()),
        assets_path=str(assets),
        observation_height=SIZE,
        observation_width=SIZE,
    )
    benchmark = Libero(settings)
    tasks = {(task.group, task.task_id): task for task in benchmark.tasks()}
    keys = frozenset({STATE}) if route == "blind" else frozenset(benchmark.spec.features)
    for suite, task_id, index in episodes:
        key = suite, task_id
        if built is None or built[0] != key:
            if built is not None:
                built[1].close()
            built = key, benchmark.make_simulator(tasks[key])
        simulator = built[1]
        assert isinstance(simulator, LiberoSimulator)
        simulator.reset(Episode(tasks[key], index, SEED + index), keys)
        seen, rewards = {0: simulator.observe()}, []
        for step, action in enumerate(actions(index), 1):
            look = keys if route == "always" or step % EVERY == 0 else NO_LOOK
            rewards.append(simulator.step(action, look).reward)
            if look:
                seen[step] = simulator.observe()
        yield told(seen, rewards, simulator._world.sim)


def theirs(assets: Path, episodes: list[tuple[str, int, int]]) -> Iterator[dict[str, Any]]:
    envs = import_libero(assets)
    from robosuite.utils.transform_utils import quat2axisangle

    root = package_root()
    for suite, task_id, index in episodes:
        name = suites()[suite][task_id]
        with zipfile.ZipFile(root / "init_files" / suite / f"{name}.pruned_init") as archive:
            member = next(member for member in archive.namelist() if member.endswith("data.pkl"))
            states = pickle.loads(archive.read(member))
        env = envs.OffScreenRenderEnv(
            bddl_file_name=str(root / "bddl_files" / suite / f"{name}.bddl"),
            camera_heights=SIZE,
            camera_widths=SIZE,
            control_freq=20,
            hard_reset=True,
        )
        env.reset()
        env.seed(SEED + index)
        env.reset()
        env.set_init_state(states[index % len(states)])
        for _ in range(10):
            raw, *_ = env.step([0, 0, 0, 0, 0, 0, -1])
        seen, rewards = {0: raw}, []
        for step, action in enumerate(actions(index), 1):
            seen[step], reward, *_ = env.step(action)
            rewards.append(float(reward))
        observations = {
            step: {
                **{key: raw[camera][::-1, ::-1] for camera, key in IMAGES.items()},
                STATE: np.concatenate(
                    [raw["robot0_eef_pos"], quat2axisangle(raw["robot0_eef_quat"]), raw["robot0_gripper_qpos"]]
                ).astype(np.float32),
            }
            for step, raw in seen.items()
        }
        yield told(observations, rewards, env.sim)
        env.close()


def told(seen: dict[int, dict[str, Any]], rewards: list[float], sim: Any) -> dict[str, Any]:
    return {
        "images": {
            step: {key: digest(value) for key, value in sorted(observation.items()) if key != STATE}
            for step, observation in seen.items()
        },
        "states": {step: observation[STATE].tolist() for step, observation in seen.items()},
        "dark": any(not value.any() for observation in seen.values() for value in observation.values()),
        "rewards": rewards,
        "physics": digest(sim.get_state().flatten()),
    }


if __name__ == "__main__":
    route, assets, *plan = sys.argv[1:]
    chosen = [(suite, int(task), int(index)) for suite, task, index in (entry.split(":") for entry in plan)]
    for answer in theirs(Path(assets), chosen) if route == "theirs" else ours(route, Path(assets), chosen):
        print(json.dumps(answer), flush=True)  # noqa: T201
