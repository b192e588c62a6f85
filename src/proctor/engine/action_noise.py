"""Noise between policy and simulator (`--eval.noise`): the same policy, seen in states that it would not come to.

Demonstrations without it never show how to come back from a small error; with it they do, because the label is
what the policy wanted and not what was executed. An episode's noise depends on the episode alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.config.combinations import noise_levels
from proctor.config.settings import EvalConfig
from proctor.engine.randomness import episode_generator
from proctor.errors import UsageError
from proctor.types import BenchmarkSpec, Episode


@dataclass(frozen=True)
class ActionNoise:
    """How much noise a run's actions get.

    Attributes:
        levels: standard deviations, as shares of half an action's range. An episode has one of them throughout.
        share: of the steps that get noise.
    """

    levels: tuple[float, ...]
    share: float

    @classmethod
    def of(cls, settings: EvalConfig, spec: BenchmarkSpec) -> ActionNoise | None:
        """Return the noise of a run, if there is any. Raises `UsageError` where actions have no range."""
        levels = noise_levels(settings)
        if not any(levels) or not settings.noise_share:
            return None
        if spec.action_integers or not np.isfinite([spec.action_low, spec.action_high]).all():
            raise UsageError(
                f"--eval.noise={settings.noise}: {spec.name} takes actions that are whole numbers or have no "
                "bounds, and noise is a share of an action's range. Leave it out."
            )
        return cls(levels, settings.noise_share)

    def of_episode(self, episode: Episode, spec: BenchmarkSpec) -> EpisodeNoise:
        """Return the noise of one episode."""
        return EpisodeNoise(self, episode, spec)


class EpisodeNoise:
    """Turns what a policy wants into what is executed, action by action."""

    def __init__(self, noise: ActionNoise, episode: Episode, spec: BenchmarkSpec) -> None:
        self._generator = episode_generator(episode, "noise")
        self._share = noise.share
        self._low, self._high = np.asarray(spec.action_low), np.asarray(spec.action_high)
        level = noise.levels[int(self._generator.integers(len(noise.levels)))]
        self._spread = level * (self._high - self._low) / 2

    def __call__(self, action: NDArray[Any]) -> NDArray[Any]:
        """Return the action to execute: of the same type, and within the bounds where there is noise."""
        # Drawn in every step, needed or not: how often noise comes changes nothing about how much there is later.
        now, drawn = self._generator.random() < self._share, self._generator.standard_normal(action.shape)
        if not now or not self._spread.any():
            return action
        within = np.clip(action, self._low, self._high)
        noisy: NDArray[Any] = np.clip(within + self._spread * drawn, self._low, self._high)
        return noisy.astype(action.dtype)
