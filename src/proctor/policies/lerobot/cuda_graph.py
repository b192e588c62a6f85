"""One forward pass as a CUDA graph, on tensors of its own; replays read new values from them.

A small network on a large GPU spends most of its time in launching kernels, and keeps drawing processes waiting
meanwhile. Batches have one shape, so the pass can be recorded: one launch instead of hundreds. It is used only if
the trial finds that replays give the bits of the pass itself.

A graph holds kernels, and nothing of what the host does between them. A pass that draws random numbers, waits for
the device or copies from the host is recorded by its script (`pass_script`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from proctor.policies.lerobot.pass_script import PassScript
from proctor.policies.lerobot.randomness import EpisodeRandomness

Batch = dict[str, Any]
Ask = Callable[[Sequence[Batch]], Any]
Capture = Callable[[Callable[[], Any]], tuple[Callable[[], None], Any]]
"""Record what a function does on the device; returns how to do it again, and the function's output."""

_recording = threading.Lock()


class RecordedPass:
    """A pass that has been recorded.

    Args:
        ask: the pass.
        window: inputs of the shapes that every replay will have.
        rows: each row's random numbers; empty if the pass draws none.
        by_script: record what the pass does by its script.
        device: where the network is.
        capture: makes the recording.
    """

    def __init__(
        self,
        ask: Ask,
        window: Sequence[Batch],
        rows: Sequence[EpisodeRandomness],
        by_script: bool,
        device: Any,
        capture: Capture | None = None,
    ) -> None:
        self._inputs = [_with_own_tensors(batch) for batch in window]
        self._script: PassScript | None = None
        if by_script:
            # With numbers of its own: no episode's generator may move for a rehearsal.
            self._script = PassScript(ask, self._inputs, [EpisodeRandomness(0) for _ in rows])
            asked = self._script.follow
        else:
            asked = partial(_made_on, device, ask)

        def ask_unawares() -> Any:
            with _unawares():
                return asked(self._inputs)

        self._replay, self._output = (capture or partial(captured, device))(ask_unawares)

    def __call__(self, window: Sequence[Batch], rows: Sequence[EpisodeRandomness]) -> Any:
        """Return the pass's output for new inputs; the next replay overwrites it."""
        for own, given in zip(self._inputs, window, strict=True):
            for key, tensor in own.items():
                if isinstance(tensor, torch.Tensor):
                    tensor.copy_(given[key])
        if self._script is not None:
            self._script.draw(rows)
        self._replay()
        return self._output


def captured(device: Any, asked: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """Record on a CUDA device, on the stream that is current there."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream(device)
    asked()  # what libraries make at their first call cannot be recorded
    stream.synchronize()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        output = asked()
    return graph.replay, output


@contextmanager
def _unawares() -> Iterator[None]:
    """Let nobody see that a pass is recorded: transformers, for one, then makes masks that give other bits."""
    with _recording:
        known = torch.cuda.is_current_stream_capturing
        torch.cuda.is_current_stream_capturing = lambda: False
        try:
            yield
        finally:
            torch.cuda.is_current_stream_capturing = known


def _made_on(device: Any, ask: Ask, window: Sequence[Batch]) -> Any:
    # What a network makes by itself, it makes on the device: a copy from the host cannot be recorded.
    with torch.device(device):
        return ask(window)


def _with_own_tensors(batch: Batch) -> Batch:
    return {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
