"""A registered `gymnasium.Env`: how it is opened, and what it tells when it is asked and tried.

That is its spaces, its limits, its pace, its success flag. Its package is imported first, wherever that is done.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import numpy as np

from proctor.benchmarks.gym.spaces import ActionForm, action_form, leaves, look_up
from proctor.benchmarks.rendering import is_picture
from proctor.blame import named
from proctor.errors import UsageError
from proctor.types import Feature

TRIAL_STEPS = 100
"""Steps in which a success flag must show up to be known by itself."""

_ENGINES = {
    "mujoco": "mujoco",
    "dm_control": "dm-control",
    "pymunk": "pymunk",
    "Box2D": "box2d",
    "pybullet": "pybullet",
    "ale_py": "ale-py",
    "robosuite": "robosuite",
    "sapien": "sapien",
    "jax": "jax",
    "torch": "torch",
}
"""Modules whose versions change trajectories, and their distributions; those count that an environment imports."""


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
        raise UsageError(f"--env.task={recipe.env_id} cannot be opened: {named(error)}") from error


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
        raise UsageError(f"--env.package={package} cannot be imported: {named(error)}") from error


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


@dataclass(frozen=True)
class EnvFacts:
    """What one task's environment says of itself.

    `no_frames`: why it cannot draw frames, empty if it can. `draws_on_look`: whether it draws nothing unasked.
    `success`: whether it reports success.
    """

    features: dict[str, Feature]
    form: ActionForm
    max_steps: int
    prompt: str
    fps: int
    no_frames: str
    draws_on_look: bool
    modules: tuple[str, ...]
    success: SuccessProbe


@dataclass(frozen=True)
class SuccessProbe:
    """What `info` held in the first steps of an episode with random actions.

    `seen`: whether a success flag was there. `entries`: the names of all that was there. `problem`: why it could
    not be tried.
    """

    seen: bool = False
    entries: tuple[str, ...] = ()
    problem: str = ""


def env_facts(recipe: EnvRecipe, render_as: str = "", flags: Sequence[str] = ()) -> EnvFacts:
    """Open an environment, ask it, try it, close it.

    Args:
        recipe: which environment.
        render_as: observation key for frames, if they are wanted.
        flags: entries of `info` that may report success; empty: none does, and nothing is tried.

    Raises:
        UsageError: it cannot be opened or used; says why.
    """
    env = open_env(recipe)
    try:
        features = {key: leaf.feature for key, leaf in leaves(env.observation_space, recipe.env_id).items()}
        drawn = any(feature.drawn for feature in features.values())
        frame, no_frames = _frame(env, recipe.env_id)
        if render_as in features:
            raise UsageError(f"--env.render_as={render_as}: {recipe.env_id} has an observation of that name.")
        if render_as and frame is None:
            unknown = f"{recipe.env_id} does not say how large its frames are (`height` and `width`)."
            raise UsageError(f"--env.render_as={render_as}: {no_frames or unknown}")
        if render_as and frame is not None:
            features[render_as] = frame
        limit = recipe.max_steps or (env.spec.max_episode_steps if env.spec is not None else None)
        if not limit:
            raise UsageError(f"--env.task={recipe.env_id} has no step limit. Set one: --env.episode_length=STEPS.")
        return EnvFacts(
            features=features,
            form=action_form(env.action_space, recipe.env_id),
            max_steps=int(limit),
            prompt=_prompt(env),
            fps=round(env.metadata.get("render_fps") or 30),
            no_frames=no_frames,
            draws_on_look=not drawn or env.has_wrapper_attr("set_look"),
            modules=_modules(env),
            success=_try(env, flags, int(limit)) if flags else SuccessProbe(),
        )
    finally:
        env.close()


def _modules(env: Any) -> tuple[str, ...]:
    """Return where the classes of an environment and of its wrappers are."""
    layers = [env]
    while layers[-1] is not env.unwrapped:
        layers.append(layers[-1].env)
    return tuple(sorted({type(layer).__module__ for layer in layers}))


def _try(env: Any, flags: Sequence[str], limit: int) -> SuccessProbe:
    """Play the beginning of an episode, to see whether there is a success flag: before any policy has a say in it.

    It need not be true. Most environments have one in every step; one that has it at the end, or only on success,
    is not known by this, and `--env.success_key` says so.
    """
    entries: dict[str, None] = {}
    try:
        if env.has_wrapper_attr("set_look"):
            env.get_wrapper_attr("set_look")(frozenset())
        env.action_space.seed(0)
        _, info = env.reset(seed=0)
        over = False
        for _ in range(min(limit, TRIAL_STEPS) + 1):
            entries.update(dict.fromkeys(map(str, info)))
            if any(look_up(info, flag) is not None for flag in flags):
                return SuccessProbe(True, tuple(entries))
            if over:
                break
            _, _, terminated, truncated, info = env.step(env.action_space.sample())
            over = terminated or truncated
    except Exception as error:
        return SuccessProbe(False, tuple(entries), named(error))
    return SuccessProbe(False, tuple(entries))


def _frame(env: Any, task: str) -> tuple[Feature | None, str]:
    """Return what frames look like, if that is known, and why there are none. One is drawn if no GL is needed."""
    if env.render_mode != "rgb_array":
        return None, f"{task} cannot be drawn as an array (its render modes: {env.metadata.get('render_modes')})."
    inner = env.unwrapped
    if "mujoco" in sys.modules:
        # No GL is chosen yet. Gymnasium's own environments say how large their frames are.
        height, width = (int(getattr(inner, name, None) or 0) for name in ("height", "width"))
        return (Feature((height, width, 3), "uint8", drawn=True) if height and width else None), ""
    try:
        env.reset(seed=0)
        frame = np.asarray(env.render())
    except Exception as error:
        return None, f"{task} cannot be drawn: {named(error)}"
    if not is_picture(frame):
        return None, f"{task} cannot be drawn: render() gave {frame.dtype}{frame.shape}, no picture."
    return Feature(tuple(frame.shape), "uint8", drawn=True), ""


def _prompt(env: Any) -> str:
    """Return the task in words, where LeRobot looks for it."""
    for name in ("task_description", "task"):
        if env.has_wrapper_attr(name):
            words = env.get_wrapper_attr(name)
            if isinstance(words, str):
                return words
    return ""


def distributions_behind(modules: Iterable[str]) -> list[str]:
    """Return the distributions of modules, and of the physics that have been imported with them."""
    by_module = metadata.packages_distributions()
    own = [name for module in modules for name in by_module.get(module, ())]
    return [*own, *(name for module, name in _ENGINES.items() if module in sys.modules)]
