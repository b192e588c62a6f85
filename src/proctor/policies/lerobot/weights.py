"""The weights of a checkpoint in the policy that they are of: each loaded, and none drawn that is about to be."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from proctor.errors import UsageError
from proctor.policies.lerobot.guard import ADAPTER
from proctor.policies.lerobot.randomness import generator_states, set_generators
from proctor.policies.lerobot.state import tensors_of


def load_policy(name: str, directory: Path, config: Any) -> Any:
    """Load a checkpoint's policy, and refuse it where weights are missing or belong to nothing.

    Args:
        name: what the user calls the checkpoint.
        directory: where it lies.
        config: its config, with the user's overrides.
    """
    from lerobot.policies.factory import get_policy_class

    try:
        policy_class = get_policy_class(config.type)
    except ImportError as error:
        raise UsageError(
            f"--policy.path={name} is of type {config.type}, which needs more: "
            f"{' '.join(str(error).split())} (for {sys.executable})"
        ) from error
    if not config.use_peft and not (directory / "model.safetensors").is_file():
        raise UsageError(f"--policy.path={name} has no weights: model.safetensors is missing.")
    generators = generator_states(config.device)
    for made in (nullcontext,) if config.use_peft else (_weights_not_drawn, nullcontext):
        with _recorded_loads() as loads, made() as not_drawn:
            if config.use_peft:
                policy = _load_adapted(name, directory, config, policy_class)
            else:
                policy = policy_class.from_pretrained(str(directory), config=config)
        own = [load for load in loads if load[0] is policy or isinstance(load[0], policy_class)]
        # What is no number was never loaded, and nobody has said so. What else was drawn, or seeded, comes out
        # otherwise after the weights' own draws. Then all are drawn as the policy would.
        untouched = generator_states(config.device) == generators
        if own and not (not_drawn and (_has_no_number(policy) or not untouched)):
            break
        set_generators(generators, config.device)
    for _, missing, unexpected in own:
        _check_weights(name, policy, missing, unexpected)
    return policy


def _has_no_number(policy: Any) -> bool:
    """Whether something of the policy is NaN; a backbone's head that it has made and dropped is none of it."""
    return any(bool(tensor.isnan().any()) for tensor in tensors_of(policy) if not tensor.is_meta)


def _load_adapted(name: str, directory: Path, config: Any, policy_class: Any) -> Any:
    """Load a PEFT adapter on the policy that it adapts; what comes back is the policy, adapted in place."""
    try:
        from peft import PeftConfig, PeftModel
    except ImportError as error:
        raise UsageError(
            f"--policy.path={name} is a PEFT adapter. Run: {sys.executable} -m pip install peft"
        ) from error
    adapter = PeftConfig.from_pretrained(str(directory))
    base = adapter.base_model_name_or_path
    if not base:
        raise UsageError(f"--policy.path={name}: its {ADAPTER} does not name the policy it adapts.")
    policy = policy_class.from_pretrained(base, config=config, revision=adapter.revision)
    adapted = PeftModel.from_pretrained(policy, str(directory), config=adapter)
    return adapted.get_base_model()


@contextmanager
def _weights_not_drawn() -> Iterator[list[Any]]:
    """Draw no random numbers for parameters that are about to be loaded; gives them, no numbers meanwhile."""
    kept = {name: getattr(torch.Tensor, name) for name in ("uniform_", "normal_")}
    found: list[Any] = []

    def replaced(draw: Any) -> Any:
        def leave(self: Any, *args: Any, **kwargs: Any) -> Any:
            # One on the meta device has no numbers: another takes its place when a backbone's weights are loaded.
            if not isinstance(self, torch.nn.Parameter) or self.is_meta:
                return draw(self, *args, **kwargs)
            found.append(self)
            return self.fill_(math.nan)

        return leave

    for name, draw in kept.items():
        setattr(torch.Tensor, name, replaced(draw))
    try:
        yield found
    finally:
        for name, draw in kept.items():
            setattr(torch.Tensor, name, draw)


@contextmanager
def _recorded_loads() -> Iterator[list[tuple[Any, list[str], list[str]]]]:
    """Note what every `load_state_dict` found missing or unexpected; LeRobot only logs it."""
    loads: list[tuple[Any, list[str], list[str]]] = []
    original = torch.nn.Module.load_state_dict

    def recorded(self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, state_dict, *args, **kwargs)
        loads.append((self, list(result.missing_keys), list(result.unexpected_keys)))
        return result

    torch.nn.Module.load_state_dict = recorded
    try:
        yield loads
    finally:
        torch.nn.Module.load_state_dict = original


def _check_weights(name: str, policy: Any, missing: list[str], unexpected: list[str]) -> None:
    tensors = {**dict(policy.named_parameters(remove_duplicate=False)), **dict(policy.named_buffers())}
    # A tied weight is stored once, under one of its names.
    there = {tensor.data_ptr() for key, tensor in tensors.items() if key not in missing and tensor.numel()}
    missing = [key for key in missing if key in tensors and tensors[key].data_ptr() not in there]
    problems = [
        f"{len(keys)} weights {what} ({', '.join(keys[:3])}{', ...' if len(keys) > 3 else ''})"
        for what, keys in (("are missing", missing), ("belong to no part of the policy", unexpected))
        if keys
    ]
    if problems:
        raise UsageError(
            f"--policy.path={name} does not match its config: {' and '.join(problems)}. "
            "Was it saved by another version, or overridden with a field that changes the network?"
        )
