"""LeRobot checkpoints from the hub: folders with damaged, foreign, huge and nested files, and links that lead out.

LeRobot itself is not needed: a stand-in knows one type of policy and reads `config.json` as LeRobot does. What is
tried is what Proctor reads by itself (the config, the steps of processors, an adapter, the fingerprint), and the
command line as far as it gets here. Weights are read by LeRobot, and only hashed here.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.commands import Runner, short_lives
from fuzz.documents import damaged
from fuzz.inputs import MARKS, inputs
from fuzz.sandbox import Sandbox
from fuzz.surface import Surface, Trial
from fuzz.values import BENCH
from proctor.errors import ProctorError
from proctor.policies.lerobot import checkpoint as checkpoints
from proctor.policies.lerobot.fingerprint import file_hashes, identify

pytestmark = MARKS

_CONFIG = {
    "type": "act", "n_obs_steps": 1, "n_action_steps": 100, "device": "cpu", "use_peft": False,
    "vision_backbone": "x",
    "input_features": {"observation.state": {"type": "STATE", "shape": [3]}},
    "output_features": {"action": {"type": "ACTION", "shape": [2]}}, "pretrained_path": None,
}  # fmt: skip
_RENAME = {"registry_name": "rename_observations_processor", "config": {"rename_map": {"a": "b"}}}
_NORMALISE = {
    "registry_name": "normalizer_processor", "config": {"eps": 1e-8, "features": {}},
    "state_file": "policy_preprocessor_step_1_normalizer_processor.safetensors",
}  # fmt: skip
_FILES: dict[str, Any] = {
    "config.json": _CONFIG,
    "policy_preprocessor.json": {"name": "policy_preprocessor", "steps": [_RENAME, _NORMALISE]},
    "policy_postprocessor.json": {
        "name": "policy_postprocessor",
        "steps": [{"registry_name": "device_processor", "config": {}}],
    },
    "adapter_config.json": {"base_model_name_or_path": "user/base", "auto_mapping": None, "peft_type": "LORA"},
    "model.safetensors": None,
    "policy_preprocessor_step_1_normalizer_processor.safetensors": None,
}


@dataclass
class Act:
    """The one type of policy that the stand-in knows."""

    type: str = "act"
    device: str = "cpu"
    use_peft: bool = False
    n_action_steps: int = 100
    pretrained_revision: str | None = None
    pretrained_path: Any = None
    raw: Any = None

    @classmethod
    def get_known_choices(cls) -> dict[str, Any]:
        return {"act": cls}

    @classmethod
    def get_choice_class(cls, kind: str) -> Any:
        return {"act": cls}[kind]

    @classmethod
    def from_pretrained(cls, directory: Path, cli_overrides: list[str]) -> Act:
        with (Path(directory) / "config.json").open() as file:
            raw = json.load(file)
        # As draccus does: a value of another type is an error.
        return cls(
            device=str(raw.get("device") or "cpu"), n_action_steps=int(raw.get("n_action_steps", 1)), raw=raw
        )


class Steps:
    """The processor steps that the stand-in knows."""

    @classmethod
    def get(cls, name: str) -> Any:
        return {"normalizer_processor": cls}[name]


@contextlib.contextmanager
def stand_in(home: Path) -> Iterator[None]:
    """Let LeRobot and the hub seem to be here, as far as opening a checkpoint needs them."""
    modules: dict[str, dict[str, Any]] = {
        "lerobot": {}, "lerobot.policies": {"__path__": []}, "lerobot.utils": {},
        "lerobot.utils.import_utils": {"register_third_party_plugins": lambda: None},
        "lerobot.configs": {"PreTrainedConfig": Act},
        "lerobot.processor": {"ProcessorStep": Act, "ProcessorStepRegistry": Steps},
        "huggingface_hub": {"constants": types.SimpleNamespace(HF_HOME=str(home), HF_HUB_CACHE=str(home / "hub"))},
        "draccus": {"encode": lambda config, kind: {"type": config.type, "raw": config.raw}},
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, members in modules.items():
            module = types.ModuleType(name)
            module.__dict__.update(members)
            patch.setitem(sys.modules, name, module)
        yield


def _safetensors(header: Any, data: bytes = bytes(24)) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


_HEADERS: tuple[Any, ...] = (
    {"weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}, {}, [], None, {"weight": 7},
    {"weight": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 2**63]}},
    {"weight": {"dtype": "X", "shape": "no", "data_offsets": [24, 0]}}, {"__metadata__": {"a": {"b": 1}}},
)  # fmt: skip
_TEXTS = (
    b"", b"{", b"[]", b"null", b"7", b'"text"', b"{}", b"[" * 100_000, b'{"a":' * 20_000, b"\xff\xfe{\x00}\x00",
    b"\xef\xbb\xbf{}", b'{"type": "act"} x', b"NaN", b'{"type": NaN}', b'{"n": ' + b"9" * 5000 + b"}",
    b"\x00" * 4096,
    b'{"type": "act", "type": 7}', b'{"steps": null}', b'{"steps": [null, 7, []]}', b'{"steps": {"a": 1}}',
    b"\x80abc",
    b'{"steps": [{"registry_name": 7, "config": 7}]}', b'{"steps": [{"class": 7}]}', b'{"type": ["act"]}',
    b'{"steps": [{"registry_name": "rename_observations_processor", "config": {"rename_map": 7}}]}',
    b'{"steps": [{"registry_name": "rename_observations_processor", "config": {"rename_map": {"a": {}}}}]}',
    b'{"steps": [{"registry_name": "rename_observations_processor", "config": [1]}]}', b'{"type": {"a": 1}}',
    b'{"auto_mapping": 7}', b'{"auto_mapping": {"parent_library": {"a": 1}}}', b'{"base_model_name_or_path": 7}',
    b'{"base_model_name_or_path": {"a": [1]}}', b'{"auto_mapping": {"parent_library": "os"}}', b'{"a": "\\ud800"}',
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, 7, -1, 1e400, True, "", "x", [], {}, [[]], {"a": {"b": []}}, "/etc", "..", "/dev/zero", "\0", "a\nb",
    "~nobody",
    "x" * 5000, "user/name", "\ud800", "os.system", "subprocess.Popen", "lerobot..x",
    "lerobot.processor.nothing", [None],
)  # fmt: skip
_ENDS = ("folder", "pipe", "loop", "zeros", "secret", "outside", "dangling", "large", "itself", "up")


@st.composite
def folders(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Draw a checkpoint's files as (name, bytes), and odd ones as (name, kind)."""
    files: dict[str, Any] = {}
    for name, value in _FILES.items():
        if name == "adapter_config.json" and draw(st.booleans()):
            continue
        files[name] = _safetensors(_HEADERS[0]) if value is None else json.dumps(value).encode()
    for _ in range(draw(st.integers(1, 2))):
        name = draw(
            st.sampled_from(
                (*_FILES, "config.json", "policy_preprocessor.json", "extra.json", "code.py", "a/b.bin")
            )
        )
        kind = draw(st.sampled_from(("damage", "text", "value", "value", "gone", "odd", "safetensors")))
        if kind == "damage":
            files[name] = damaged(draw, files[name] if isinstance(files.get(name), bytes) else b"{}")
        elif kind == "text":
            files[name] = draw(st.sampled_from(_TEXTS))
        elif kind == "value" and _FILES.get(name) is not None:
            files[name] = _changed(draw, _FILES[name])
        elif kind == "gone":
            files.pop(name, None)
        elif kind == "odd":
            files[name] = draw(st.sampled_from(_ENDS))
        else:
            files[name] = _safetensors(draw(st.sampled_from(_HEADERS)), draw(st.binary(max_size=30)))
    return sorted(files.items())


