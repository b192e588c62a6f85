"""LeRobot's kinds of policies: the one that a checkpoint is of is imported, and not all twenty.

`import lerobot.policies` imports every one of them, and what each of them needs; the configuration of one alone
imports its network and the library of datasets. Here these packages are there before they have done so; each does
the moment anything is asked of it that it does not have yet. Their parts are imported as usual meanwhile, so
nothing that they or others find there is another than always.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

_POLICIES = "lerobot.policies"

_incomplete: dict[str, ModuleType] = {}
"""Packages that have not run their `__init__` yet, by name."""


def register_kind(kind: Any) -> None:
    """Have LeRobot know a kind of policy by its name, and all of them if that is not where it says."""
    from lerobot.configs import PreTrainedConfig

    for other in _kinds():
        if other != kind:
            _on_demand(f"{_POLICIES}.{other}")
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
    _policies()
    _complete(_POLICIES)


@cache
def _policies() -> ModuleType:
    """Return LeRobot's package of policies, which imports them when they are asked for."""
    from lerobot.utils.import_utils import register_third_party_plugins

    register_third_party_plugins()
    return _on_demand(_POLICIES)


def _kinds() -> list[str]:
    parts = ((Path(folder), part.name) for folder in _policies().__path__ for part in iter_modules([folder]))
    return [name for folder, name in parts if (folder / name / f"configuration_{name}.py").is_file()]


def _on_demand(name: str) -> ModuleType:
    """Return a package that imports what its `__init__` does as soon as it is asked for anything else."""
    if name in sys.modules:  # a plugin has imported it
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    assert spec is not None
    package = importlib.util.module_from_spec(spec)

    def ask(attribute: str) -> Any:
        if attribute.startswith("__") and attribute != "__all__":
            raise AttributeError(attribute)  # someone looks whether it is a module of some sort
        _complete(name)
        return getattr(package, attribute)

    package.__getattr__ = ask  # type: ignore[method-assign]
    _incomplete[name] = package
    sys.modules[name] = package
    parent, _, own_name = name.rpartition(".")
    setattr(sys.modules[parent], own_name, package)  # as importing it does
    return package


def _complete(name: str) -> None:
    """Run a package's `__init__` if it has not been run yet; LeRobot's for all policies runs that of each."""
    package = _incomplete.pop(name, None)
    if package is None:
        return
    ask = vars(package).pop("__getattr__")
    try:
        package.__spec__.loader.exec_module(package)  # type: ignore[union-attr]
        for kind in _kinds() if name == _POLICIES else ():
            _complete(f"{name}.{kind}")
    except BaseException:
        package.__getattr__ = ask  # type: ignore[method-assign]
        _incomplete[name] = package
        raise
