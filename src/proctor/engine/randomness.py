"""Where a policy's random numbers come from: one generator per episode, keyed by the episode alone."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from proctor.types import Episode


def episode_generator(episode: Episode) -> np.random.Generator:
    """Return the generator of an episode: Philox, keyed by SHA-256 of (seed, task name, index).

    It is advanced by that episode alone, so no batch, worker or neighbour can change what it draws.
    """
    run_seed = episode.seed - episode.index
    words = json.dumps([run_seed, episode.task.name, episode.index]).encode()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(hashlib.sha256(words).digest()[:16], "little")))
