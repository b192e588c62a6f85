"""What the host does in a forward pass, found by a rehearsal, so that what is left can be recorded.

Two things that a CUDA graph cannot hold are done outside of it:

- Random numbers. Before each replay they are drawn from each row's own generator, in the order and by the
  functions of the pass, into tensors that the pass reads. What they are drawn from must not depend on inputs.
- Whatever no input has a part in: masks and positions, constants copied from the host, values that Python branches
  on. It was computed once, in the rehearsal, and the recorded pass is given that.

Whether an operation depends on inputs is followed from operation to operation, by the memory that it reads and
writes. Nothing of this is believed: a recording counts only if the trial finds that it gives the bits of the pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from proctor.policies.lerobot.randomness import (
    DRAWN_BY_SHAPE,
    FILLS,
    EpisodeRandomness,
    RowRandomness,
    drawn,
    is_draw,
)

_FROM_HOST = (torch.tensor, torch.as_tensor)
_ALIAS = torch.ops.aten.detach.default
"""Called by torch itself of a new tensor that somebody else holds, too, which is no business of the pass."""


class CannotBeRecorded(Exception):
    """A pass does what nothing could tell beforehand."""


class PassScript:
    """A rehearsed pass.

    Args:
        ask: the pass.
        inputs: what it is rehearsed with; `follow` is given others of the same shapes.
        rows: each row's random numbers, for the rehearsal.
    """

    def __init__(self, ask: Callable[[Any], Any], inputs: Any, rows: Sequence[EpisodeRandomness]) -> None:
        self._ask = ask
        with _Listening(rows) as listening:
            ask(inputs)
        self._draws = listening.found
        rehearsal = _Rehearsal([*tree_leaves(inputs), *(draw.numbers for draw in self._draws)])
        host = _Host(self._draws, rehearsal)
        with rehearsal, host:
            ask(inputs)
        self._from_host, self._operations = host.made, rehearsal.operations()

    def draw(self, rows: Sequence[EpisodeRandomness]) -> None:
        """Draw what the next pass needs; the rows' generators move on as they do in a pass."""
        for draw in self._draws:
            draw.again(rows)

    def follow(self, inputs: Any) -> Any:
        """Run the pass with what was drawn, and without what does not depend on inputs."""
        with _Following(self._operations), _Host(self._draws, made=self._from_host):
            return self._ask(inputs)


@dataclass
class _Draw:
    """A call that draws random numbers.

    Attributes:
        function: what was called, with these arguments; a tensor among them stands for its shape.
        numbers: what was drawn last, and what the pass reads.
    """

    function: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    numbers: torch.Tensor

    def again(self, rows: Sequence[EpisodeRandomness]) -> None:
        self.numbers.copy_(drawn(rows, self.function, self.arguments, self.options))


class _Listening(RowRandomness):
    """Notes what is drawn."""

    def __init__(self, rows: Sequence[EpisodeRandomness]) -> None:
        super().__init__(rows)
        self.found: list[_Draw] = []

    def draw(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        shaped = args[:1] if func in DRAWN_BY_SHAPE else ()
        if any(isinstance(value, torch.Tensor) for value in tree_leaves((args[len(shaped) :], kwargs))):
            raise CannotBeRecorded(f"{func.__name__} draws by values that are known only in the pass")
        # Before it is filled: what it is filled with again must be laid out in the same way.
        like = [torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device=one.device) for one in shaped]
        numbers = super().draw(func, args, kwargs)
        self.found.append(_Draw(func, (*like, *args[len(shaped) :]), kwargs, numbers.clone()))
        return numbers


class _Host(TorchFunctionMode):  # type: ignore[misc]
    """Gives the pass what was drawn, and tensors that it makes of numbers of the host.

    Args:
        draws: what was drawn.
        rehearsal: what is told of tensors that are made.
        made: without a rehearsal: the tensors that were made in it.
    """

    def __init__(
        self, draws: Sequence[_Draw], rehearsal: _Rehearsal | None = None, made: Sequence[torch.Tensor] = ()
    ) -> None:
        super().__init__()
        self._draws, self._rehearsal = iter(draws), rehearsal
        self.made, self._given = list(made), iter(made)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_draw(func, kwargs):
            return self._drawn(func, args)
        if func not in _FROM_HOST or any(isinstance(value, torch.Tensor) for value in tree_leaves((args, kwargs))):
            return func(*args, **kwargs)
        if self._rehearsal is None:
            return next(self._given).clone()
        with self._rehearsal.pause():
            made = func(*args, **kwargs)
        self._rehearsal.know(made)
        self.made.append(made)
        return made.clone()  # the pass may write to it

    def _drawn(self, func: Any, args: tuple[Any, ...]) -> Any:
        draw = next(self._draws, None)
        if draw is None or draw.function is not func:
            raise CannotBeRecorded("the pass does not draw the same each time")
        return args[0].copy_(draw.numbers) if func in FILLS else draw.numbers


