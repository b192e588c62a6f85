"""Values that people and machines come up with: right ones, nearly right ones, and what nobody would write."""

from __future__ import annotations

import dataclasses
import os
import shutil
import types
import typing
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from fuzz.bench import FuzzSettings
from fuzz.sandbox import Sandbox
from proctor.config.lerobot_configs import DatasetConfig, PeftConfig
from proctor.config.lerobot_fields import TRAINING_ELSEWHERE
from proctor.config.load import SECTIONS
from proctor.config.settings import (
    AtLeast,
    AtMost,
    ClusterSettings,
    EvalConfig,
    LimitSettings,
    Locates,
    MoreThan,
    Settings,
    WandBConfig,
)
from proctor.policies.lerobot.policy import LeRobotSettings
from proctor.policies.python import PythonPolicy
from proctor.policies.remote.policy import RemotePolicySettings

HERE = Path(__file__).parent
BENCH = HERE / "bench.py"

_WORDS = (
    "", " ", "0", "1", "2", "-1", "+1", "00", "007", "1.5", "1e3", "1e309", "-0.0", "nan", "inf", "-inf", "1_000",
    "0x10", "0b1", "١٢", "½", str(2**31), str(2**32), str(2**63), str(2**64), str(-(2**63) - 1), "9" * 5000,
    "-" + "9" * 5000, "true", "false", "yes", "No", "on", "null", "none", "None", "~", "auto", "[]", "{}", "[[[[",
    "[1, 2]", "{a: b}", '{"a": 1}', '{"a": {"b": [1, null]}}', "{1: 2}", "&a [*a]", "*a", "a: b: c", "- a",
    "!!python",
    "!!python/object/apply:os.system [id]", "2026-01-31", "12:30:45", "0123456", "1e5", "12e4567", "%s", "{0}",
    "{",
    "$(id)", "`id`", ";", "--", "-", "=", "==", ",", ",,", "a,b", "a,a", ":", "::", "a:b", ".", "\t", "\n", "a\nb",
    "\r\n", "\x1b[31m", "\x07", "\x7f", "\u202e", "\u2028", "\ufeff", "é" * 300, "🤖", "\udcff", "a\udc80b", "\0",
    "a\0b", "x" * 300, "x" * 10_000, "[bold]", "[/]", "[/bold]", "[link=x]", "<script>", "' OR 1=1", "\\", '"',
    "'",
    "ci<=0.05", "ci<=0", "ci<=nan", "ci<=1e999", "ci<5", "slurm", "wandb", "tensorboard", "a.py:B", "os:system",
    "this:that", "json:loads", "a..b", "256.1.1.1", "::1", "0.0.0.0", "127.0.0.1", "localhost", "[::1]",
    "http://x",
    "ws://", "ws://127.0.0.1:1", "ws://127.0.0.1:99999", "ws://a..b", "wss://[::1", "ws://127.0.0.1:1/\udcff",
    "user/name", "a/b/c", "cuda", "cuda:99", "cpu,cpu", "expert", "random", "zero", "python", "lerobot", "remote",
)  # fmt: skip

# No slash and no tilde: a path that is drawn at random must not lead out of the sandbox.
# Halves of characters are those that bytes which are no UTF-8 become in a command line.
_LETTERS = st.one_of(
    st.characters(exclude_characters="/~", exclude_categories=["Cs"]),
    st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF, categories=["Cs"]),
)
_TEXT = st.text(_LETTERS, max_size=30)
WORDS = st.one_of(st.sampled_from(_WORDS), st.sampled_from(_WORDS), _TEXT)


