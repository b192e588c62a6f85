"""What a caller may hand over to be evaluated: a name, a path, or an object with weights that still change."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from proctor.config.registry import POLICIES, POLICY_GROUP, plugins
from proctor.errors import UsageError
from proctor.files import clip, is_folder
from proctor.policies.lerobot import live as lerobot_live
from proctor.policies.names import LIVE
from proctor.policies.protocol import LivePolicy
from proctor.policies.python import as_policy
from proctor.policies.torch_module import TorchPolicy

_WORD = re.compile(r"[\w-]+")


def named_settings(policy: str | os.PathLike[str]) -> dict[str, str]:
    """Return the settings that a text means: the name of a kind of policy, or else what `--policy.path` takes."""
    text = os.fspath(policy)
    if not isinstance(policy, str) or not _WORD.fullmatch(text):
        return {"path": text}
    if not is_folder(text):
        return {"type": text}  # where it is none, the names of all are told
    if text in POLICIES or any(plugin.name == text for plugin in plugins(POLICY_GROUP)):
        raise UsageError(f"'{text}' is a kind of policy, and a folder here. Write './{text}' for the folder.")
    return {"path": text}


def prepare(policy: Any, preprocessor: Any, postprocessor: Any, folder: Path) -> tuple[dict[str, str], LivePolicy]:
    """Return the settings that name a live policy, and what is evaluated; a LeRobot policy is saved into `folder`.

    Raises:
        UsageError: it is no policy.
    """
    lerobot = lerobot_live.unwrapped(policy)
    if lerobot is not None:
        lerobot_live.save(lerobot, preprocessor, postprocessor, folder)
        return {"type": "lerobot", "path": f"{LIVE}{type(lerobot).__name__}"}, folder
    if preprocessor is not None or postprocessor is not None:
        raise UsageError("preprocessor and postprocessor belong to a LeRobot policy, and this is none.")
    name = getattr(policy, "__name__", type(policy).__name__)
    if isinstance(policy, TorchPolicy):
        policy = policy.as_it_is_now()
        name = type(policy.module).__name__
    elif _is_module(policy) and not hasattr(policy, "act"):
        raise UsageError(
            f"{clip(name)} is a torch module, which says nothing of what it looks at. Wrap it: "
            "proctor.TorchPolicy(module, observation_keys=[...])"
        )
    # Known by its class; what it holds is told by its fingerprint, if it has one.
    return {"type": "python", "path": f"{LIVE}{name}"}, as_policy(policy, clip(repr(policy)))


def _is_module(policy: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(policy, torch.nn.Module)
