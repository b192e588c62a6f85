"""What a checkpoint reads and runs while it is loaded: the files it opens are noted, its own code is refused.

A checkpoint is a stranger's data. It can name a class to call (a processor's step), bring Python files along, or
hold a pickle. Libraries have many ways to such code, so it is stopped where all of them end: Python's audit events
say which file is opened, which code is executed and what a pickle asks for. Nothing runs that lies among
strangers' data, and steps must be those of lerobot and of installed plugins, unless the user trusts it.

Its JSON files must be regular, bounded and of the form that LeRobot writes. LeRobot itself would raise whatever it
comes across first, or wait for a pipe.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from proctor.errors import UsageError
from proctor.files import MOST_JSON, clip, parse_json, read_json, read_regular, reason

_TRUST = "Look at it, then add --trust_remote_code=true"
ADAPTER = "adapter_config.json"
"""The file that makes a directory a PEFT adapter."""

_CODE = (".py", ".pyc", ".so")
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".dill")
_NO_PICKLES = (".safetensors", ".json", ".jsonl", ".txt", ".model", ".jinja", ".yaml", ".yml", ".md")
# What tensors and arrays are rebuilt with; anything else in a pickle may do anything.
_HARMLESS = {
    "collections": ("OrderedDict", "defaultdict"),
    "builtins": ("set", "frozenset", "dict", "list", "tuple", "int", "float", "complex", "slice", "bytearray"),
    "_codecs": ("encode",),
    "numpy": ("dtype", "ndarray"),
    "numpy.core.multiarray": ("_reconstruct", "scalar"),
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
    "torch": ("Size", "device", "Tensor", "float32", "float16", "bfloat16", "float64", "int64", "int32", "bool"),
    "torch._utils": ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_parameter"),
    "torch.nn.parameter": ("Parameter",),
    "torch.storage": ("TypedStorage", "UntypedStorage"),
}


class CheckpointGuard:
    """Watches one checkpoint being loaded.

    Args:
        trusted: whether the user trusts it; then it is only noted what is read.
    """

    def __init__(self, trusted: bool) -> None:
        self._trusted = trusted
        self.read: set[Path] = set()
        """Files that were opened for reading, besides code."""
        self._refused: str | None = None
        self._pickle: str | None = None
        self._strange = {_real(place) for place in _caches()}
        installed = {_real(place) for place in (sys.prefix, sys.base_prefix, *sys.path) if place}
        # The directory of the command is on the path as well, but holds anything.
        self._own = installed - self._strange - {_real(Path.cwd())}

    @contextmanager
    def watch(self, *strange: Path) -> Iterator[None]:
        """Watch what happens within; `strange` are places that hold strangers' data, besides the hub's caches.

        Raises:
            UsageError: something that comes with the checkpoint was to run; it has not.
        """
        self._strange |= {_real(place) for place in strange}
        _install()
        _WATCHING.append(self)
        try:
            yield
        except Exception as error:
            if self._refused is not None:
                raise UsageError(self._refused) from error
            raise
        finally:
            _WATCHING.remove(self)
        if self._refused is not None:  # whoever asked for it went on without
            raise UsageError(self._refused)

    def notice(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an audit event."""
        if event == "open":
            self._opened(*arguments[:3])
        elif self._trusted:
            return
        elif event == "exec":
            self._runs(getattr(arguments[0], "co_filename", None))
        elif event in ("import", "ctypes.dlopen"):
            self._runs(arguments[1] if event == "import" else arguments[0])
        elif event == "pickle.find_class":
            self._unpickles(*arguments[:2])

    def _opened(self, path: Any, mode: Any, flags: Any) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return
        writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else flags & os.O_ACCMODE
        if writes:
            return
        file = Path.cwd() / os.fsdecode(path)
        if file.suffix not in _CODE:
            self.read.add(Path(os.path.normpath(file)))
        elif not self._trusted:
            self._runs(str(file))
        if self._may_be_pickle(file):
            self._pickle = str(file)

    def _may_be_pickle(self, file: Path) -> bool:
        """A stranger's may have any name; elsewhere, only what is called so."""
        if file.suffix in _PICKLES:
            return self._owner(file) != "installed"
        return file.suffix not in (*_NO_PICKLES, *_CODE) and self._owner(file) == "stranger"

    def _runs(self, place: Any) -> None:
        if isinstance(place, str) and place.startswith(os.sep) and self._owner(Path(place)) == "stranger":
            self._refuse(f"the checkpoint wants to run code that comes with it, {place}. {_TRUST}")

    def _unpickles(self, module: str, name: str) -> None:
        storage = module == "torch" and name.endswith("Storage")
        if self._pickle is not None and name not in _HARMLESS.get(module, ()) and not storage:
            self._refuse(f"{self._pickle} is a pickle that calls {module}.{name} when it is loaded. {_TRUST}")

    def _owner(self, file: Path) -> Literal["installed", "stranger"] | None:
        """Return whose a file is: the innermost place that it lies in decides; `None`: anybody's."""
        for folder in (file, *file.parents):
            for spelling in {str(folder), _real(folder)}:
                if spelling in self._strange:
                    return "stranger"
                if spelling in self._own:
                    return "installed"
        return None

    def _refuse(self, message: str) -> None:
        self._refused = self._refused or message
        raise UsageError(message)


