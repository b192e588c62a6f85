"""What stands in for a CUDA graph where there is no GPU: operations on tensors, done again in the memory they had.

It holds what a graph holds, and refuses what capturing refuses: values that Python would have to wait for, and
random numbers from a generator. As with a graph, whoever asks is told that a recording goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal")


class Refused(Exception):
    """The tape cannot hold it."""


class Tape(TorchDispatchMode):  # type: ignore[misc]
    """Within it, operations are taken down; `replay` does them again."""

    def __init__(self) -> None:
        super().__init__()
        self._taken: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        masked = name.startswith("index") and any(one.dtype == torch.bool for one in _tensors(args[1:2]))
        before = torch.default_generator.get_state()
        result = func(*args, **kwargs)
        is_random = kwargs.get("generator") is not None or not torch.equal(
            before, torch.default_generator.get_state()
        )
        if name in WAITS or masked or is_random:
            raise Refused(name)
        self._taken.append((func, args, kwargs, result))
        return result

    def replay(self) -> None:
        for func, args, kwargs, result in self._taken:
            for old, new in zip(_tensors(result), _tensors(func(*args, **kwargs)), strict=True):
                if old.untyped_storage()._cdata != new.untyped_storage()._cdata:
                    old.copy_(new)


def taped(device: Any, asked: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """Record as `cuda_graph.captured` does."""
    asked()
    with Tape() as tape, patch.object(torch.cuda, "is_current_stream_capturing", lambda: True):
        output = asked()
    return tape.replay, output


def _tensors(values: Any) -> list[torch.Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]
