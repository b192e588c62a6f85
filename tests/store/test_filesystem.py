"""A run directory that cannot hold the run is found out before; a file is whole or not there; JSON is strict."""

from __future__ import annotations

import functools
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.errors import EXIT_FAILED, StoreError, UsageError
from proctor.store.filesystem import (
    NETWORK_FILE_SYSTEMS,
    filesystem_type,
    finite,
    is_network,
    prepare_directory,
    write_json,
    write_text,
)

# Where a run may lie.


@functools.cache
def may_mount() -> bool:
    done = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
    return done.returncode == 0


def on_a_mount(place: Path, options: str, code: str) -> str:
    """Run `code` where a tmpfs is mounted at `place` (its `sys.argv[1]`), for that process alone."""
    if not may_mount():
        pytest.skip("this user may not mount")
    place.mkdir(parents=True, exist_ok=True)
    script = f'mount -t tmpfs -o {options} none "$1" && exec "$0" -c "$2" "$1"'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, sys.executable, str(place), code], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


TYPE = (
    "import sys\nfrom pathlib import Path\nfrom proctor.store.filesystem import filesystem_type\n"
    "print(filesystem_type(Path(sys.argv[1]) / 'not' / 'there' / 'yet'))\n"
)
PREPARE = (
    "import sys\nfrom pathlib import Path\nfrom proctor.store.filesystem import prepare_directory\n"
    "try:\n"
    "    prepare_directory(Path(sys.argv[1]) / 'run', 10)\n"
    "except Exception as error:\n"
    "    print(type(error).__name__, error)\n"
)


def test_the_type_of_a_mount_is_that_of_the_innermost_one() -> None:
    assert filesystem_type(Path("/proc/self/status")) == "proc"
    assert filesystem_type(Path("/")) not in ("", "proc")


def test_a_path_that_only_begins_like_a_mount_does_not_lie_in_it() -> None:
    assert filesystem_type(Path("/procedure")) == filesystem_type(Path("/"))


@pytest.mark.parametrize("name", ["plain", "with a space", "back\\slash", "Läufe"])
def test_a_mount_is_recognised_whatever_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    here = filesystem_type(tmp_path)
    assert on_a_mount(tmp_path / name, "size=1m", TYPE) == "tmpfs" != here


def test_a_link_is_followed_to_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/proc/self")
    assert filesystem_type(tmp_path / "link" / "status") == "proc"


def test_local_places_are_no_network(tmp_path: Path) -> None:
    assert not is_network(Path("/proc"))
    assert not {"ext4", "tmpfs", "overlay", "xfs", "btrfs", "zfs"} & NETWORK_FILE_SYSTEMS


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "lustre", "fuse.sshfs"])
def test_what_clusters_use_counts_as_network(kind: str) -> None:
    assert kind in NETWORK_FILE_SYSTEMS


def test_a_directory_is_made_with_its_parents_and_left_empty(tmp_path: Path) -> None:
    prepare_directory(tmp_path / "a" / "b", 10)
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_directory_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "run.sqlite").write_text("something")
    prepare_directory(tmp_path, 10)
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.sqlite"]


def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=rf"cannot write to {tmp_path}/file/run: .*--output_dir"):
        prepare_directory(tmp_path / "file" / "run", 10)


def test_a_place_where_nothing_can_be_made_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot write to /proc/run"):
        prepare_directory(Path("/proc/run"), 10)


def test_a_read_only_file_system_is_refused(tmp_path: Path) -> None:
    said = on_a_mount(tmp_path / "mount", "size=1m,ro", PREPARE)
    assert said.startswith("UsageError cannot write to")
    assert "the file system is read-only" in said


def test_a_disk_without_room_is_refused_with_what_is_free_and_what_is_needed(tmp_path: Path) -> None:
    said = on_a_mount(tmp_path / "mount", "size=1m", PREPARE)
    assert said.startswith("StoreError")
    assert "has 1.0 MB free and this run needs about 2.0 MB" in said


def test_room_is_asked_for_by_the_length_of_the_plan(tmp_path: Path) -> None:
    prepare_directory(tmp_path, 1)
    with pytest.raises(StoreError, match="MB free and this run needs"):
        prepare_directory(tmp_path, 10**15)


# Files that are whole.


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def files(directory: Path) -> set[str]:
    return {entry.name for entry in directory.iterdir()}


def strict(text: str) -> Any:
    """Parse JSON as a strict reader does: NaN and Infinity are errors."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_text_is_written_and_written_over_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "old, and longer than what follows")
    write_text(tmp_path / "file", "neu: ä€")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "neu: ä€"
    assert files(tmp_path) == {"file"}


def test_a_reader_that_opened_the_old_file_keeps_the_old_text(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "old")
    with (tmp_path / "file").open() as reader:
        write_text(tmp_path / "file", "new")
        assert reader.read() == "old"


def test_a_file_that_cannot_be_replaced_leaves_no_half_written_one(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(StoreError, match=str(tmp_path / "file")) as caught:
        write_text(tmp_path / "file", "text")
    assert caught.value.exit_status == EXIT_FAILED
    assert files(tmp_path) == {"file"}


def test_a_directory_that_is_gone_is_told_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no such file or folder"):
        write_text(tmp_path / "gone" / "file", "text")


def test_running_out_of_space_keeps_the_old_file_whole(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "old")
    # The kernel refuses to let a file grow beyond the limit, as it does on a full disk.
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from proctor.errors import StoreError\n"
        "from proctor.store.filesystem import write_text\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n"
        "try:\n"
        "    write_text(Path(sys.argv[1]), 'x' * (1 << 20))\n"
        "except StoreError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "file")], capture_output=True, text=True, check=True
    )
    assert "File too large" in done.stdout
    assert "then try again" in done.stdout
    assert (tmp_path / "file").read_text() == "old"
    assert files(tmp_path) == {"file"}


@settings(deadline=None)
@given(value=plain)
def test_whatever_is_finite_is_kept_and_the_rest_becomes_null(value: Any) -> None:
    assert strict(json.dumps(finite(value), allow_nan=False)) == _expected(value)


def _expected(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _expected(item) for key, item in value.items()}
    return [_expected(item) for item in value] if isinstance(value, list) else value


def test_json_on_disk_is_strict(tmp_path: Path) -> None:
    write_json(
        tmp_path / "file", {"a": [math.nan, math.inf, -math.inf, 1.5], "b": (1, math.nan), "c": {"d": None}}
    )
    text = (tmp_path / "file").read_text()
    assert strict(text) == {"a": [None, None, None, 1.5], "b": [1, None], "c": {"d": None}}
    assert text.endswith("\n")