class _Operation(NamedTuple):
    """An operation of the rehearsal, the memory that it touched, and what it came to if no input had a part."""

    function: Any
    reads: frozenset[int]
    writes: frozenset[int]
    makes: frozenset[int]
    is_constant: bool
    result: Any


class _Rehearsal(TorchDispatchMode):  # type: ignore[misc]
    """Notes every operation of a pass.

    Args:
        inputs: tensors that will hold something else in the next pass.
    """

    def __init__(self, inputs: Sequence[Any]) -> None:
        super().__init__()
        self._variable = {_memory(tensor)[0] for tensor in inputs if isinstance(tensor, torch.Tensor)}
        # Constants are kept alive, and of the others the place: nothing else gets their addresses.
        self._constant: dict[int, Any] = {}
        self._places: list[StorageWeakRef] = []
        self._noted: list[_Operation] = []
        self._paused = False

    @contextmanager
    def pause(self) -> Iterator[None]:
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def know(self, made: torch.Tensor) -> None:
        """Take a tensor as one in which no input has a part."""
        memory, kept = _memory(made)
        self._constant[memory] = kept

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not self._paused and func is not _ALIAS:
            self._noted.append(self._note(func, args, kwargs, result))
        return result

    def _note(self, func: Any, args: Any, kwargs: Any, result: Any) -> _Operation:
        read, made = _tensors((args, kwargs)), _tensors(result)
        written = _tensors(_written(func, args, kwargs))
        is_constant = all(map(self._is_constant, read)) and torch.Tag.nondeterministic_seeded not in func.tags
        reads, writes, makes = (frozenset(_memory(one)[0] for one in some) for some in (read, written, made))
        if is_constant:
            for one in made:
                self.know(one)
        else:
            self._variable |= (writes | makes) - self._constant.keys()
            self._places += [StorageWeakRef(one.untyped_storage()) for one in made]
        return _Operation(func, reads, writes, makes, is_constant, result if is_constant else None)

    def _is_constant(self, tensor: torch.Tensor) -> bool:
        memory, kept = _memory(tensor)
        # Nothing of a device's inputs gets to the host while a pass is recorded.
        if tensor.device.type == "cpu" and memory not in self._variable:
            self._constant[memory] = kept
        return memory in self._constant

    def operations(self) -> list[tuple[Any, bool, Any]]:
        """Return every operation, whether it need not be done again, and what it came to in that case.

        Memory is left alone if anything that is done again writes to it, or if it changes after such a thing has
        read it: a recording would read what it was in the end.
        """
        spoiled: set[int] = set()
        while True:
            seen: set[int] = set()
            before = len(spoiled)
            for one in self._noted:
                if one.is_constant and not spoiled & (one.reads | one.writes | one.makes):
                    spoiled |= one.writes & seen
                else:
                    spoiled |= one.writes | (one.makes if one.is_constant else frozenset())
                    seen |= one.reads
            if len(spoiled) == before:
                break
        final = []
        for one in self._noted:
            kept = one.is_constant and not spoiled & (one.reads | one.writes | one.makes)
            final.append((one.function, kept, one.result if kept else None))
        return final


class _Following(TorchDispatchMode):  # type: ignore[misc]
    """Does a pass's operations again but for those of which the result is known."""

    def __init__(self, operations: Sequence[tuple[Any, bool, Any]]) -> None:
        super().__init__()
        self._operations = iter(operations)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _ALIAS:
            return func(*args, **(kwargs or {}))
        noted = next(self._operations, None)
        if noted is None or noted[0] is not func:
            raise CannotBeRecorded("the pass does not do the same each time")
        _, is_known, result = noted
        if not is_known:
            return func(*args, **(kwargs or {}))
        written = _written(func, args, kwargs or {})
        # Tensors of their own, of the same memory: torch notes with each what it is a view of.
        return written[0] if written else tree_map_only(torch.Tensor, torch.Tensor.detach, result)


def _tensors(values: Any) -> list[torch.Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]


def _memory(tensor: torch.Tensor) -> tuple[int, Any]:
    """Return where a tensor's numbers are, and what keeps them there."""
    storage = tensor.untyped_storage()
    return storage._cdata, storage


def _written(func: Any, args: Any, kwargs: Any) -> list[Any]:
    return [
        args[place] if place < len(args) else kwargs.get(one.name)
        for place, one in enumerate(func._schema.arguments)
        if one.alias_info is not None and one.alias_info.is_write
    ]
