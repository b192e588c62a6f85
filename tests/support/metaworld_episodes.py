"""Play Meta-World's episodes in a process of its own and print what each comes to, step by step, as one digest.

    python metaworld_episodes.py quick|stock STEPS ACTOR:SEED[,...] TASK...

An actor is `expert`, or random: `float32`, `float64`, or `wild`, which goes beyond the bounds.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.policies.baselines import ExpertPolicy
from proctor.types import ENVIRONMENT_STATE, Episode, Task

Actor = Callable[[NDArray[np.float64]], NDArray[Any]]
LOOK = frozenset({ENVIRONMENT_STATE})
RANDOM = {"float32": ("float32", 1.0), "float64": ("float64", 1.0), "wild": ("float32", 4.0)}


def expert(task: Task, seed: int) -> Actor:
    policy, rng = ExpertPolicy(), np.random.default_rng(seed)
    memory = policy.begin(task)

    def act(state: NDArray[np.float64]) -> NDArray[Any]:
        chunks, _ = policy.act([({ENVIRONMENT_STATE: state},)], [memory], [rng])
        return np.asarray(chunks[0][0])

    return act


def random(dtype: str, reach: float, seed: int) -> Actor:
    rng = np.random.default_rng(seed)
    return lambda state: rng.uniform(-reach, reach, 4).astype(dtype)


def physics(env: Any) -> bytes:
    """Return all that MuJoCo's next step depends on, and where it has put everything."""
    everything = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(env.model, everything))
    mujoco.mj_getState(env.model, env.data, state, everything)
    places = env.data.xpos, env.data.xquat, env.data.geom_xpos, env.data.site_xpos, env.model.body_pos
    return b"".join(part.tobytes() for part in (state, *places, env.model.site_pos))


def play(simulator: Any, task: Task, seed: int, act: Actor, steps: int) -> Iterator[bytes]:
    simulator.reset(Episode(task, 0, seed), LOOK)
    yield repr(simulator.layout()).encode()
    for _ in range(steps):
        state = simulator.observe()[ENVIRONMENT_STATE]
        yield state.tobytes() + physics(simulator._env)
        outcome = simulator.step(act(state), LOOK)
        yield repr(outcome).encode()  # numbers in full
        if outcome.truncated:
            break


def main(route: str, steps: str, plays: str, *tasks: str) -> None:
    for name in tasks:
        benchmark = MetaWorld(
            MetaWorldSettings(type="metaworld", task=name, obs_type="state", stock=route == "stock")
        )
        (task,) = benchmark.tasks()
        simulator = benchmark.make_simulator(task)
        is_stock = type(simulator._env).evaluate_state.__globals__["np"] is np  # type: ignore[attr-defined]
        assert is_stock == (route == "stock")
        for entry in plays.split(","):
            actor, seed = entry.split(":")
            act = expert(task, int(seed)) if actor == "expert" else random(*RANDOM[actor], int(seed))
            digest = hashlib.sha256(b"".join(play(simulator, task, int(seed), act, int(steps))))
            sys.stdout.write(f"{name} {entry} {digest.hexdigest()}\n")
        simulator.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
