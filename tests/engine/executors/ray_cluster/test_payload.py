"""What travels to the nodes, and under which name it is found there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import tiny_tree
from proctor.config.load import build_settings
from proctor.config.plain_values import to_plain
from proctor.engine.executors.ray_cluster.payload import Payload, pack_files, pack_sources

SOURCE = """
from proctor.benchmarks.protocol import Benchmark
from near import gain
from package.deep import bias

class Mine(Benchmark):
    ...
"""


def test_a_users_file_travels_with_the_modules_and_packages_beside_it_and_nothing_else(tmp_path: Path) -> None:
    home, code = tmp_path / "home", tmp_path / "code"
    for name, text in {
        "mine.py": SOURCE,
        "near.py": "gain = 1",
        "package/__init__.py": "",
        "package/deep.py": "bias = 2",
        "data/huge.bin": "0" * 100,
        "data/script.py": "",
        "notes.txt": "secret",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    named = f"{home / 'mine.py'}:Mine"
    settings = build_settings(tiny_tree(tmp_path / "run"))
    object.__setattr__(settings.env, "type", named)
    sources = pack_sources(settings, code)
    assert sources[named] == "sources/1/mine.py:Mine"
    copied = sorted(str(file.relative_to(code / "sources/1")) for file in (code / "sources/1").rglob("*.*"))
    assert copied == ["mine.py", "near.py", "package/__init__.py", "package/deep.py"]
    assert (code / "proctor" / "__init__.py").exists()
    assert not list(code.rglob("__pycache__"))


def test_settings_name_everything_as_it_lies_on_the_node(tmp_path: Path) -> None:
    settings = build_settings(tiny_tree(tmp_path / "run", policy={"kwargs": {"batch": 2}}))
    sources = pack_sources(settings, tmp_path / "code")
    tree = Payload(sources).unpack(to_plain(settings), Path("/node"), tmp_path / "files")
    assert tree["policy"]["path"] == "/node/sources/0/tiny_policies.py:Thoughtful"
    assert tree["policy"]["kwargs"] == {"batch": 2}
    assert tree["env"]["type"] == "/node/sources/0/tiny.py:Tiny"
    assert tree["env"]["task"] == "a,b,c"


def test_a_checkpoint_directory_arrives_whole_and_the_policys_path_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'proctor-eval[ray]'")
    stored: dict[int, Any] = {}
    monkeypatch.setattr(ray, "put", lambda value: [stored.setdefault(id(value), value), id(value)][1])
    monkeypatch.setattr(ray, "get", stored.__getitem__)
    checkpoint = tmp_path / "pretrained_model"
    content = {"config.json": b"{}", "model.safetensors": bytes(range(256)), "deep/empty": b""}
    for name, data in content.items():
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_bytes(data)
    settings = build_settings(tiny_tree(tmp_path / "run", policy={"path": str(checkpoint)}))
    baggage = Payload({}, pack_files(settings))
    tree = baggage.unpack(to_plain(settings), Path("/node"), tmp_path / "files")
    there = Path(tree["policy"]["path"])
    assert there == tmp_path / "files" / "0" / "pretrained_model"
    assert {str(f.relative_to(there)): f.read_bytes() for f in there.rglob("*") if f.is_file()} == content