def _changed(draw: st.DrawFn, tree: Any) -> bytes:
    tree = json.loads(json.dumps(tree))
    places: list[tuple[Any, Any]] = []

    def walk(branch: Any) -> None:
        for key, inner in list(branch.items() if isinstance(branch, dict) else enumerate(branch)):
            places.append((branch, key))
            if isinstance(inner, dict | list):
                walk(inner)

    walk(tree)
    branch, key = draw(st.sampled_from(places))
    branch[key] = draw(st.sampled_from(_VALUES))
    return json.dumps(tree).encode()


def make_folder(folder: Path, beside: Path, files: list[tuple[Any, ...]]) -> None:
    """Lay a checkpoint out."""
    folder.mkdir()
    for name, content in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content == "folder":
            path.mkdir()
        elif content == "pipe":
            os.mkfifo(path)
        elif content == "large":
            with path.open("wb") as file:
                file.truncate(80 << 20)  # of which the disk holds nothing
        else:
            ends = {
                "loop": path,
                "zeros": "/dev/zero",
                "dangling": beside / "nowhere",
                "itself": folder,
                "up": folder.parent,
            }
            path.symlink_to(ends.get(content, beside / f"secret{path.suffix}" if content == "secret" else beside))


def open_here(trial: Trial, folder: Path, overrides: dict[str, Any]) -> None:
    """Read a checkpoint as a policy's process does, up to where LeRobot loads its weights."""
    try:
        opened = checkpoints.open_checkpoint(str(folder), overrides, None, False)
        steps = checkpoints._step_overrides(opened, keep_renames=False, fixed_prompts=True)
        loaded = checkpoints.LoadedCheckpoint(None, None, None, None, checkpoints._configs(opened, steps))
        known = identify(opened, loaded, overrides, lambda: file_hashes(opened.directory))
    except ProctorError as error:
        trial.status, trial.refused = str(error.exit_status), True
        trial.heard(str(error))
        if len(str(error)) > 2000:
            trial.fault("words that are no line", str(error)[:2000])
        return
    trial.status = "opened"
    trial.heard(repr(known))


def test_no_checkpoint_ends_in_a_traceback(sandbox: Sandbox, surface: Callable[..., Surface]) -> None:
    folders_tried, run = surface("checkpoints"), Runner()
    number = 0
    overrides = st.sampled_from(({}, {}, {"n_action_steps": 10}, {"nothing": 1}, {"pretrained_revision": 7}))
    with short_lives():

        @inputs(2000)
        @given(folders(), overrides)
        def each(files: list[tuple[Any, ...]], changes: dict[str, Any]) -> None:
            nonlocal number
            number += 1
            folder = sandbox.made / "checkpoint"
            make_folder(folder, sandbox.beside, files)
            # A link that leads out is nothing that Proctor may follow here, but LeRobot's cache is made of links.
            with folders_tried.trial([(name, str(content)[:80]) for name, content in files]) as trial:
                if number % 4:
                    with stand_in(sandbox.root / "home"):
                        open_here(trial, folder, changes)
                else:
                    flags = [f"--policy.{name}={value}" for name, value in changes.items()]
                    base = [
                        f"--env.type={BENCH}:OneStep",
                        "--env.task=a",
                        "--eval.n_episodes=1",
                        "--display=plain",
                    ]
                    run(trial, ["eval", f"--policy.path={folder}", *base, *flags, "--eval.use_async_envs=false"])

        folders_tried.drive(each)
