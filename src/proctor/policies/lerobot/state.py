"""What a policy holds besides its weights, as values that can be compared, and copies that share none of it.

A policy may keep something between passes anywhere: a counter on a submodule, a buffer, a list, a generator, a
closure, an attribute of its class. So nothing is looked for by name: the object's whole graph is walked, and two
policies are in the same state if every leaf is equal.
"""

from __future__ import annotations

import copy
import enum
import hashlib
import logging
import marshal
import threading
import types
import weakref
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from pathlib import PurePath
from typing import Any

import numpy as np
import torch

State = dict[str, Any]
"""The value of every leaf, or a digest of it, by the path that leads there."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes, PurePath, torch.dtype, torch.device, enum.Enum)
_ARRAYS = (torch.Tensor, np.ndarray, torch.Generator)
# What a copy shares on purpose, and what holds nothing of a policy's.
_OPAQUE = (types.ModuleType, types.BuiltinFunctionType, logging.Logger, weakref.ref, type(threading.Lock()))
_LIBRARIES = ("builtins", "torch", "typing", "enum", "abc", "collections", "functools", "numpy", "dataclasses")
_LARGE = 1000


def state_of(policy: Any) -> State:
    """Return what an object holds, without the values of parameters: those are shared by all copies."""
    return {path: _leaf(value) if first is None else ("as", first) for path, value, first in _walk(policy)}


def difference(one: State, other: State) -> str | None:
    """Return the path of something in which two states differ, if there is any."""
    paths = (path for path in {**one, **other} if one.get(path) != other.get(path))
    # The longest says most: not that the number of parts differs, but which part.
    return max(paths, key=len, default=None)


def shared_part(one: Any, other: Any) -> str | None:
    """Return the path of something besides parameters that two objects both hold and either could change.

    What their classes hold is left out: everybody shares that, and `state_of` tells if it changes.
    """
    held = {id(value): value for _, value, _ in _walk(one, classes=False) if _can_change(value)}
    reached = _walk(other, classes=False)
    return next((path for path, value, _ in reached if id(value) in held and _can_change(value)), None)


def copy_of(policy: Any, own: Collection[str] = ()) -> Any:
    """Return a copy that shares nothing with the original but parameters.

    Args:
        policy: the original, which is never asked itself.
        own: parameters that the policy writes to, by name; these are not shared either.
    """
    parameters = policy.named_parameters(remove_duplicate=False)
    return copy.deepcopy(policy, {id(tensor): tensor for name, tensor in parameters if name not in own})


def weights_of(policy: Any) -> dict[str, int]:
    """Return a sum over each parameter's bits, to see whether one was written to."""
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return {
        name: int(tensor.detach().contiguous().view(kinds[tensor.element_size()]).sum(dtype=torch.int64))
        for name, tensor in policy.named_parameters()
        if tensor.element_size() in kinds and not tensor.is_meta
    }


def tensors_of(policy: Any) -> Iterator[torch.Tensor]:
    """Yield every tensor that an object holds, wherever."""
    return (value for _, value, _ in _walk(policy, classes=False) if isinstance(value, torch.Tensor))


def take_apart(policy: Any) -> None:
    """Empty a copy that nobody needs any more, so that no cycle inside it keeps it alive."""
    for module in list(policy.modules()):
        module.__dict__.clear()


def _walk(root: Any, *, classes: bool = True) -> Iterator[tuple[str, Any, str | None]]:
    """Yield every object that can be reached: its path, itself, and the path where it was met before, if any."""
    seen: dict[int, tuple[str, Any]] = {}
    left: deque[tuple[str, Any]] = deque([("", root)])
    while left:
        path, value = left.popleft()
        is_type = isinstance(value, type) or type(value).__module__ == "typing"
        if isinstance(value, (*_PLAIN, *_ARRAYS, *_OPAQUE)) or (is_type and not classes):
            yield path, value, None
            continue
        met = seen.get(id(value))
        yield path, value, met and met[0]
        if met is None:
            # Kept beside its path, or something new could get its address.
            seen[id(value)] = (path, value)
            left.extend((f"{path}.{name}" if path else name, part) for name, part in _parts(value))


