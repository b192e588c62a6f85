"""Opening a registered `gymnasium.Env`: its package is imported first, wherever that is done."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proctor.errors import UsageError


@dataclass(frozen=True)
class EnvRecipe:
    """What has to be known to open an environment.

    Attributes:
        env_id: as Gymnasium's registry has it.
        packages: what registers it; empty: tried without, then with the id's namespace.
        kwargs: arguments of the environment.
        max_steps: step limit; 0: the environment's own.
    """

    env_id: str
    packages: tuple[str, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    max_steps: int = 0


def open_env(recipe: EnvRecipe) -> Any:
    """Return the environment.

    Raises:
        UsageError: it is not registered, or could not be made; says why, and what to do where that is known.
    """
    import gymnasium

    # Drawing with pygame needs neither a window nor a loudspeaker.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    for package in recipe.packages:
        _import(package)
    spec = _find(recipe)
    arguments = {**_drawing_arguments(spec), **recipe.kwargs}
    try:
        return gymnasium.make(
            spec, max_episode_steps=recipe.max_steps or None, disable_env_checker=True, **arguments
        )
    except Exception as error:
        words = " ".join(str(error).split())
        raise UsageError(
            f"--env.task={recipe.env_id} cannot be opened: {type(error).__name__}: {words}"
        ) from error


def _import(package: str) -> None:
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name is not None and (package == error.name or package.startswith(f"{error.name}.")):
            raise UsageError(
                f"--env.package={package}: there is no such package for {sys.executable}. "
                "Install it there, or set PYTHONPATH."
            ) from None
        raise UsageError(f"--env.package={package} cannot be imported: {error}.") from error
    except Exception as error:
        raise UsageError(f"--env.package={package} cannot be imported: {type(error).__name__}: {error}") from error


def _find(recipe: EnvRecipe) -> Any:
    """Return the registration of an id; a namespace that nobody has registered yet may be a package's name."""
    import gymnasium

    namespace = recipe.env_id.partition("/")[0] if "/" in recipe.env_id else ""
    if namespace.isidentifier() and not recipe.packages and recipe.env_id not in gymnasium.registry:
        try:
            known = importlib.util.find_spec(namespace) is not None
        except ValueError:
            known = False
        if known:
            _import(namespace)
    try:
        return gymnasium.spec(recipe.env_id)
    except gymnasium.error.Error as error:
        words = " ".join(str(error).split())
        unknown = isinstance(error, gymnasium.error.NameNotFound | gymnasium.error.NamespaceNotFound)
        hint = " If a package registers it, install it and name it: --env.package=NAME." if unknown else ""
        raise UsageError(f"--env.task={recipe.env_id}: {words}{hint}") from None


def _drawing_arguments(spec: Any) -> dict[str, Any]:
    """Frames as arrays, where the environment says that it can; it is asked for one only when it is wanted."""
    from gymnasium.envs.registration import load_env_creator

    try:
        creator = spec.entry_point if callable(spec.entry_point) else load_env_creator(spec.entry_point)
    except Exception:
        return {}  # making it will fail in the same way, and say so
    modes = (getattr(creator, "metadata", None) or {}).get("render_modes") or ()
    return {"render_mode": "rgb_array"} if "rgb_array" in modes else {}
