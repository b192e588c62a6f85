"""Environments that someone else hosts: a hub repository with a `make_env` of its own, as LeRobot runs them.

That is a stranger's code, and it runs with the rights of whoever asks for it: only on an explicit word.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from proctor.blame import named
from proctor.errors import UsageError

_HUB_ID = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>[^:@]+))?(:(?P<file>[^:]+\.py))?")


class HubId(NamedTuple):
    """`user/repo[@revision][:path.py]`."""

    repo: str
    revision: str | None
    file: str

    def __str__(self) -> str:
        return f"{self.repo}{f'@{self.revision}' if self.revision else ''}:{self.file}"


def parse_hub_id(text: str) -> HubId | None:
    """Return the parts of a hub id, or `None` if the text is something else.

    >>> parse_hub_id("user/repo@v1:envs/mine.py")
    HubId(repo='user/repo', revision='v1', file='envs/mine.py')
    >>> parse_hub_id("user/repo")
    HubId(repo='user/repo', revision=None, file='env.py')
    >>> parse_hub_id("metaworld") is None and parse_hub_id("benchmarks/mine.py:Mine") is None
    True
    """
    found = _HUB_ID.fullmatch(text)
    return HubId(found["repo"], found["revision"], found["file"] or "env.py") if found else None


def make_hub_env(
    where: HubId,
    n_envs: int,
    use_async_envs: bool,
    config: Any,
    cache_dir: str | None,
    trust_remote_code: bool,
) -> dict[str, dict[int, Any]]:
    """Fetch a repository's file, run its `make_env`, and return what it made as {group: {task_id: VectorEnv}}.

    Raises:
        UsageError: nobody has agreed to run it, or it is not there or not of that kind.
    """
    if not trust_remote_code:
        raise UsageError(
            f"{where} is code from the hub, and making the environment runs it. Read it first "
            f"(https://huggingface.co/{where.repo}), then pass trust_remote_code=True and pin a revision: "
            f"{where.repo}@COMMIT:{where.file}"
        )
    module = _load(_fetch(where, cache_dir), where)
    make = getattr(module, "make_env", None)
    if not callable(make):
        raise UsageError(f"{where} has no make_env(n_envs, use_async_envs).")
    options = {} if config is None else {"cfg": config}
    return _normalised(make(n_envs=n_envs, use_async_envs=use_async_envs, **options), where)


def _fetch(where: HubId, cache_dir: str | None) -> Path:
    try:
        import huggingface_hub
    except ModuleNotFoundError:
        raise UsageError(
            f"{where} is on the hub, which needs a package. Run: pip install huggingface_hub"
        ) from None
    try:
        return Path(
            huggingface_hub.hf_hub_download(
                repo_id=where.repo, filename=where.file, revision=where.revision, cache_dir=cache_dir
            )
        )
    except Exception as error:  # its kinds are many, and differ between versions
        raise UsageError(f"{where} cannot be had from the hub: {named(error)}") from error


def _load(file: Path, where: HubId) -> ModuleType:
    import cloudpickle  # comes with gymnasium

    name = "proctor_hub_" + re.sub(r"\W", "_", str(where))
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # Its workers cannot import it by that name: what they get of it has to be complete.
    cloudpickle.register_pickle_by_value(module)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        cloudpickle.unregister_pickle_by_value(module)
        del sys.modules[name]
        if isinstance(error, ModuleNotFoundError):
            raise UsageError(f"{where} needs the package {error.name}, which is not installed here.") from error
        raise
    return module


def _normalised(made: Any, where: HubId) -> dict[str, dict[int, Any]]:
    import gymnasium
    from gymnasium.vector import SyncVectorEnv, VectorEnv

    if isinstance(made, dict):
        return made
    if isinstance(made, gymnasium.Env | VectorEnv):
        group = made.spec.id if made.spec is not None else "hub_env"
        return {group: {0: made if isinstance(made, VectorEnv) else SyncVectorEnv([lambda: made])}}
    raise UsageError(
        f"make_env of {where} returned {type(made).__name__}: expected {{group: {{task_id: VectorEnv}}}}, "
        "a VectorEnv or an Env."
    )
