"""A forward pass recorded once and replayed: one launch instead of hundreds.

A small network on a large GPU spends most of its time in launching kernels, and keeps drawing processes waiting
meanwhile. Batches have one shape, so the pass can be recorded. It is used only if `rehearsal` finds that replays
give the bits of the pass itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Batch = dict[str, Any]
Ask = Callable[[Sequence[Batch]], Any]

_WARM_UP = 3


class Recording:
    """One forward pass on tensors of its own; replays read new values from them."""

    def __init__(self, ask: Ask, window: Sequence[Batch], device: Any) -> None:
        self._inputs = [_with_own_tensors(batch) for batch in window]
        self._graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream(device)
        # What a network makes by itself, it makes on the device: a copy from the host cannot be recorded.
        with torch.device(device):
            for _ in range(_WARM_UP):
                ask(self._inputs)
            stream.synchronize()
            with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
                self._output = ask(self._inputs)

    def __call__(self, window: Sequence[Batch]) -> Any:
        """Return the pass's output for new inputs; the next replay overwrites it."""
        for own, given in zip(self._inputs, window, strict=True):
            for key, tensor in own.items():
                if isinstance(tensor, torch.Tensor):
                    tensor.copy_(given[key])
        self._graph.replay()
        return self._output


def _with_own_tensors(batch: Batch) -> Batch:
    return {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
