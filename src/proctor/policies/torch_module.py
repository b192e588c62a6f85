"""A torch module as a policy: `proctor.TorchPolicy(module, observation_keys=...)`."""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from proctor.config.content_hashes import source_hash
from proctor.errors import UsageError
from proctor.policies.protocol import Actions, Generators, Memory, Policy, PolicySpec, Window
from proctor.types import Observation

if TYPE_CHECKING:
    import torch


class TorchPolicy(Policy):
    """Asks a module for actions, one observation at a time, in evaluation mode and without gradients.

    The module stays as it is: each part is put back into the mode it was in. One observation at a time, because
    the bits of a row may depend on how many there are in a batch; for batches, extend `proctor.Policy`.

    Args:
        module: takes a batch of what `inputs` makes; returns actions (1, size), or a chunk (1, steps, size).
        observation_keys: what it looks at. With one key and no `inputs`, it gets that array as float32.
        inputs: makes what the module takes from one observation, a dict of arrays, and `"task"`, the prompt: a
            tensor, or a dict or tuple of tensors, without the batch's dimension.
        action_steps: how many actions of a chunk are executed; all that it returns by default.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        observation_keys: Sequence[str],
        inputs: Callable[[Observation], Any] | None = None,
        action_steps: int | None = None,
    ) -> None:
        import torch

        if not isinstance(module, torch.nn.Module):
            raise UsageError(f"TorchPolicy takes a torch module, and this is a {type(module).__name__}.")
        if isinstance(observation_keys, str) or not all(isinstance(key, str) for key in observation_keys):
            raise UsageError("observation_keys must be a list of names, such as ['observation.state'].")
        if inputs is None and len(observation_keys) != 1:
            raise UsageError("TorchPolicy with other than one observation key needs inputs=..., a function.")
        if action_steps is not None and action_steps < 1:
            raise UsageError(f"action_steps={action_steps}: must be at least 1.")
        if any(weight.is_meta or torch.nn.parameter.is_lazy(weight) for weight in module.parameters()):
            raise UsageError("the module has weights that hold nothing yet: on the device 'meta', or lazy ones.")
        self.module, self._keys = module, tuple(observation_keys)
        self._inputs, self._steps = inputs, action_steps

    def as_it_is_now(self) -> TorchPolicy:
        """Return the same policy, known by the weights that the module has now."""
        now = copy.copy(self)
        now.__dict__.pop("spec", None)
        return now

    @cached_property
    def spec(self) -> PolicySpec:
        """It is known by its weights, its layers, and the code of all that is not torch's own."""
        import torch

        return PolicySpec(
            observation_keys=self._keys,
            action_steps=self._steps,
            stochastic=True,  # it may draw, from its episode's own numbers
            fingerprint=self._fingerprint(),
            identity={
                "device": self._device.type,
                "torch": str(torch.__version__),
                "threads": str(torch.get_num_threads()),
            },
        )

    @property
    def _device(self) -> torch.device:
        import torch

        first = next(chain(self.module.parameters(), self.module.buffers()), None)
        return torch.device("cpu") if first is None else first.device

    def act(self, windows: Sequence[Window], memories: Sequence[Memory], generators: Generators) -> Actions:
        """Ask the module for each episode in turn; torch's random numbers are the episode's own meanwhile."""
        import torch

        trained = [part for part in self.module.modules() if part.training]
        for part in trained:
            part.training = False
        try:
            with torch.inference_mode():
                answers = [
                    self._ask(window[-1], memory, generator)
                    for window, memory, generator in zip(windows, memories, generators, strict=True)
                ]
        finally:
            for part in trained:
                part.training = True
        return Actions([chunk for chunk, _ in answers], [memory for _, memory in answers])

    def _ask(self, observation: Observation, memory: Memory, generator: np.random.Generator) -> tuple[Any, Memory]:
        import torch

        cuda = self._device.type == "cuda"
        with torch.random.fork_rng([self._device] if cuda else []):
            if memory is None:
                torch.manual_seed(int(generator.integers(2**63)))
            else:
                torch.set_rng_state(memory[0])
                if cuda:
                    torch.cuda.set_rng_state(memory[1], self._device)
            chunk = self._chunk(observation)
            return chunk, (torch.get_rng_state(), torch.cuda.get_rng_state(self._device) if cuda else None)

    def _chunk(self, observation: Observation) -> Any:
        import torch

        if self._inputs is None:
            given: Any = torch.from_numpy(observation[self._keys[0]].copy()).float()
        else:
            given = self._inputs(observation)
        batch = _rows(given, self._device)
        actions = self.module(*batch) if isinstance(batch, tuple) else self.module(batch)
        if not isinstance(actions, torch.Tensor) or actions.ndim not in (2, 3) or len(actions) != 1:
            shape = tuple(actions.shape) if isinstance(actions, torch.Tensor) else type(actions).__name__
            raise ValueError(f"the module must return actions of shape (1, size) or (1, steps, size), not {shape}")
        chunk = actions.detach().float().cpu().numpy().reshape(-1, actions.shape[-1])
        return chunk if self._steps is None else chunk[: self._steps]

    def _fingerprint(self) -> str | None:
        """Return a hash of all that is known to decide its actions; `None` if some of it cannot be known again."""
        import torch

        parts = list(self.module.named_modules())
        if any(part._forward_hooks or part._forward_pre_hooks for _, part in parts):
            return None
        code = {part.__class__ for _, part in parts if not _of_torch(part.__class__)}
        whole = hashlib.sha256()
        try:
            for found in sorted(map(_source, [*code, *([] if self._inputs is None else [self._inputs])])):
                whole.update(f"{found}\n".encode())
            for name, part in parts:
                whole.update(f"{name} {type(part).__qualname__} {part.extra_repr()} {_constants(part)}\n".encode())
        except (OSError, TypeError, ValueError):  # typed at a prompt, or made by something else
            return None
        for name, value in sorted(self.module.state_dict().items()):
            if not isinstance(value, torch.Tensor):
                return None
            whole.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
            whole.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
        return whole.hexdigest()[:32]


def _of_torch(found: Any) -> bool:
    return str(getattr(found, "__module__", "")).partition(".")[0] == "torch"


def _source(found: Any) -> str:
    """Return the content of the file that code is in, with what that imports of the user's own."""
    file = inspect.getsourcefile(found)
    if file is None or not Path(file).is_file():
        raise TypeError(file)
    return f"{found.__qualname__} {source_hash(f'{Path(file).absolute()}:{found.__name__}')}"


def _constants(part: torch.nn.Module) -> str:
    """Return what a module holds besides parameters, buffers and other modules."""
    held = {name: value for name, value in vars(part).items() if name[0] != "_" and name != "training"}
    told = {name: value if _plain(value) else _name(value) for name, value in sorted(held.items())}
    return repr(told)


def _plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def _name(value: Any) -> str:
    """Return the name of what torch itself has, such as a function for an activation."""
    if not _of_torch(value) or not hasattr(value, "__qualname__"):
        raise TypeError(type(value).__name__)
    return f"{value.__module__}.{value.__qualname__}"


def _rows(given: Any, device: torch.device) -> Any:
    """Return a batch of one: every tensor with a first dimension more, on the module's device."""
    import torch

    if isinstance(given, dict):
        return {key: _rows(value, device) for key, value in given.items()}
    if isinstance(given, (tuple, list)):
        return tuple(_rows(value, device) for value in given)
    return given[None].to(device) if isinstance(given, torch.Tensor) else given
