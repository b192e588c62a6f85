"""A bundle is the run, without anything of where it ran; what is none, or was changed, is refused in one line."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import run_cli, run_tiny, viewed
from proctor.errors import UsageError
from proctor.results import ScoredRun
from proctor.store.bundles import MAGIC, opened, shareable, unpack_bundle, write_bundle
from proctor.store.stored_run import StoredRun


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    run_tiny(path, env={"mischief": "reset.raise:b:1:0"}, eval={"max_attempts": 1}, job_name="a_secret_name")
    return path


@pytest.fixture(scope="module")
def bundle(run: Path) -> Path:
    path = run.parent / "run.proctor"
    write_bundle(StoredRun.open(run), path)
    return path


def content(bundle: Path) -> bytes:
    return zlib.decompress(bundle.read_bytes().partition(b"\n")[2])


def rewritten(bundle: Path, target: Path, change: Any) -> Path:
    """Write a bundle whose values were changed, with the right hash."""
    unpacker = msgpack.Unpacker(strict_map_key=True)
    unpacker.feed(content(bundle))
    packed = b"".join(map(msgpack.packb, change(list(unpacker))))
    line = MAGIC + hashlib.sha256(packed).hexdigest().encode()
    target.write_bytes(line + b"\n" + zlib.compress(packed))
    return target


def test_it_is_the_run(run: Path, bundle: Path) -> None:
    original = ScoredRun.open(run)
    with opened(bundle) as directory:
        again = ScoredRun.open(directory)
        assert again.results.overall == original.results.overall
        assert list(again.plan) == list(original.plan)
        assert again.policy_spec == original.policy_spec
        for before, now in zip(original.records, again.records, strict=True):
            same = ("key", "seed", "status", "success", "sum_reward", "steps", "metrics", "layout", "digests")
            assert [getattr(now, name) for name in same] == [getattr(before, name) for name in same]
            assert (now.worker, now.started_at, now.timing) == ("", 0.0, {})
        with original.table() as one, again.table() as other:
            for record in original.records:
                assert one.packed_trajectory(record.key) == other.packed_trajectory(record.key)
    assert not directory.exists()


def test_two_bundles_of_a_run_are_the_same_bytes(run: Path, bundle: Path, tmp_path: Path) -> None:
    assert write_bundle(StoredRun.open(run), tmp_path / "b") in bundle.read_bytes()[:100].decode(
        "ascii", "replace"
    )
    assert (tmp_path / "b").read_bytes() == bundle.read_bytes()


def test_nothing_of_where_it_ran_is_in_it(run: Path, bundle: Path) -> None:
    text = content(bundle)
    for word in (
        str(Path.home()),
        str(run.parent),
        "/tmp/",
        "/work",
        "a_secret_name",
        "worker-",
    ):
        assert word.encode() not in text, word
    assert not re.search(rb"(?<![\w.])/[a-z]+/[a-z]", text)
    header = msgpack.Unpacker(strict_map_key=True)
    header.feed(text)
    assert header.unpack().keys() == {
        "settings", "identity", "tasks", "n_episodes", "only", "reproducible", "policy_spec", "stopped", "running",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("/home/me/train/pretrained_model", "pretrained_model"),
        ("~/policy.py:Mine", "policy.py:Mine"),
        ("lerobot/act_metaworld", "lerobot/act_metaworld"),
        ("ALE/Pong-v5", "ALE/Pong-v5"),
        ("ws://10.0.0.7:8000", "ws address"),
        ("see /data/x/y.yaml, and ./z/w.py", "see y.yaml, and w.py"),
        ({"api_key": "x", "hf_token": "y", "tokenizer": "z", "n": 3}, {"tokenizer": "z", "n": 3}),
        (["/a/b", {"password": 1}], ["b", {}]),
    ],
)
def test_paths_addresses_and_secrets_are_left_out(value: Any, left: Any) -> None:
    assert shareable(value) == left


def test_a_changed_byte_is_refused(bundle: Path, tmp_path: Path) -> None:
    whole = bundle.read_bytes()
    for place in (3, len(MAGIC) + 5, len(whole) // 2, len(whole) - 1):
        changed = tmp_path / "changed"
        changed.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(UsageError, match="is no bundle") as caught, opened(changed):
            pass
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda values: [],
        lambda values: [7, *values[1:]],
        lambda values: [{**values[0], "tasks": "all"}, *values[1:]],
        lambda values: [{**values[0], "identity": {}}, *values[1:]],
        lambda values: [{**values[0], "settings": 3}, *values[1:]],
        lambda values: [{**values[0], "n_episodes": 10**9}, *values[1:]],
        lambda values: [{**values[0], "policy_spec": {"observation_offsets": "x"}}, *values[1:]],
        lambda values: [{**values[0], "running": [[1]]}, *values[1:]],
        lambda values: [values[0], [1, 2]],
        lambda values: [values[0], [*values[1][:10], {"x": "far"}, *values[1][11:]]],
        lambda values: [values[0], [*values[1][:-1], b"no trajectory"]],
        lambda values: [values[0], ["a", "zero", *values[1][2:]]],
    ],
)
def test_what_proctor_would_not_write_is_refused(bundle: Path, tmp_path: Path, change: Any) -> None:
    (tmp_path / "into").mkdir()
    forged = rewritten(bundle, tmp_path / "forged", change)
    with pytest.raises(UsageError, match="is no bundle that can be read") as caught:
        unpack_bundle(forged, tmp_path / "into")
    assert "\n" not in str(caught.value)


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proctor.store.bundles._MOST_CONTENT", 1 << 24)
    packing = zlib.compressobj(9)
    zeros = bytes(1 << 20)
    packed = b"".join(packing.compress(zeros) for _ in range(20)) + packing.flush()
    (tmp_path / "bomb").write_bytes(MAGIC + b"0" * 64 + b"\n" + packed)
    with pytest.raises(UsageError, match="larger than is read"), opened(tmp_path / "bomb"):
        pass


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_any_file_is_a_bundle_or_refused(tmp_path: Path, noise: bytes) -> None:
    for start in (b"", MAGIC + hashlib.sha256(noise).hexdigest().encode() + b"\n"):
        (tmp_path / "file").write_bytes(start + zlib.compress(noise) if start else noise)
        with pytest.raises(UsageError), opened(tmp_path / "file"):
            pass


def test_it_opens_in_report_and_compare(run: Path, bundle: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = run_cli("report", str(bundle), f"--output={page}")
    assert done.returncode == 0, done.stderr
    assert "/tmp/proctor-bundle" not in page.read_text()
    done = run_cli("compare", str(run), str(bundle), "--json")
    assert done.returncode == 0, done.stderr
    assert [one["path"] for one in json.loads(done.stdout)["runs"]] == [str(run), "run.proctor"]


def test_it_opens_in_the_viewer(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # the viewer is killed, and cannot tidy up
    assert "Thoughtful" in viewed(bundle)


def test_the_command_writes_beside_nothing_else(run: Path, tmp_path: Path) -> None:
    before = sorted(run.iterdir())
    done = run_cli("bundle", str(run), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"run.proctor: 12 episodes, [\d.]+ kB, sha256 [0-9a-f]{64}\n", done.stdout)
    assert sorted(run.iterdir()) == before
    assert [file.name for file in tmp_path.iterdir()] == ["run.proctor"]
