"""How many environments of a task step together: LeRobot's rule."""

from __future__ import annotations

import math

from proctor.errors import UsageError
from proctor.machine.resources import usable_cores

_MOST = 64


def batch_size(n_envs: int, n_episodes: int | None = None, cores: int | None = None) -> int:
    """Return how many environments to make: what was asked for, or by the cores if 0 were; at most the episodes.

    >>> batch_size(0, n_episodes=50, cores=16)
    11
    >>> batch_size(0, n_episodes=5, cores=16)
    5
    >>> batch_size(0, cores=1), batch_size(0, cores=500), batch_size(100)
    (1, 64, 100)
    """
    if n_envs < 0:
        raise UsageError(f"n_envs={n_envs}: must be at least 1, or 0 for as many as the cores make useful.")
    if n_episodes is not None and n_episodes < 1:
        raise UsageError(f"n_episodes={n_episodes}: must be at least 1.")
    if n_envs == 0:
        # A core for each, and some left for the policy.
        n_envs = min(max(1, math.floor(0.7 * (cores or usable_cores()))), _MOST)
    return n_envs if n_episodes is None else min(n_envs, n_episodes)
