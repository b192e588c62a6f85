"""Random numbers inside a network, drawn by each episode from a generator of its own.

`noise=` arguments are not enough: DDPM draws at every denoising step, others sample tokens inside. So every
random function of torch that a policy calls is caught on its way (a torch function mode, which belongs to the
thread that enters it) and drawn row by row: row i of a batch from the generator of the episode in row i.
What an episode draws is then what it would have drawn alone after `torch.manual_seed(its seed)`.

What cannot be caught so (NumPy's and Python's generators, dropout inside a fused kernel, a draw that belongs to no
row) runs one episode at a time, with the generators of the process set to that episode's. Whether anything
slipped through is no guess: a generator that was drawn from is in another state.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode


class InseparableDraw(Exception):
    """A random draw whose rows do not belong to one episode each."""


class HiddenDraw(Exception):
    """A random draw from a generator of the process, while several episodes may be using it."""


class EpisodeRandomness:
    """One episode's generators, all from one seed: torch's, one per device, and those of the process.

    Attributes:
        seed: what all begin with.
        draws: how often torch's were drawn from, row by row.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.draws = seed, 0
        self._generators: dict[str, torch.Generator] = {}
        self._process: tuple[Any, Any] | None = None

    def on(self, device: Any) -> torch.Generator:
        """Return the generator for a device; the same one each time, so that it moves on."""
        device = torch.device(device)
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        name = str(device)
        if name not in self._generators:
            self._generators[name] = torch.Generator(device=name).manual_seed(self.seed)
        return self._generators[name]

    @property
    def process(self) -> tuple[Any, Any]:
        """The states of Python's and NumPy's generators; at first as `set_seed` of LeRobot leaves them."""
        if self._process is None:
            self._process = (
                random.Random(self.seed).getstate(),
                np.random.RandomState(self.seed % 2**32).get_state(),
            )
        return self._process

    @process.setter
    def process(self, states: tuple[Any, Any]) -> None:
        self._process = states


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


FILLS = frozenset(_IN_PLACE.values())
"""Random functions that fill a tensor."""
DRAWN_BY_SHAPE = FILLS | {torch.randn_like, torch.rand_like, torch.randint_like}
"""Random functions that are given a tensor whose values do not matter."""

Rows = Sequence[EpisodeRandomness]


class RowRandomness(TorchFunctionMode):  # type: ignore[misc]
    """Within it, row i of every random tensor comes from `rows[i]`."""

    def __init__(self, rows: Rows) -> None:
        super().__init__()
        self._rows = rows

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not is_draw(func, kwargs):
            return func(*args, **kwargs)
        return self.draw(func, args, {name: value for name, value in kwargs.items() if name != "generator"})

    def draw(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what a call draws that names no generator."""
        return drawn(self._rows, func, args, kwargs)


def is_draw(func: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether a call draws from a generator that it does not name."""
    return func in _DRAWS and kwargs.get("generator") is None


def drawn(rows: Rows, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a call of a random function gives if each row is drawn from its episode's generator."""
    for row in rows:
        row.draws += 1
    return _DRAWS[func](rows, func, args, kwargs)


def _sized(rows: Rows, func: Any, args: Any, kwargs: Any) -> Any:
    device = kwargs.get("device") or torch.get_default_device()
    if len(rows) == 1:
        return func(*args, **kwargs, generator=rows[0].on(device))
    if func not in (torch.randn, torch.rand):
        raise InseparableDraw(func.__name__)
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
    _by_row(rows, func, args, kwargs)
    return args[0]


def _row_wise(rows: Rows, func: Any, args: Any, kwargs: Any) -> Any:
    parts = _by_row(rows, func, args, kwargs)
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _by_row(rows: Rows, func: Any, args: Any, kwargs: Any) -> list[Any]:
    """Call a function of a tensor for each row, with that row's generator; one alone may have any shape."""
    tensor, *rest = args
    parts = [tensor]
    if len(rows) > 1:
        _must_be_rows(rows, tensor.shape, func)
        parts = [tensor[place : place + 1] for place in range(len(rows))]
    return [
        func(part, *rest, **kwargs, generator=row.on(tensor.device)) for part, row in zip(parts, rows, strict=True)
    ]


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
        raise InseparableDraw(f"{func.__name__}{tuple(shape)} in a batch of {len(rows)}")


_DRAWS: dict[Any, Any] = {
    **dict.fromkeys(_SIZED, _sized),
    **dict.fromkeys(_IN_PLACE.values(), _in_place),
    **dict.fromkeys(_ROW_WISE, _row_wise),
    torch.randn_like: _like,
    torch.rand_like: _like,
    torch.randint_like: _randint_like,
    torch.normal: _normal,
}


_GLOBAL = threading.Lock()


@contextmanager
def own_generators(episode: EpisodeRandomness, device: Any) -> Iterator[None]:
    """Within it, the generators of the process are the episode's; one episode at a time."""
    with _GLOBAL:
        of_torch = _torchs(device)
        own = [episode.on(generator.device) for generator in of_torch]
        before = (random.getstate(), np.random.get_state(), [generator.get_state() for generator in of_torch])
        random.setstate(episode.process[0])
        np.random.set_state(episode.process[1])
        for generator, mine in zip(of_torch, own, strict=True):
            generator.set_state(mine.get_state())
        try:
            yield
        finally:
            episode.process = random.getstate(), np.random.get_state()
            random.setstate(before[0])
            np.random.set_state(before[1])
            for generator, mine, old in zip(of_torch, own, before[2], strict=True):
                mine.set_state(generator.get_state())
                generator.set_state(old)


@contextmanager
def untouched_generators(device: Any) -> Iterator[None]:
    """Raise `HiddenDraw` if anything within it draws from a generator of the process."""
    before = generator_states(device)
    yield
    drawn = [name for name, state in generator_states(device).items() if state != before[name]]
    if drawn:
        raise HiddenDraw(
            f"the policy drew random numbers from the generator of {' and '.join(drawn)}, which it had not done "
            "in its trial; they would depend on the other episodes"
        )


def generator_states(device: Any) -> dict[str, Any]:
    """Return the states of the process's generators, to be compared or set again."""
    of_numpy: Any = np.random.get_state()
    states: dict[str, Any] = {"Python": random.getstate(), "NumPy": (of_numpy[1].tobytes(), *of_numpy[2:])}
    for generator in _torchs(device):
        states[f"torch ({generator.device})"] = generator.get_state().numpy().tobytes()
    return states


def set_generators(states: dict[str, Any], device: Any) -> None:
    """Have the process draw again what it drew after this moment."""
    random.setstate(states["Python"])
    keys, *rest = states["NumPy"]
    np.random.set_state(("MT19937", np.frombuffer(keys, np.uint32), *rest))
    for generator in _torchs(device):
        state = bytearray(states[f"torch ({generator.device})"])
        generator.set_state(torch.frombuffer(state, dtype=torch.uint8))


def _torchs(device: Any) -> list[Any]:
    device = torch.device(device)
    if device.type != "cuda":
        return [torch.default_generator]
    torch.cuda.init()  # before it, there are none
    return [torch.default_generator, torch.cuda.default_generators[device.index or 0]]