def _leaf(value: Any) -> Any:
    kind = type(value)
    if isinstance(value, _ARRAYS):
        return _digest(value)
    if isinstance(value, (str, bytes)):
        return (kind.__name__, value if len(value) <= _LARGE else hash(value))
    if isinstance(value, _PLAIN):
        return (kind.__name__, repr(value))
    if isinstance(value, type):
        return _name(value)
    return _marshalled(value) or _name(kind)


def _digest(value: Any) -> Any:
    if isinstance(value, torch.nn.Parameter):
        return ("parameter", tuple(value.shape))
    if isinstance(value, torch.Generator):
        value = value.get_state()
    if isinstance(value, torch.Tensor):
        facts = (str(value.dtype), tuple(value.shape), str(value.layout))
        if value.is_meta or value.layout != torch.strided:
            return facts
        content = value.detach().to("cpu").contiguous().flatten().view(torch.uint8).numpy().tobytes()
    else:
        facts = (str(value.dtype), value.shape, "")
        content = repr(value.tolist()).encode() if value.dtype.hasobject else value.tobytes()
    return (*facts, hashlib.sha256(content).digest())


def _marshalled(value: Any) -> Any:
    """Return a digest of a large container of plain values: a vocabulary is not walked word by word."""
    if not isinstance(value, (dict, list, tuple, set, frozenset)) or len(value) <= _LARGE:
        return None
    try:
        ordered = sorted(value) if isinstance(value, (set, frozenset)) else value
        return (_name(type(value)), hashlib.sha256(marshal.dumps(ordered, 2)).digest())
    except (ValueError, TypeError):
        return None


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    """Return what an object consists of, each part with a name."""
    if isinstance(value, types.FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        return [*((f"<{name}>", _content(cell)) for name, cell in cells), *_items(value.__defaults__ or ())]
    if isinstance(value, types.MethodType):
        return [("__self__", value.__self__), ("__func__", value.__func__)]
    if isinstance(value, type):
        return _class_attributes(value)
    if isinstance(value, (dict, list, tuple, set, frozenset, deque)):
        if _marshalled(value) is not None:
            return []
        if isinstance(value, dict):
            return [(f"[{_key(key)}]", part) for key, part in value.items()]
        return _items(sorted(map(_key, value)) if isinstance(value, (set, frozenset)) else value)
    return [("<class>", type(value)), *_attributes(value)]


def _key(value: Any) -> str:
    plain = isinstance(value, (*_PLAIN, tuple, frozenset))
    return repr(value) if plain else _name(value if isinstance(value, type) else type(value))


def _items(values: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(f"[{place}]", part) for place, part in enumerate(values)]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _class_attributes(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield a class's own data, and its bases; its methods do not change."""
    if kind.__module__.partition(".")[0] in _LIBRARIES:
        return
    for name, value in vars(kind).items():
        changing = isinstance(value, (bool, int, float, list, dict, set, deque, *_ARRAYS))
        if changing and not name.startswith("__"):
            yield name, value
    yield from _items(kind.__bases__)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    own = getattr(value, "__dict__", {})
    if isinstance(value, torch.nn.Module):
        # A dozen dictionaries of hooks, mostly empty; one that is not any more is one more part.
        own = {name: part for name, part in own.items() if not isinstance(part, dict) or part}
    slots = [name for kind in type(value).__mro__ for name in _slots(kind) if hasattr(value, name)]
    yield from own.items()
    yield from ((name, getattr(value, name)) for name in slots)
    if not own and not slots:
        try:  # made in another language: a tokenizer, a random generator; as `copy` sees it
            reduced = value.__reduce_ex__(4)
        except Exception:
            return
        if isinstance(reduced, tuple):
            yield from _items(reduced[1:])


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _can_change(value: Any) -> bool:
    if isinstance(value, (torch.nn.Parameter, *_PLAIN, *_OPAQUE)):
        return False
    if isinstance(value, (*_ARRAYS, dict, list, set, deque)):
        return True
    is_type = isinstance(value, type) or type(value).__module__ == "typing"
    return hasattr(value, "__dict__") and not is_type and not isinstance(value, types.FunctionType)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
