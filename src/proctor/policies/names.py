"""What a policy is called where its path is too long: in the names of run directories, in tables and in lists."""

from __future__ import annotations

from typing import NamedTuple

LIVE = "live:"
"""How the settings of a run name a policy that was an object of the caller's."""

_OF_TRAINERS = {"pretrained_model", "checkpoints"}
"""Folders that every trainer makes: they do not tell one training from another."""


def short_name(kind: str, path: str | None) -> str:
    """Return a policy's name in a word or two.

    Args:
        kind: the kind of policy.
        path: what `--policy.path` names, if it names something.

    >>> short_name("expert", None), short_name("benchmark.py:MyExpert", None)
    ('expert', 'MyExpert')
    >>> short_name("lerobot", "outputs/train/act_reach/checkpoints/020000/pretrained_model")
    'act_reach@020000'
    >>> short_name("lerobot", "lerobot/diffusion_pusht"), short_name("compact", "proctor/metaworld-mt50")
    ('diffusion_pusht', 'metaworld-mt50')
    >>> short_name("python", "my_policies/reach.py:MyPolicy"), short_name("python", "live:act")
    ('MyPolicy', 'act')
    >>> short_name("remote", "ws://127.0.0.1:8000/policy")
    '127.0.0.1:8000'
    """
    if not path:
        return kind.rpartition(":")[2] or kind
    if path.startswith(("ws://", "wss://")):
        return path.partition("://")[2].partition("/")[0]
    if path.startswith(LIVE):
        return path.removeprefix(LIVE)
    if kind == "python":
        return path.rpartition(":")[2] or path
    checkpoint = checkpoint_in(path)
    if checkpoint is not None:
        return f"{checkpoint.training.rpartition('/')[2]}@{checkpoint.name}"
    parts = _parts(path)
    own = [part for part in parts if part not in _OF_TRAINERS]
    return own[-1] if own else path


class Checkpoint(NamedTuple):
    """Which checkpoint of which training a policy is."""

    training: str
    """The training's folder."""
    name: str
    """What the trainer called it: its step, or `last`."""

    @property
    def step(self) -> int | None:
        """Its training step; `None` if its name does not say."""
        return int(self.name) if self.name.isascii() and self.name.isdigit() and len(self.name) <= 15 else None


def checkpoint_in(path: str) -> Checkpoint | None:
    """Return the checkpoint that a policy's path names; `None` if it is laid out in another way.

    >>> checkpoint_in("outputs/train/act_reach/checkpoints/020000/pretrained_model").step
    20000
    >>> checkpoint_in("outputs/train/act_reach/checkpoints/last").step, checkpoint_in("lerobot/diffusion_pusht")
    (None, None)
    """
    parts = _parts(path)
    inner = parts[1:-1]
    if "checkpoints" not in inner:
        return None
    place = len(inner) - inner[::-1].index("checkpoints")
    return Checkpoint(("/" if path.startswith("/") else "") + "/".join(parts[:place]), parts[place + 1])


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
