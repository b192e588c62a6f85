"""Where benchmarks and policies are found: our own by name, others' by entry point or by path.

Everything is a string until the process that needs the object loads it, so naming a benchmark imports no
simulator and naming a policy imports no model. Entry points are read from the metadata of the packages, one
package at a time: one with a damaged entry point must not hide the others.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proctor.blame import UserCodeError, users_code
from proctor.errors import ProctorError, UsageError, did_you_mean
from proctor.files import clip, given_path

if TYPE_CHECKING:  # workers are given paths, and start faster without it
    from importlib import metadata

BENCHMARKS = {
    "metaworld": "proctor.benchmarks.metaworld.benchmark:MetaWorld",
    "gym": "proctor.benchmarks.gym.benchmark:Gym",
    "pusht": "proctor.benchmarks.gym.presets:PushT",
    "aloha": "proctor.benchmarks.gym.presets:Aloha",
    "libero": "proctor.benchmarks.libero.benchmark:Libero",
}

BENCHMARK_GROUP, POLICY_GROUP = "proctor.benchmarks", "proctor.policies"

_TARGET = re.compile(r"(?P<module>[\w.]+)\s*:\s*(?P<name>[\w.]+)\s*(\[.*\])?")
_OURS = "proctor"
_OF_FILES = "proctor_user_"
_SOURCE = "__proctor_source__"
_LOADING = threading.RLock()
"""One thread at a time runs a user's file, and may load another from inside it: who comes second gets it whole."""

COMPACT = "compact"
"""The one kind of checkpoint that is not LeRobot's; its `config.json` says so."""

SHIPPED = "proctor/"
"""What begins the names of the checkpoints that come with Proctor: `--policy.path=proctor/metaworld-mt50`."""

POLICIES = {
    "expert": "proctor.policies.baselines:ExpertPolicy",
    "random": "proctor.policies.baselines:RandomPolicy",
    "zero": "proctor.policies.baselines:ZeroPolicy",
    COMPACT: "proctor.policies.compact.policy:CompactPolicy",
    "python": "proctor.policies.python:PythonPolicy",
    "lerobot": "proctor.policies.lerobot.policy:LeRobotPolicy",
    "remote": "proctor.policies.remote.policy:RemotePolicy",
}

VECTOR = "proctor.vector"
"""What `EnvSettings` calls for all that LeRobot's configs have and settings alone do not know."""


def benchmark_path(name: str) -> str:
    """Return the `module:Class` of a benchmark given by name, `module:Class` or `file.py:Class`."""
    return _find("env.type", name, BENCHMARKS, BENCHMARK_GROUP)


def policy_path(name: str) -> str:
    """Return the `module:Class` of a policy kind given by name."""
    return _find("policy.type", name, POLICIES, POLICY_GROUP)


def known_benchmarks() -> list[str]:
    """Return the names of all benchmarks, ours and those of other packages."""
    return sorted({*BENCHMARKS, *(plugin.name for plugin in plugins(BENCHMARK_GROUP))})


def _find(flag: str, name: str, builtin: dict[str, str], group: str) -> str:
    if name in builtin:
        return builtin[name]
    if ":" in name:
        return name
    offered = plugins(group)
    rivals = clash(name, offered)
    if rivals:
        raise UsageError(
            f"--{flag}={name}: {rivals} both have it. Uninstall one, or say which: --{flag}=module:Class"
        )
    for plugin in offered:
        if plugin.name == name:
            if plugin.fault:
                raise UsageError(f"--{flag}={name}, from {plugin.source}: {plugin.fault}.")
            return plugin.target
    known = sorted({*builtin, *(plugin.name for plugin in offered)})
    raise UsageError(f"--{flag}={name}: unknown.{did_you_mean(name, known)} Known: {', '.join(known)}.")


def load_named(flag: str, name: str, path: str) -> Any:
    """Import what stands behind a name that the user gave.

    Raises:
        UsageError: it cannot be imported. Whoever gives a file or module of their own is told where it failed.
    """
    try:
        return load_object(path)
    except UserCodeError as error:
        if ":" in name:
            raise UserCodeError(f"--{flag}={name}: {error}") from error.__cause__
        raise _broken(flag, name, path, error.__cause__ or error) from error
    except ProctorError as error:
        raise UsageError(f"--{flag}={name}: {error}") from None
    except Exception as error:  # of a module of ours, which lacks a package
        raise _broken(flag, name, path, error) from error


def _broken(flag: str, name: str, path: str, error: BaseException) -> UsageError:
    return UsageError(
        f"--{flag}={name}: {path} cannot be imported: {type(error).__name__}: {' '.join(str(error).split())}. "
        "Install its package again, or what it lacks."
    )


def absolute_source(path: str) -> str:
    """Return `file.py:Name` with an absolute path, so that it holds in other directories; others as they are."""
    where, colon, name = path.rpartition(":")
    if not colon or not where.endswith(".py"):
        return path
    with given_path(where):
        return f"{Path(where).expanduser().absolute()}:{name}"


