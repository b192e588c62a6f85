"""Where random numbers come from, a policy's and those of noise: generators keyed by the episode alone."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from proctor.types import Episode


def episode_generator(episode: Episode, purpose: str | None = None) -> np.random.Generator:
    """Return the generator of an episode: Philox, keyed by SHA-256 of (seed, task name, index).

    The policy's has no purpose; each other purpose has a generator of its own.

    It is advanced by that episode alone, so no batch, worker or neighbour can change what it draws.
    """
    run_seed = episode.seed - episode.index
    key = [run_seed, episode.task.name, episode.index, *([] if purpose is None else [purpose])]
    words = json.dumps(key).encode()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(hashlib.sha256(words).digest()[:16], "little")))
