"""What a policy is called where its path is too long: in the names of run directories, in tables and in lists."""

from __future__ import annotations

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
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if "checkpoints" in parts[1:-1]:
        place = len(parts) - 1 - parts[::-1].index("checkpoints")
        return f"{parts[place - 1]}@{parts[place + 1]}"
    own = [part for part in parts if part not in _OF_TRAINERS]
    return own[-1] if own else path