def path_of(found: Any) -> str:
    """Return the `module:Name` or `file.py:Name` under which any process loads this class; a path as it is."""
    if isinstance(found, str):
        return absolute_source(found)
    module = sys.modules[found.__module__]
    file = getattr(module, "__file__", None)
    if file and (module.__name__ == "__main__" or module.__name__.startswith(_OF_FILES)):
        return f"{Path(file).absolute()}:{found.__qualname__}"
    return f"{module.__name__}:{found.__qualname__}"


def load_object(path: str) -> Any:
    """Import what `module:Name` or `file.py:Name` names.

    Raises:
        UsageError: it is not there.
        UserCodeError: it raises, or leaves in another way, while it is imported; says where. A module of ours
            raises whatever it does.
    """
    where, _, name = path.rpartition(":")
    if not where or not name:
        raise UsageError(f"'{clip(path)}' is not of the form file.py:Name or module:Name.")
    if where.partition(".")[0] == _OURS:
        return getattr(importlib.import_module(where), name)
    with users_code(f"{clip(where)} cannot be imported"):
        module = _load_file(where) if where.endswith(".py") else _load_module(where)
        try:
            return getattr(module, name)
        except AttributeError:
            public = [known for known in vars(module) if not known.startswith("_")]
            raise UsageError(f"{clip(where)} has no '{clip(name)}'.{did_you_mean(name, public)}") from None


def _load_module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # A module that the user's own file imports in vain is another matter: its name tells.
        if error.name is not None and not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise UsageError(
            f"there is no module '{name}' for this interpreter ({sys.executable}). "
            "Install it, set PYTHONPATH, or give a file: path/to/file.py:Name."
        ) from None


class _FreshLoader(SourceFileLoader):
    """Reads the source itself: cached bytecode is taken for current if an edit came within the same second."""

    def get_code(self, fullname: str) -> Any:
        """Compile what the file holds now."""
        return self.source_to_code(self.get_data(self.path), self.path)


def _load_file(where: str) -> Any:
    with given_path(where):
        path = Path(where).expanduser().resolve()
        if not path.is_file():
            raise UsageError(f"there is no file {clip(str(path), 300)}.")
    with _LOADING:
        return _load_once(path, f"{_OF_FILES}{path.stem}")


def _load_once(path: Path, name: str) -> Any:
    loaded, source = sys.modules.get(name), path.read_bytes()
    # In a notebook it may have been edited since.
    if loaded is not None and getattr(loaded, _SOURCE, None) == (str(path), source):
        return loaded
    spec = importlib.util.spec_from_file_location(name, path, loader=_FreshLoader(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    setattr(module, _SOURCE, (str(path), source))
    sys.modules[name] = module
    # Its neighbours are importable, as they would be from a script.
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


@dataclass(frozen=True)
class Plugin:
    """A name that a package offers, and `module:Class` behind it; `fault` says why it cannot be used."""

    name: str
    target: str
    package: str
    version: str
    fault: str = ""

    @property
    def source(self) -> str:
        """The package and its version."""
        return f"{self.package} {self.version}".strip()


def plugins(group: str) -> list[Plugin]:
    """Return what the installed packages offer in a group of entry points, by name."""
    from importlib import metadata

    found: dict[tuple[str, str], Plugin] = {}
    seen: set[str] = set()
    for distribution in metadata.distributions():
        text = _entry_points(distribution)
        if group not in text:
            continue  # most packages; reading their names as well would take ten times as long
        package, version = _identity(distribution)
        key = re.sub(r"[-_.]+", "-", package).lower()
        if not package or key in seen:
            continue  # a second copy further down the path is not the one that is imported
        seen.add(key)
        for name, target in _entries(text, group):
            match = _TARGET.fullmatch(target)
            plugin = (
                Plugin(name, f"{match['module']}:{match['name']}", package, version)
                if match
                else Plugin(name, target, package, version, f"its entry point '{target}' is not module:Class")
            )
            found[name, plugin.package] = plugin
    return [found[key] for key in sorted(found)]


def clash(name: str, offered: list[Plugin]) -> str:
    """Say which packages offer one name with different things behind it; nothing if there is no choice to make."""
    rivals = [plugin for plugin in offered if plugin.name == name]
    if len({plugin.target for plugin in rivals}) < 2:
        return ""
    return " and ".join(f"{plugin.source} ({plugin.target})" for plugin in rivals)


def _identity(distribution: metadata.Distribution) -> tuple[str, str]:
    try:
        return str(distribution.metadata["Name"] or ""), str(distribution.version or "")
    except Exception:  # damaged in one of many ways, and then it can offer nothing
        return "", ""


def _entry_points(distribution: metadata.Distribution) -> str:
    try:
        return distribution.read_text("entry_points.txt") or ""
    except (OSError, UnicodeDecodeError):
        return ""


def _entries(text: str, group: str) -> Iterator[tuple[str, str]]:
    """Read line by line: the standard library's parser gives up on all packages at one bad line."""
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section == group and line and not line.startswith(("#", ";")):
            name, _, target = (part.strip() for part in line.partition("="))
            if name:
                yield name, target
