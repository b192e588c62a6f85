"""How many workers, and where the policy runs: in one host for all, or in every worker, with the same bits.

A host pays for import and weights once, and an ask crosses a process boundary. A copy in every worker crosses
nothing and never waits for a lane, but every worker pays for import and weights.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from proctor.policies.protocol import Cost

CROSSING = 1e-4
"""Seconds that a question to the host and its answer take, measured with small observations."""

Placement = Literal["central", "worker"]

_WORKER_BYTES = 400 << 20
"""What a worker that draws takes, measured."""

_WORKER_FILES, _OTHER_FILES = 8, 64
"""Descriptors of a worker, with some for the one that may take its place, and of everything else."""

MOST_PER_CORE = 4
"""Workers per core beyond which more have never been of use."""


def choose_placement(cost: Cost | None, asks: float, workers: int, cores: int, free_memory: int) -> Placement:
    """Return the placement with the shorter policy time, by what the policy was measured to cost.

    Args:
        cost: measured at the policy's start; `None`: unknown, or on a device, where one copy serves best.
        asks: how often the policy will be asked, over all episodes.
        workers: how many workers there will be.
        cores: how many of them can run at once.
        free_memory: bytes that copies may take.

    >>> small = Cost(load=0.1, act=0.001, side_by_side=1.0, memory=0)
    >>> choose_placement(small, asks=10_000, workers=8, cores=8, free_memory=0)
    'worker'
    >>> choose_placement(small._replace(load=60.0), asks=10_000, workers=8, cores=8, free_memory=0)
    'central'
    """
    if cost is None or cost.memory * workers > free_memory:
        return "central"
    central = asks * cost.act / cost.side_by_side + asks * CROSSING / workers
    # Loads share the cores too.
    copies = cost.load * workers / min(workers, cores) + asks * cost.act / min(workers, cores)
    return "worker" if copies < central else "central"


class Crew(NamedTuple):
    """How many workers a run begins with, and how many it may come to have."""

    start: int
    most: int


def crew_size(asked: int, episodes: int, cores: int, memory: int, files: int, on_gpu: bool = False) -> Crew:
    """Return the number that was asked for, or what the machine makes sensible; never more than episodes.

    Args:
        asked: the user's number; 0: by itself.
        episodes: how many there are to run.
        cores: how many workers can run at once.
        memory: bytes that workers may take.
        files: descriptors that this process may have open.
        on_gpu: whether a GPU draws or holds the policy: workers then wait for it, and more of them keep it busy.

    >>> crew_size(0, episodes=100, cores=8, memory=64 << 30, files=1024)
    Crew(start=8, most=32)
    >>> crew_size(0, episodes=100, cores=8, memory=64 << 30, files=1024, on_gpu=True)
    Crew(start=16, most=32)
    >>> crew_size(50, episodes=20, cores=8, memory=64 << 30, files=1024)
    Crew(start=20, most=20)
    """
    if asked:
        return Crew(*[max(1, min(asked, episodes))] * 2)
    room = max(1, min(episodes, memory // _WORKER_BYTES, (files - _OTHER_FILES) // _WORKER_FILES))
    return Crew(min(cores * (2 if on_gpu else 1), room), min(MOST_PER_CORE * cores, room))
