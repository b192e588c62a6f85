"""A torch module as a policy: `proctor.TorchPolicy(module, observation_keys=...)`."""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

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
        self.module, self._keys = module, tuple(observation_keys)
        self._inputs, self._steps = inputs, action_steps

    def as_it_is_now(self) -> TorchPolicy:
        """Return the same policy, known by the weights that the module has now."""
        now = copy.copy(self)
        now.__dict__.pop("spec", None)
        return now

    @cached_property
    def spec(self) -> PolicySpec:
        """It is known by its weights, its class, and the source of `inputs`."""
        import torch

        return PolicySpec(
            observation_keys=self._keys,
            action_steps=self._steps,
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
        """Ask the module for each episode in turn."""
        import torch

        trained = [part for part in self.module.modules() if part.training]
        for part in trained:
            part.training = False
        try:
            with torch.inference_mode():
                return Actions([self._chunk(window[-1]) for window in windows], memories)
        finally:
            for part in trained:
                part.training = True

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
        """Return a hash of all that is known to decide its actions; `None` if that cannot be read."""
        whole = hashlib.sha256(f"{type(self.module).__module__}.{type(self.module).__qualname__}\n".encode())
        if self._inputs is not None:
            try:
                whole.update(inspect.getsource(self._inputs).encode())
            except (OSError, TypeError):  # typed at a prompt, or made by something else
                return None
        import torch

        for name, value in sorted(self.module.state_dict().items()):
            if not isinstance(value, torch.Tensor):
                return None
            whole.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
            whole.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
        return whole.hexdigest()[:32]


def _rows(given: Any, device: torch.device) -> Any:
    """Return a batch of one: every tensor with a first dimension more, on the module's device."""
    import torch

    if isinstance(given, dict):
        return {key: _rows(value, device) for key, value in given.items()}
    if isinstance(given, (tuple, list)):
        return tuple(_rows(value, device) for value in given)
    return given[None].to(device) if isinstance(given, torch.Tensor) else given
