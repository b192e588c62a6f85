"""The tiny benchmark in another tint: the same physics, and pictures as of another renderer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.protocol import Simulator
from proctor.config.settings import EXECUTION
from proctor.types import Task
from tiny import Tiny, TinySettings, TinySimulator


@dataclass(frozen=True, kw_only=True)
class TintedSettings(TinySettings):
    tint: Annotated[int, EXECUTION, "added to every pixel"] = 0


class TintedTiny(Tiny):
    Settings = TintedSettings

    def make_simulator(self, task: Task) -> Simulator:
        assert isinstance(self.settings, TintedSettings)
        return Tinted(task, self.settings)


class Tinted(TinySimulator):
    def __init__(self, task: Task, settings: TintedSettings) -> None:
        super().__init__(task, settings)
        self._tint = settings.tint

    def render(self) -> NDArray[np.uint8]:
        picture: NDArray[Any] = super().render() + np.uint8(self._tint)
        return picture
