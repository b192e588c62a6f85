"""LeRobot's own loop on made-up observations, and whether a strategy does the same.

The same means more than the same actions: after every forward pass the policy and its processors must be in the
state in which the loop left its own. What a policy would do at the thousandth pass cannot be tried; that it counts
passes can be seen at the second.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from proctor.policies.lerobot.lane_resources import LaneResources
from proctor.policies.lerobot.randomness import EpisodeRandomness, HiddenDraw, InseparableDraw, own_generators
from proctor.policies.lerobot.state import State, difference, state_of
from proctor.policies.lerobot.strategies import Chunk, Draws, EpisodeMemory, Forward, OwnCopy
from proctor.policies.protocol import Window
from proctor.types import BenchmarkSpec, Observation

_LONGEST_CHUNK = 400
_PROMPTS = ("pick", "push the puck to the goal", "open the drawer, then put the green cube into it")


class SyntheticInputs:
    """Observations of the right shapes and nothing else."""

    def __init__(self, benchmark: BenchmarkSpec, keys: Sequence[str]) -> None:
        self._features = {key: benchmark.every[key] for key in keys}

    def at(self, step: int, episode: int = 0) -> Observation:
        """Return the observation of a step; the same one each time."""
        generator = np.random.default_rng((episode, step))
        observation: Observation = {"task": _PROMPTS[episode % len(_PROMPTS)]}
        for key, feature in self._features.items():
            if feature.dtype == "uint8":
                observation[key] = generator.integers(0, 256, feature.shape, dtype=np.uint8)
            else:
                observation[key] = generator.uniform(-1, 1, feature.shape).astype(feature.dtype)
        return observation

    def window(self, step: int, offsets: Sequence[int], episode: int = 0) -> Window:
        """Return the window at a step."""
        return tuple(self.at(max(0, step + offset), episode) for offset in offsets)


@dataclass
class ReferenceEpisode:
    """What LeRobot's own loop did in one episode.

    Attributes:
        actions: the robot's action at every step.
        passes: the steps at which a forward pass ran.
        states: how the policy, and its processors, were left after each of these steps.
    """

    actions: list[NDArray[Any]] = field(default_factory=list)
    passes: list[int] = field(default_factory=list)
    states: dict[int, tuple[State, State]] = field(default_factory=dict)

    @property
    def steps(self) -> int | None:
        """How many actions a forward pass gave; `None` if that is not always the same number."""
        lengths = {later - earlier for earlier, later in itertools.pairwise(self.passes)}
        return lengths.pop() if len(lengths) == 1 else None


def reference_episode(
    lane: LaneResources, device: Any, synthetic: SyntheticInputs, episode: int, passes: int
) -> ReferenceEpisode:
    """Run LeRobot's own loop on resources that nothing else uses, over so many forward passes."""
    loop = ReferenceEpisode()
    lane.policy.reset()
    calls = 0

    def count(module: Any, inputs: Any) -> None:
        nonlocal calls
        calls += 1

    hook = torch.nn.modules.module.register_module_forward_pre_hook(count)
    try:
        with lane.inference(), own_generators(EpisodeRandomness(episode), device):
            for step in itertools.count():
                batch = lane.batch([synthetic.at(step, episode)], rows=1)
                before = calls
                chosen = lane.policy.select_action(batch)
                if calls > before:
                    loop.passes.append(step)
                    loop.states[step] = state_of(lane.policy), {}
                loop.actions.append(lane.actions(chosen)[0])
                if step in loop.states:
                    loop.states[step] = loop.states[step][0], state_of(lane.processors)
                if len(loop.passes) == passes or step - max(loop.passes, default=0) == _LONGEST_CHUNK:
                    return loop
    finally:
        hook.remove()
    raise AssertionError("the loop above returns")


def prove(
    forward: Forward, synthetic: SyntheticInputs, loops: Sequence[ReferenceEpisode]
) -> tuple[Forward | None, str]:
    """Return the pass with the random numbers it needs, if it does what LeRobot's loop did; else why not."""
    sources: tuple[Draws, ...] = ("rows", "process")
    for draws in sources:
        candidate = dataclasses.replace(forward, draws=draws)
        rows = [candidate.begin(seed=episode) for episode in range(len(loops))]
        try:
            reason = _unlike(candidate, synthetic, loops, rows)
        except (InseparableDraw, HiddenDraw):
            continue  # not all that it draws can be each row's own
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        if reason is not None:
            return None, reason
        if draws == "rows" and not any(row.randomness and row.randomness.draws for row in rows):
            return dataclasses.replace(candidate, draws="none"), ""
        return candidate, ""
    return None, "its random numbers are not its episode's"


def _unlike(
    forward: Forward,
    synthetic: SyntheticInputs,
    loops: Sequence[ReferenceEpisode],
    rows: Sequence[EpisodeMemory],
) -> str | None:
    """Ask for all episodes in turns; return how they differ from LeRobot's loop on each alone, if they do."""
    left: list[State] = []
    if isinstance(forward.strategy, Chunk):
        spied = Chunk(
            forward.strategy.config, forward.strategy.steps, on_pass=lambda shadow: left.append(state_of(shadow))
        )
        forward = dataclasses.replace(forward, strategy=spied)
    strategy = forward.strategy
    for turn, step in enumerate(range(0, max(len(loop.actions) for loop in loops), strategy.steps)):
        # There and back: an episode is followed now by another one, now by itself.
        for episode in range(len(loops))[:: 1 if turn % 2 else -1]:
            loop = loops[episode]
            expected = loop.actions[step : step + strategy.steps]
            if not expected:
                continue
            (chunk,) = forward([synthetic.window(step, strategy.offsets, episode)], [rows[episode]])
            if chunk[: len(expected)].tobytes() != np.stack(expected).tobytes():
                return "it keeps more in mind between steps than the observations of its window"
            if step in loop.states and (kept := _kept(forward, loop.states[step], left)):
                return f"it keeps `{kept}` from one forward pass to the next"
    return None


def _kept(forward: Forward, expected: tuple[State, State], left: list[State]) -> str | None:
    """Return what is not as it was after LeRobot's loop had come to the same step, if there is anything."""
    if isinstance(forward.strategy, OwnCopy):
        return None  # nothing of it is another episode's
    with forward.pool.one() as lane:
        policy = left.pop() if left else state_of(lane.policy)
        processors = state_of(lane.processors)
    theirs, their_processors = expected
    own = getattr(forward.strategy, "memory", None)
    if own is not None:  # the episode's own, and compared by what comes of it
        policy, theirs = ({p: v for p, v in one.items() if not p.startswith(own)} for one in (policy, theirs))
    return difference(policy, theirs) or difference(processors, their_processors)
