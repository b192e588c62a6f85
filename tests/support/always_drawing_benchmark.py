"""MuJoCo drawn in every step, as an ordinary env does that returns its picture from `step`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor import BenchmarkSpec, Episode, Feature, Look, Observation, Outcome, Simulator, Task
from sound_benchmark import IMAGE, STATE, Sound, SoundSimulator

_SCENE = """<mujoco><worldbody><light pos="0 0 3"/><geom type="box" size=".3 .3 .3"/></worldbody></mujoco>"""


class DrawsEveryStep(Sound):
    uses_gl = True

    @property
    def spec(self) -> BenchmarkSpec:
        features = {STATE: Feature((3,), "float64"), IMAGE: Feature((16, 16, 3), "uint8", drawn=True)}
        return BenchmarkSpec(name="drawn", features=features, action_size=2)

    def make_simulator(self, task: Task) -> Simulator:
        return DrawingSimulator(task)


class SaysThatItDrawsEveryStep(DrawsEveryStep):
    draws_on_look = False


class DrawingSimulator(SoundSimulator):
    def __init__(self, task: Task) -> None:
        import mujoco

        super().__init__(task)
        model = mujoco.MjModel.from_xml_string(_SCENE)
        self._data = mujoco.MjData(model)
        mujoco.mj_forward(model, self._data)
        self._renderer = mujoco.Renderer(model, 16, 16)

    def reset(self, episode: Episode, look: Look) -> None:
        super().reset(episode, look)
        self._image = self._draw()

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        outcome = super().step(action, look)
        self._image = self._draw()
        return outcome

    def observe(self) -> Observation:
        return {key: self._image if key == IMAGE else self.state.copy() for key in self.look}

    def draw(self) -> NDArray[np.uint8]:
        return self._image

    def close(self) -> None:
        self._renderer.close()

    def _draw(self) -> NDArray[np.uint8]:
        self._renderer.update_scene(self._data)
        image: NDArray[np.uint8] = self._renderer.render()
        return image
