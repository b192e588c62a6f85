"""The world of `pictures.py` as vla-eval's own classes have it; run as a program, it is the model server."""

from __future__ import annotations

import sys
from typing import Any

import anyio
from pictures import ACTION, CAMERAS, LENGTH, World, act
from vla_eval.benchmarks.base import StepBenchmark, StepResult
from vla_eval.model_servers.predict import PredictModelServer
from vla_eval.model_servers.serve import serve_async
from vla_eval.specs import DimSpec

SPEC = {"action": DimSpec("action", ACTION, "delta")}


class PicturesBenchmark(StepBenchmark):  # type: ignore[misc]
    """Their benchmark."""

    render_backends = frozenset({"gpu", "cpu"})

    @classmethod
    def configure_render(cls, mode: str) -> dict[str, str]:
        return {}

    def __init__(self) -> None:
        super().__init__()
        self._world, self._seed, self._steps = World(), 0, 0

    def get_tasks(self) -> list[dict[str, Any]]:
        return [{"name": "pictures"}]

    def reset(self, task: dict[str, Any]) -> World:
        self._seed, self._steps = self._seed + 1, 0
        self._world.reset(self._seed)
        return self._world

    def step(self, action: dict[str, Any]) -> StepResult:
        self._steps += 1
        self._world.step(action["actions"])
        return StepResult(self._world, 0.0, self._steps >= LENGTH, {})

    def make_obs(self, raw_obs: World, task: dict[str, Any]) -> dict[str, Any]:
        pictures = {name: raw_obs.picture(number) for number, name in enumerate(CAMERAS)}
        return {"images": pictures, "states": raw_obs.state.copy(), "task_description": "move"}

    def get_step_result(self, step_result: StepResult) -> dict[str, Any]:
        return {"success": False}

    def get_action_spec(self) -> dict[str, DimSpec]:
        return SPEC

    def get_observation_spec(self) -> dict[str, DimSpec]:
        return {}


class PicturesServer(PredictModelServer):  # type: ignore[misc]
    """Their model server."""

    def predict(self, obs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"actions": act(obs["states"], [obs["images"][name] for name in CAMERAS], self.chunk_size or 1)}

    def get_action_spec(self) -> dict[str, DimSpec]:
        return SPEC

    def get_observation_spec(self) -> dict[str, DimSpec]:
        return {}


async def main() -> None:
    """Serve until killed; print the port."""
    async with anyio.create_task_group() as group:
        server = PicturesServer(chunk_size=int(sys.argv[1]))
        port = await group.start(serve_async, server, "127.0.0.1", 0)
        print(port, flush=True)


if __name__ == "__main__":
    anyio.run(main)
