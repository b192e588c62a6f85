"""A LeRobot policy as a training loop holds it, with its processors: saved as LeRobot's trainer saves it.

It is then evaluated as that checkpoint, in a process of its own: with the same digests as `proctor eval` gives for
what the trainer saves, and with nothing of the training touched, neither its random numbers nor its mode.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proctor.blame import users_code
from proctor.errors import UsageError
from proctor.policies.lerobot.checkpoint import POSTPROCESSOR, PREPROCESSOR

_BASE = ("lerobot.policies.pretrained", "PreTrainedPolicy")


def unwrapped(policy: Any) -> Any | None:
    """Return the LeRobot policy that an object is, or wraps (compiled, distributed); `None` if it is none."""
    seen = policy
    for _ in range(5):
        if _is_lerobot(seen) or _adapted(seen) is not None:
            return seen
        inner = getattr(seen, "_orig_mod", None)
        inner = getattr(seen, "module", None) if inner is None else inner
        if inner is None:
            return None
        seen = inner
    return None


def save(policy: Any, preprocessor: Any, postprocessor: Any, folder: Path) -> None:
    """Write a checkpoint of what `unwrapped` has returned.

    Raises:
        UsageError: the processors are missing or something else, or the weights are not all here.
    """
    for given, name, file in (
        (preprocessor, "preprocessor", PREPROCESSOR),
        (postprocessor, "postprocessor", POSTPROCESSOR),
    ):
        if given is None:
            raise UsageError(
                f"a LeRobot policy needs its processors, as LeRobot's own evaluation does: give {name}=..., what "
                "lerobot.policies.factory.make_pre_post_processors has returned."
            )
        if not callable(getattr(given, "save_pretrained", None)) or not hasattr(given, "steps"):
            raise UsageError(f"{name}={type(given).__name__}: must be a PolicyProcessorPipeline of LeRobot's.")
        if not isinstance(getattr(given, "name", None), str) or f"{given.name}.json" != file:
            raise UsageError(
                f"{name} is called {getattr(given, 'name', None)!r}; LeRobot loads one called "
                f"{file.removesuffix('.json')!r}. Was the other of the two given?"
            )
    _check_class(_adapted(policy) or policy)
    if any(type(weight).__name__ == "DTensor" for weight in policy.parameters()):
        raise UsageError(
            "the policy's weights are spread over several processes (FSDP): save a checkpoint of the gathered "
            "weights, and give its path."
        )
    with users_code("the policy could not be saved for its evaluation"):
        policy.save_pretrained(folder)
        if (adapted := _adapted(policy)) is not None:
            adapted.config.save_pretrained(folder)  # of an adapter alone there is no policy's config
        preprocessor.save_pretrained(folder)
        postprocessor.save_pretrained(folder)


def _check_class(policy: Any) -> None:
    """Refuse a policy that acts by code which no checkpoint has: it would be evaluated without that."""
    from lerobot.policies.factory import get_policy_class

    kind = str(policy.config.type)
    try:
        loaded = get_policy_class(kind)
    except Exception:  # it knows no such type, or lacks what that needs
        loaded = None
    own = [name for name in ("select_action", "predict_action_chunk") if name in vars(policy)]
    if type(policy) is not loaded or own:
        what = f"has a {own[0]} of its own" if own else f"is not what a checkpoint of type {kind} is loaded as"
        raise UsageError(
            f"{type(policy).__name__} {what}, so what is saved of it would act otherwise. Register it with "
            "LeRobot as a type of its own, or give an object with act(observation)."
        )


def _is_lerobot(policy: Any) -> bool:
    return any((kind.__module__, kind.__name__) == _BASE for kind in type(policy).__mro__)


def _adapted(policy: Any) -> Any | None:
    """Return the LeRobot policy that a PEFT model adapts."""
    base = getattr(policy, "get_base_model", None)
    found = base() if callable(base) else None
    return found if found is not None and _is_lerobot(found) else None
