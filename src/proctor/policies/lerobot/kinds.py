"""LeRobot's kinds of policies: the one that a checkpoint is of is imported, and not all twenty.

`import lerobot.policies` imports every one of them, and what each of them needs. Here the package is there before
it has done so; it does the moment anything is asked of it that it does not have yet. Its parts are imported as
usual meanwhile, so nothing that they or others find there is another than always.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import Any

_POLICIES = "lerobot.policies"


def register_kind(kind: Any) -> None:
    """Have LeRobot know a kind of policy by its name, and all of them if that is not where it says."""
    from lerobot.configs import PreTrainedConfig

    _policies()
    if isinstance(kind, str) and re.fullmatch(r"[a-z]\w*", kind):
        try:
            importlib.import_module(f"{_POLICIES}.{kind}.configuration_{kind}")
            # Imported while nothing that a checkpoint names is loaded yet.
            importlib.import_module(f"{_POLICIES}.factory")
        except ImportError:
            pass  # of a plugin, or without something that it needs: LeRobot itself says what
    if not isinstance(kind, str) or kind not in PreTrainedConfig.get_known_choices():
        register_all()


def register_steps(names: Iterable[Any]) -> None:
    """Have LeRobot know the steps of processors that a checkpoint names; one may be another kind's."""
    from lerobot.processor import ProcessorStepRegistry

    for name in names:
        try:
            if isinstance(name, str):
                ProcessorStepRegistry.get(name)
        except KeyError:
            register_all()  # a step that nobody has is LeRobot's to refuse
            return


def register_all() -> None:
    """Have LeRobot know everything that it has."""
    complete = vars(_policies()).get("__getattr__")
    if complete is not None:
        complete("__all__")


@cache
def _policies() -> ModuleType:
    """Return LeRobot's package of policies, which imports them when they are asked for."""
    from lerobot.utils.import_utils import register_third_party_plugins

    register_third_party_plugins()
    if _POLICIES in sys.modules:  # a plugin has imported it
        return sys.modules[_POLICIES]
    spec = importlib.util.find_spec(_POLICIES)
    assert spec is not None
    package = importlib.util.module_from_spec(spec)

    def complete(name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)  # someone looks whether it is a module of some sort
        del package.__getattr__
        try:
            spec.loader.exec_module(package)  # type: ignore[union-attr]
        except BaseException:
            package.__getattr__ = complete  # type: ignore[method-assign]
            raise
        return getattr(package, name)

    package.__getattr__ = complete  # type: ignore[method-assign]
    sys.modules[_POLICIES] = package
    setattr(sys.modules["lerobot"], "policies", package)  # noqa: B010 - as importing it does
    return package
