"""vla-eval's own model server around a small model, for the tests: prints its port, serves until killed.

Run in a process of its own, because it is their code that is to run: their event loop, codec and chunk buffer.
"""

from __future__ import annotations

import sys
from typing import Any

import anyio
import numpy as np
from vla_eval.model_servers.predict import PredictModelServer
from vla_eval.model_servers.serve import serve_async


class Small(PredictModelServer):  # type: ignore[misc]
    """Acts on state, image and prompt; fails when told to."""

    def predict(self, obs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        if sys.argv[1] == "raise":
            raise ValueError("no such camera")
        base = float(obs["states"][0]) + float(obs["images"]["image"].mean()) / 255 + len(obs["task_description"])
        return {"actions": np.tanh(np.full((4, 2), base) + ctx.step)}


async def main() -> None:
    server = Small(chunk_size=int(sys.argv[2]) or None)
    async with anyio.create_task_group() as group:
        port = await group.start(serve_async, server, "127.0.0.1", 0)
        print(port, flush=True)  # noqa: T201 - the test reads it


anyio.run(main)
