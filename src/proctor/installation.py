"""How Proctor is installed: its distribution's name, how to add to it, and how another process finds it."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from proctor import __version__
from proctor.errors import UsageError

DISTRIBUTION = "proctor-eval"
"""The name on the package index, where `proctor` is somebody else's."""

_ROOT = Path(__file__).parents[1]
"""The folder that `import proctor` finds the package in."""


def clone() -> Path | None:
    """Return the source tree that Proctor runs from, by an editable installation or by PYTHONPATH, if it does."""
    tree = _ROOT.parent
    return tree if _ROOT.name == "src" and (tree / "pyproject.toml").is_file() else None


def install_command(extra: str = "", pip: str = "pip") -> str:
    """Return the command that installs Proctor, with an extra of it, the way it is installed here.

    Args:
        extra: what it is to bring along.
        pip: how the interpreter's pip is called.
    """
    tree, extras = clone(), f"[{extra}]" if extra else ""
    if tree is None:
        return f"{pip} install '{DISTRIBUTION}{extras}'"
    return f"{pip} install -e '{'.' if tree == _here() else tree}{extras}'"


def _here() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # it is gone
        return None


def missing_package(who: str, package: str, extra: str) -> UsageError:
    """Return the error for something that cannot work without a package which an extra of Proctor brings."""
    return UsageError(f"{who} needs the package {package}. Run: {install_command(extra)}")


def require(who: str, extra: str, *modules: str) -> None:
    """Refuse what cannot work without modules which an extra of Proctor brings. Nothing is imported."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise missing_package(who, module, extra)


def package_environment() -> dict[str, str]:
    """Return the PYTHONPATH a child needs when Proctor runs from a source tree instead of an installation."""
    if _ROOT.name in ("site-packages", "dist-packages"):
        return {}
    paths = [str(_ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def other_version(asked: str) -> str | None:
    """Say what to do if another process wants another Proctor than this interpreter has; `None` if all is well.

    A parent that runs from a source tree hands that down, so it has been installed from a release.
    """
    if asked == __version__:
        return None
    return (
        f"{sys.executable} has Proctor {__version__}, this is {asked}. "
        f"Run: {sys.executable} -m pip install {DISTRIBUTION}=={asked}"
    )