def make_places(sandbox: Sandbox) -> list[str]:
    """Make something of every kind that a path can lead to; returns the paths."""
    kept = sandbox.kept
    files = {
        "empty": "", "words.txt": "words\n", "some.yaml": "seed: 7\n", "list.yaml": "[1, 2]\n",
        "bad.yaml": "{a: [",
        "good.py": "class Nothing:\n    pass\nnumber = 7\n", "syntax.py": "def (:\n", "raises.py": "1 / 0\n",
        "exits.py": "import sys\nsys.exit(3)\n", "quits.py": "raise KeyboardInterrupt\n", "zero.py": "a = 1\0\n",
        "some.json": '{"a": 1}',
    }  # fmt: skip
    for name, text in files.items():
        (kept / name).write_text(text)
    (kept / "latin.py").write_bytes(b"# \xe9\nx = 1\n")
    (kept / "folder").mkdir()
    (kept / "package").mkdir()
    (kept / "package" / "config.json").write_text("{")
    (kept / "nonsense\udcff").mkdir()
    os.mkfifo(kept / "pipe")
    os.mkfifo(kept / "pipe.py")
    (kept / "piped").mkdir()
    os.mkfifo(kept / "piped" / "pipe")
    (kept / "loop").symlink_to(kept / "loop")
    (kept / "dangling").symlink_to(kept / "nowhere")
    (kept / "linked").symlink_to(kept / "folder")
    (kept / "zeros").symlink_to("/dev/zero")
    (kept / "program").write_text("#!/bin/sh\nexit 3\n")
    (kept / "program").chmod(0o755)
    named = [str(path) for path in sorted(kept.iterdir())]
    made = [f"{kept}/{name}" for name in ("missing", "missing/deep/er", "empty/below", "n" * 300, "d/" * 2100)]
    sources = [f"{kept}/{name}" for name in ("good.py:Nothing", "good.py:number", "good.py:", "good.py:a.b")]
    sources += [f"{path}:X" for path in named if path.endswith(".py")]
    shutil.copy(BENCH, kept)  # a report may be told to go to any of these
    bench = kept / BENCH.name
    ours = [
        f"{bench}:OneStep",
        f"{bench}:Reached",
        f"{bench}:Still",
        f"{bench}:Stil",
        f"{bench}:STATE",
        str(bench),
    ]
    others = [
        "",
        ".",
        "out",
        "out/deep",
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "/proc/self/mem",
        "~nobody/x",
        "out\0",
    ]
    return [*named, *made, *sources, *ours, *others]


def of_type(annotation: Any, places: list[str]) -> st.SearchStrategy[str]:
    """Return texts that a setting of this type may take, mostly."""
    kinds = get_args(annotation)
    marks = [mark for mark in kinds if isinstance(mark, AtLeast | AtMost | MoreThan | Locates)]
    kind = kinds[0] if get_origin(annotation) is typing.Annotated else annotation
    if get_origin(kind) in (typing.Union, types.UnionType):
        options = [of_type(typing.Annotated[one, *marks] if marks else one, places) for one in get_args(kind)]
        return st.one_of(*options)
    if kind is type(None):
        return st.sampled_from(("none", "null"))
    if any(isinstance(mark, Locates) for mark in marks) or kind is Path:
        return st.sampled_from(places)
    if get_origin(kind) is Literal:
        return st.sampled_from([str(choice) for choice in get_args(kind)])
    if kind is bool:
        return st.sampled_from(("true", "false", "yes", "0", "1"))
    if kind in (int, float):
        edges = [
            edge
            for mark in marks
            if not isinstance(mark, Locates)
            for edge in _around(dataclasses.astuple(mark)[0], kind)
        ]
        return st.sampled_from([*edges, "0", "1", "2", "3", "1.0", "0.5"])
    return WORDS


def _around(bound: float, kind: type[Any]) -> list[str]:
    return [str(kind(bound + step)) for step in (-1, 0, 1)]


def fields_of(kind: type[Any], prefix: str = "") -> dict[str, Any]:
    """Return the flags of a settings class, and their types."""
    hints = get_type_hints(kind, include_extras=True)
    return {f"{prefix}{field.name}": hints[field.name] for field in dataclasses.fields(kind)}


def misspelled(draw: st.DrawFn, word: str) -> str:
    """Return a word with one mistake."""
    place = draw(st.integers(0, max(0, len(word) - 1)))
    kind = draw(st.sampled_from(("drop", "double", "swap", "dot", "upper", "space", "wild")))
    if kind == "swap":
        return word[:place] + word[place + 1 : place + 2] + word[place : place + 1] + word[place + 2 :]
    letter = word[place : place + 1]
    new = {"drop": "", "double": 2 * letter, "dot": f"{letter}.", "upper": letter.upper(), "space": f"{letter} "}
    return word[:place] + new.get(kind, draw(_TEXT)) + word[place + 1 :]


OF_A_RUN = {
    **fields_of(FuzzSettings, "env."),
    **fields_of(LeRobotSettings, "policy."),
    **fields_of(RemotePolicySettings, "policy."),
    **fields_of(PythonPolicy.Settings, "policy."),
    **fields_of(EvalConfig, "eval."),
    **fields_of(LimitSettings, "limits."),
    **fields_of(ClusterSettings, "cluster."),
    **fields_of(WandBConfig, "wandb."),
    **{name: hint for name, hint in fields_of(Settings).items() if name not in SECTIONS},
    **fields_of(DatasetConfig, "dataset."),
    **fields_of(PeftConfig, "peft."),
    **dict.fromkeys(TRAINING_ELSEWHERE, int),
    "config_path": fields_of(Settings)["resume"],
}
"""Every setting of an evaluation, and its type."""
