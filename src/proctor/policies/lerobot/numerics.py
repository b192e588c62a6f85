"""What decides a network's bits besides weights and inputs: device, threads, kernels, versions."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from typing import Any

import torch

from proctor.errors import UsageError
from proctor.policies.lerobot.checkpoint import LoadedCheckpoint

_LIBRARIES = ("torch", "lerobot", "transformers", "diffusers", "peft")


def check_device(name: str | None, whose: str = "--policy.device") -> None:
    """Refuse a device that is not here, or not known to give the same bits; LeRobot would silently take another.

    Args:
        name: the device; `None`: nobody asked for one.
        whose: who asked for it, for the message.
    """
    if name is None:
        return
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"{whose}={name}: no such device. Use cpu, cuda or cuda:0.") from None
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"{whose}={name}: policies run on cpu and cuda only. Use --policy.device=cpu.")
    if device.type == "cuda" and not torch.cuda.is_available():
        built = "" if torch.version.cuda else " (this torch is built without CUDA)"
        raise UsageError(
            f"{whose}={name}: torch in {sys.executable} sees no CUDA device{built}. Use --policy.device=cpu."
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(f"{whose}={name}: there are {torch.cuda.device_count()} CUDA devices.")


def device_notes(declared: str | None, used: str) -> list[str]:
    """Return what to tell a user who named no device, where the policy runs elsewhere than its config says."""
    if declared is None or torch.device(used).type == declared.partition(":")[0]:
        return []
    return [
        f"the checkpoint's config says device={declared}, which torch in {sys.executable} does not have: "
        f"it runs on {used}, where its actions can differ; --policy.device={used} says that this is meant"
    ]


def make_deterministic(device: Any) -> None:
    """Set torch up so that the same input gives the same bits."""
    torch.set_num_threads(1)
    if torch.device(device).type != "cuda":
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    # As lerobot-eval has it; explicit, because it changes bits.
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    # A model with an operation that has no deterministic form is run all the same; the host's log names it.
    torch.use_deterministic_algorithms(True, warn_only=True)


def identity_of(loaded: LoadedCheckpoint) -> dict[str, str]:
    """Return what must be the same for the same bits."""
    identity = {"device": str(loaded.device.type)}
    if loaded.device.type == "cuda":
        identity["device"] = str(torch.cuda.get_device_name(loaded.device))
        identity["tf32"] = "on"
        identity["cuda"] = str(torch.version.cuda)
        identity["cudnn"] = str(torch.backends.cudnn.version())
    identity["dtype"] = ",".join(sorted({str(p.dtype).removeprefix("torch.") for p in loaded.policy.parameters()}))
    for name in _LIBRARIES:
        if name in sys.modules:
            identity[name] = metadata.version(name)
    return identity
