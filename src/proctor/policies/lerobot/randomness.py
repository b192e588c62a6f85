"""Random numbers inside a network, drawn by each episode from a generator of its own.

`noise=` arguments are not enough: DDPM draws at every denoising step, others sample tokens inside. So every
random function of torch that a policy calls is caught on its way (a torch function mode, which belongs to the
thread that enters it) and drawn row by row: row i of a batch from the generator of the episode in row i.
What an episode draws is then what it would have drawn alone after `torch.manual_seed(its seed)`.

What cannot be split by row runs one episode at a time, with torch's own generator set to that episode's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class CannotSplit(Exception):
    """A random draw whose rows do not belong to one episode each."""


class EpisodeRandomness:
    """One episode's torch generators, one per device, all from one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generators: dict[str, torch.Generator] = {}

    def on(self, device: Any) -> torch.Generator:
        """Return the generator for a device; the same one each time, so that it moves on."""
        name = str(torch.device(device))
        if name not in self._generators:
            self._generators[name] = torch.Generator(device=name).manual_seed(self.seed)
        return self._generators[name]


_SIZED = (torch.randn, torch.rand, torch.randint, torch.randperm)
_IN_PLACE = {
    name: getattr(torch.Tensor, name)
    for name in (
        "normal_",
        "uniform_",
        "random_",
        "exponential_",
        "bernoulli_",
        "cauchy_",
        "log_normal_",
        "geometric_",
    )
}
_ROW_WISE = (torch.multinomial, torch.bernoulli, torch.poisson, torch.Tensor.multinomial, torch.Tensor.bernoulli)


class RowRandomness(TorchFunctionMode):  # type: ignore[misc]
    """Within it, row i of every random tensor comes from `rows[i]`."""

    def __init__(self, rows: Sequence[EpisodeRandomness]) -> None:
        super().__init__()
        self._rows = rows

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        draw = _DRAWS.get(func)
        if draw is None or kwargs.get("generator") is not None:
            return func(*args, **kwargs)
        return draw(self._rows, func, args, {name: value for name, value in kwargs.items() if name != "generator"})


Rows = Sequence[EpisodeRandomness]


def _sized(rows: Rows, func: Any, args: Any, kwargs: Any) -> Any:
    device = kwargs.get("device") or torch.get_default_device()
    if len(rows) == 1:
        return func(*args, **kwargs, generator=rows[0].on(device))
    if func not in (torch.randn, torch.rand):
        raise CannotSplit(func.__name__)
    kwargs = dict(kwargs)
    size = kwargs.pop("size", None) or (args[0] if len(args) == 1 and not isinstance(args[0], int) else args)
    size = tuple(size)
    _must_be_rows(rows, size, func)
    return torch.cat([func((1, *size[1:]), **kwargs, generator=row.on(device)) for row in rows])


def _like(rows: Rows, func: Any, args: Any, kwargs: Any) -> Any:
    filler = {torch.randn_like: "normal_", torch.rand_like: "uniform_"}[func]
    return _in_place(rows, _IN_PLACE[filler], (torch.empty_like(*args, **kwargs),), {})


def _randint_like(rows: Rows, func: Any, args: Any, kwargs: Any) -> Any:
    like, *bounds = args
    low, high = (0, bounds[0]) if len(bounds) == 1 else bounds
    return _in_place(rows, _IN_PLACE["random_"], (torch.empty_like(like, **kwargs), low, high), {})


def _in_place(rows: Rows, func: Any, args: Any, kwargs: Any) -> Any:
    tensor, *rest = args
    if len(rows) == 1:
        return func(tensor, *rest, **kwargs, generator=rows[0].on(tensor.device))
    _must_be_rows(rows, tensor.shape, func)
    for place, row in enumerate(rows):
        func(tensor[place : place + 1], *rest, **kwargs, generator=row.on(tensor.device))
    return tensor


def _row_wise(rows: Rows, func: Any, args: Any, kwargs: Any) -> Any:
    tensor, *rest = args
    if len(rows) == 1:
        return func(tensor, *rest, **kwargs, generator=rows[0].on(tensor.device))
    _must_be_rows(rows, tensor.shape, func)
    parts = [
        func(tensor[place : place + 1], *rest, **kwargs, generator=row.on(tensor.device))
        for place, row in enumerate(rows)
    ]
    return torch.cat(parts)


def _normal(rows: Rows, func: Any, args: Any, kwargs: Any) -> Any:
    values = dict(zip(("mean", "std", "size"), args, strict=False)) | dict(kwargs)
    tensors = [value for value in values.values() if isinstance(value, torch.Tensor)]
    device = tensors[0].device if tensors else values.get("device") or torch.get_default_device()
    if len(rows) == 1:
        return func(**values, generator=rows[0].on(device))
    size = tuple(tensors[0].shape if tensors else values["size"])
    _must_be_rows(rows, size, func)
    parts = []
    for place, row in enumerate(rows):
        own = {
            name: value[place : place + 1] if isinstance(value, torch.Tensor) and value.ndim else value
            for name, value in values.items()
        }
        if "size" in own:
            own["size"] = (1, *size[1:])
        parts.append(func(**own, generator=row.on(device)))
    return torch.cat(parts)


def _must_be_rows(rows: Rows, shape: Sequence[int], func: Any) -> None:
    if not shape or shape[0] != len(rows):
        raise CannotSplit(f"{func.__name__}{tuple(shape)} in a batch of {len(rows)}")


_DRAWS: dict[Any, Any] = {
    **dict.fromkeys(_SIZED, _sized),
    **dict.fromkeys(_IN_PLACE.values(), _in_place),
    **dict.fromkeys(_ROW_WISE, _row_wise),
    torch.randn_like: _like,
    torch.rand_like: _like,
    torch.randint_like: _randint_like,
    torch.normal: _normal,
}


class DrawFinder(TorchDispatchMode):  # type: ignore[misc]
    """Notes every random operation that really runs, and whether it had a generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.draws = 0
        self.without_generator: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags and not _is_off(str(func), args, kwargs):
            self.draws += 1
            values = [*args, *kwargs.values()]
            if not any(isinstance(value, torch.Generator) for value in values):
                self.without_generator.append(str(func))
        return func(*args, **kwargs)


def _is_off(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether an operation that may draw does not: dropout in evaluation, and attention for its dropout."""
    if "dropout" in name:
        return (args[2] if len(args) > 2 else kwargs.get("train", True)) is False
    return "attention" in name


_GLOBAL = threading.Lock()


@contextmanager
def torchs_own(episode: EpisodeRandomness, device: Any) -> Iterator[None]:
    """Within it, torch's own generators are the episode's; one episode at a time in a process."""
    with _GLOBAL:
        globals_ = [torch.default_generator]
        if torch.device(device).type == "cuda":
            globals_.append(torch.cuda.default_generators[torch.device(device).index or 0])
        before = [generator.get_state() for generator in globals_]
        own = [episode.on(generator.device) for generator in globals_]
        for generator, mine in zip(globals_, own, strict=True):
            generator.set_state(mine.get_state())
        try:
            yield
        finally:
            for generator, mine, old in zip(globals_, own, before, strict=True):
                mine.set_state(generator.get_state())
                generator.set_state(old)
