"""What drawing only on a look saves on LIBERO: CPU time per step with chunks of ten against a look at every step.

The tasks are two on miniature assets (boxes in place of meshes): real ones have more to draw and more contacts.
Both ways run the same episode in turn, in one process, with Proctor's own loop; the clock is this process's CPU
time from the first question to the end, so neither waiting nor other programs count. Run: make benchmark-libero
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from proctor.benchmarks.libero.simulator import LiberoSimulator

from figures import report

from proctor.benchmarks.libero.benchmark import Libero, LiberoSettings
from proctor.benchmarks.rendering import find_renderer
from proctor.engine.meter import Meter
from proctor.engine.rollout import PolicyView, run_episode
from proctor.engine.transport import Phase
from proctor.policies.protocol import PolicySpec
from proctor.types import Episode, Observation

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from libero_assets import ARTICULATED, PICK_AND_PLACE, make_assets

CHUNK = 10


class Rehearsed:
    """Plays actions that are fixed beforehand, some at a time, and starts the clock with the first question."""

    def __init__(self, actions: NDArray[Any], chunk: int) -> None:
        self._actions, self._chunk = actions, chunk

    phase = Phase.ACT

    def begin(self, episode: Episode) -> None:
        self._step, self.started = 0, time.process_time()

    def act(self, window: Sequence[Observation]) -> NDArray[Any]:
        self._step += self._chunk
        return self._actions[self._step - self._chunk : self._step]


def milliseconds(
    benchmark: Libero, simulator: LiberoSimulator, episode: Episode, chunk: int
) -> tuple[float, bytes]:
    """Return the CPU time of one step, and where everything ended up."""
    actions = np.random.default_rng(0).uniform(-1, 1, (episode.task.max_steps, 7)).astype(np.float32)
    actor = Rehearsed(actions, chunk)
    view = PolicyView.of(PolicySpec(action_steps=chunk), benchmark.spec)
    record = run_episode(simulator, episode, actor, view, Meter())
    spent = time.process_time() - actor.started
    end: bytes = simulator._world.sim.get_state().flatten().tobytes()
    return 1000 * spent / record.steps, end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--size", type=int, default=360, help="height and width of both pictures")
    options = parser.parse_args()
    renderer = find_renderer()
    os.environ.update(renderer.env)
    load = os.getloadavg()[0]
    print(f"{renderer.name}, two cameras of {options.size}x{options.size}, load {load:.1f} at the start")
    with tempfile.TemporaryDirectory() as scratch:
        assets = make_assets(Path(scratch) / "assets")
        for suite, task_id in (PICK_AND_PLACE, ARTICULATED):
            settings = LiberoSettings(
                type="libero",
                task=suite,
                task_ids=(task_id,),
                assets_path=str(assets),
                episode_length=options.steps,
                observation_height=options.size,
                observation_width=options.size,
            )
            compare(Libero(settings), options.rounds)


def compare(benchmark: Libero, rounds: int) -> None:
    task = benchmark.tasks()[0]
    from proctor.benchmarks.libero.simulator import LiberoSimulator  # here: GL is chosen by now

    simulator = LiberoSimulator(task, benchmark.settings, benchmark.cameras)
    milliseconds(benchmark, simulator, Episode(task, 0, 1000), 1)  # the first draws compile shaders
    always, chunks = [], []
    for index in range(rounds):
        episode = Episode(task, index, 1000 + index)
        one, end = milliseconds(benchmark, simulator, episode, 1)
        ten, same_end = milliseconds(benchmark, simulator, episode, CHUNK)
        assert end == same_end, "looking changed the physics"
        always.append(one)
        chunks.append(ten)
    simulator.close()
    ratios = sorted(one / ten for one, ten in zip(always, chunks, strict=True))
    report(
        f"{task.group} {task.task_id}, drawing every {CHUNK}th step against every step",
        ratios,
        absolute=f"{statistics.median(chunks):.1f} against {statistics.median(always):.1f} ms CPU a step",
    )


if __name__ == "__main__":
    main()