_WATCHING: list[CheckpointGuard] = []
_installed = False


def _install() -> None:
    # An audit hook stays for good; while nothing is watched it returns at once.
    global _installed
    if not _installed:
        _installed = True
        sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _WATCHING:
        for guard in tuple(_WATCHING):
            guard.notice(event, arguments)


def _caches() -> Iterator[str]:
    from huggingface_hub import constants

    yield from (constants.HF_HOME, constants.HF_HUB_CACHE)
    yield os.environ.get("HF_MODULES_CACHE") or str(Path(constants.HF_HOME) / "modules")


def _real(place: str | Path) -> str:
    return os.path.realpath(place)


def check_steps(directory: Path) -> None:
    """Refuse processors with a step that is neither lerobot's nor an installed plugin's; nothing is called yet.

    Raises:
        UsageError: there is one.
    """
    packages = {"lerobot", *_plugins()}
    for file in sorted(directory.glob("*.json")):
        for step in steps_in_any(file):
            # A registered step was registered by code that is imported already; LeRobot looks there first.
            if "registry_name" in step or "class" not in step:
                continue
            name = str(step["class"])
            if name.partition(".")[0] not in packages or not _is_step(name):
                raise UsageError(
                    f"{file} wants to call {clip(name)}, which is no processor step of lerobot or of an installed "
                    f"plugin. {_TRUST}"
                )


def check_adapter(config: dict[str, Any], file: Path) -> None:
    """Refuse a PEFT adapter that has something imported other than the policy's and PEFT's own packages."""
    allowed = {"lerobot", "peft", "transformers", *_plugins()}
    mapping = config.get("auto_mapping")
    named = [mapping.get("parent_library")] if isinstance(mapping, dict) else []
    if config.get("megatron_config"):
        named.append(config.get("megatron_core"))
    for name in named:
        if name is not None and str(name).partition(".")[0] not in allowed:
            raise UsageError(f"{file} wants to import {clip(name)}. {_TRUST}")


@cache
def _plugins() -> frozenset[str]:
    names = (distribution.metadata["Name"] or "" for distribution in metadata.distributions())
    return frozenset(name.replace("-", "_") for name in names if name.replace("-", "_").startswith("lerobot_"))


def _is_step(name: str) -> bool:
    from lerobot.processor import ProcessorStep

    module, _, attribute = name.rpartition(".")
    try:
        step = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        return False
    return isinstance(step, type) and issubclass(step, ProcessorStep)


_REMEDY = "Download or save the checkpoint again."


def read_document(directory: Path, name: str) -> dict[str, Any] | None:
    """Return a JSON file of a checkpoint; `None` if there is none of that name.

    Raises:
        UsageError: it is damaged, or something else than LeRobot writes.
    """
    file = directory / name
    if not os.path.lexists(file):
        return None
    try:
        document = read_json(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {reason(error)}. {_REMEDY}") from None
    except ValueError as error:
        raise UsageError(f"{file} is damaged ({clip(str(error), 100)}). {_REMEDY}") from None
    if not isinstance(document, dict):
        raise otherwise(file, "a map was expected")
    return document


def read_steps(directory: Path, name: str) -> list[dict[str, Any]]:
    """Return the steps of a processor, each with its `config`, a map; none where there is no such file."""
    document = read_document(directory, name)
    if document is None:
        return []
    steps = document.get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise otherwise(directory / name, "'steps' is no list of maps")
    if not all(isinstance(step.get("config") or {}, dict) for step in steps):
        raise otherwise(directory / name, "the 'config' of a step is no map")
    return [{**step, "config": step.get("config") or {}} for step in steps]


def steps_in_any(file: Path) -> list[dict[str, Any]]:
    """Return what may be a processor's steps in a JSON file of which it is not known what it is.

    Raises:
        UsageError: it cannot be looked into, although LeRobot might.
    """
    if file.is_dir():
        return []
    try:
        data = read_regular(file, MOST_JSON)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {reason(error)}. {_REMEDY}") from None
    try:
        document = parse_json(data)
    except ValueError:
        return []  # whoever needs it says so
    steps = document.get("steps") if isinstance(document, dict) else None
    return [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []


def otherwise(file: Path, what: str) -> UsageError:
    """Return the error about a file that is not of LeRobot's form."""
    return UsageError(f"{file} is not as LeRobot writes it: {what}. {_REMEDY}")
