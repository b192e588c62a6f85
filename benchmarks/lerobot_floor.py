"""The floor under an evaluation of LeRobot's ACT on Meta-World: a step, a drawing, a forward pass, and again."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import Any

from proctor.machine.resources import usable_cores

SECONDS = 15.0
TASK = "reach-v3"


def alone(checkpoint: Path, barrier: Any, paces: Any, place: int) -> None:
    """One core: a step, so that something has moved, a drawing, and a forward pass of one thread."""
    import numpy as np
    import torch
    from lerobot.policies.act.modeling_act import ACTPolicy

    from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
    from proctor.types import IMAGE, Episode

    torch.set_num_threads(1)
    policy = ACTPolicy.from_pretrained(checkpoint).eval()
    benchmark = MetaWorld(MetaWorldSettings(type="metaworld", task=TASK))
    (task,) = benchmark.tasks()
    simulator: Any = benchmark.make_simulator(task)
    look, actions = frozenset({IMAGE}), np.random.default_rng(place)
    simulator.reset(Episode(task, 0, place), look)
    state, count, began = torch.zeros(1, 4), -1, 0.0  # the first pass warms up
    with torch.inference_mode():
        while count < 0 or time.monotonic() - began < SECONDS:
            simulator.step(actions.uniform(-1, 1, 4), look)
            picture = torch.from_numpy(simulator.observe()[IMAGE]).permute(2, 0, 1)[None].float() / 255
            policy.predict_action_chunk({"observation.image": picture, "observation.state": state})
            count += 1
            if not count:
                barrier.wait()
                began = time.monotonic()
    paces[place] = count / (time.monotonic() - began)
    simulator.close()


def chunks_per_second(checkpoint: Path) -> float:
    """Return how many chunks of actions all cores come to, each on its own."""
    context, cores = multiprocessing.get_context("spawn"), usable_cores()
    barrier, paces = context.Barrier(cores), context.Array("d", cores)
    processes = [context.Process(target=alone, args=(checkpoint, barrier, paces, place)) for place in range(cores)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode:
            barrier.abort()
            raise RuntimeError(f"measuring the floor ended with status {process.exitcode}")
    return float(sum(paces[:]))
