"""A run in one small file: settings, identity, plan, outcomes, digests and actions, and nothing of where it ran.

A bundle is data: one line that says what it is and the SHA-256 of its content, then MessagePack, compressed. It
has no paths, no secrets, no names of machines and no times. Who opens one gets a run directory for a while,
written by the store's own writer from values that were checked one by one: whatever reads runs reads it.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgpack

from proctor.config.settings import MOST_EPISODES
from proctor.errors import StoreError, UsageError
from proctor.files import clip, given_path, read_regular
from proctor.machine.scratch import scratch_folder
from proctor.store.episodes import record_of
from proctor.store.filesystem import write_bytes, write_text
from proctor.store.run_directory import BUNDLE_NAME, RunDirectory
from proctor.store.schema import EpisodeRecord, RunningEpisode
from proctor.store.stored_run import StoredRun
from proctor.store.trajectories import unpack_trajectory
from proctor.store.videos import file_name
from proctor.types import EpisodeKey

SUFFIX = ".proctor"
MAGIC = b"proctor bundle 1 sha256 "

MOST_BYTES = 512 << 20
"""Of a bundle. A run of 10,000 episodes of 500 steps takes a fifth of it."""

_MOST_CONTENT = 2 << 30
_MOST_VALUE = 64 << 20
_AT_ONCE = 1 << 20
_COMMITTED = 256
"""Episodes that are written at once."""
_META = ("identity", "tasks", "n_episodes", "only", "reproducible", "policy_spec", "stopped")
_SETTINGS = ("policy", "env", "seed", "rename_map", "only")
_HERE_ALONE = ("python", "assets_path", "device", "placement", "max_parallel_tasks")
"""Settings that say where and how something runs on one machine."""

_EPISODE = (
    "task_group", "task_id", "task", "episode_index", "seed", "status", "success", "sum_reward", "max_reward",
    "steps", "metrics", "layout", "attempts", "digest", "pixel_digest", "asks", "looks", "rewards", "trajectory",
)  # fmt: skip
_SECRET = re.compile(r"(?:^|_)(?:token|secret|password|passwd|api_?key|credentials?|auth)(?:$|_)", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w.])(?:~|\.{1,2})?/(?:[^/\s:,'\"]+/)*([^/\s:,'\"]*)")
_ADDRESS = re.compile(r"\b([a-z][a-z0-9+.-]*)://\S*", re.IGNORECASE)


def write_bundle(run: StoredRun, output: Path) -> str:
    """Write a run into one file; returns the SHA-256 of its content.

    Raises:
        StoreError: it cannot be written, or would be larger than is read.
    """
    digest, packing = hashlib.sha256(), zlib.compressobj(6)
    pieces: list[bytes] = []
    size = 0
    for packed in _content(run):
        digest.update(packed)
        pieces.append(packing.compress(packed))
        size += len(pieces[-1])
        if size > MOST_BYTES:
            raise StoreError(f"{run.path} would make a bundle of more than {MOST_BYTES >> 20} MiB.")
    pieces.append(packing.flush())
    name = digest.hexdigest()
    write_bytes(output, b"".join([MAGIC, name.encode(), b"\n", *pieces]))
    return name


def bundle_hash(run: StoredRun) -> str:
    """Return the SHA-256 that a bundle of a run has, without writing one."""
    digest = hashlib.sha256()
    for packed in _content(run):
        digest.update(packed)
    return digest.hexdigest()


def _content(run: StoredRun) -> Iterator[bytes]:
    for value in _values(run):
        yield msgpack.packb(value, unicode_errors="backslashreplace")


def _values(run: StoredRun) -> Iterator[Any]:
    with run.table() as table:
        stored = {key: shareable(table.meta(key), key) for key in _META}
        running = [[*key, steps] for key, steps in table.running()]
        yield {"settings": _settings(run.settings), **stored, "running": running}
        for row in table.episodes():
            record = record_of(row)
            packed = {"rewards": row.rewards, "trajectory": table.packed_trajectory(record.key)}
            yield [packed[name] if name in packed else getattr(record, name) for name in _EPISODE]


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a run's settings says what was evaluated."""
    kept = {name: shareable(settings.get(name), name) for name in _SETTINGS}
    for section in ("policy", "env"):
        values = kept[section] if isinstance(kept[section], dict) else {}
        kept[section] = {name: value for name, value in values.items() if name not in _HERE_ALONE}
    return kept


def shareable(value: Any, name: str = "") -> Any:
    """Return plain values without what is nobody else's business: paths keep their last part, secrets go."""
    if isinstance(value, Mapping):
        return {str(key): shareable(item, str(key)) for key, item in value.items() if not _SECRET.search(str(key))}
    if isinstance(value, list | tuple):
        return [shareable(item, name) for item in value]
    if not isinstance(value, str) or name in ("prompt", "only"):
        return value
    if value.startswith(("/", "~")):
        return value.rstrip("/").rpartition("/")[2]
    return _PATH.sub(r"\1", _ADDRESS.sub(r"\1 address", value))


def is_bundle(path: Path) -> bool:
    """Whether a path that a user gave is a file, which can only be a bundle."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


@contextmanager
def opened(path: Path) -> Iterator[Path]:
    """Have a run directory: the one at a path, or one for a while that a bundle is unpacked into.

    Raises:
        UsageError: the bundle cannot be read, or is none.
    """
    if not is_bundle(path):
        yield path
        return
    with scratch_folder("proctor-bundle-") as folder:
        directory = folder / file_name(path.name.removesuffix(SUFFIX))
        directory.mkdir()
        unpack_bundle(path, directory)
        yield directory


def content_hash(path: Path) -> str:
    """Return what a bundle says is the SHA-256 of its content; `unpack_bundle` makes sure that it is."""
    with given_path(path):
        return _split(path, read_regular(path, MOST_BYTES))[0]


def unpack_bundle(path: Path, directory: Path) -> None:
    """Write the run in a bundle into a directory that is there and empty.

    Raises:
        UsageError: it is no bundle, or its content is not what it was made of.
    """
    with given_path(path):
        content = read_regular(path, MOST_BYTES)
    try:
        named, payload = _split(path, content)
        _check_hash(path, named, payload)
        values = _unpacked(payload)
        header = next(values, None)
        if not isinstance(header, dict):
            raise ValueError("it does not begin with a header")
        _write(directory, header, values)
        write_text(directory / BUNDLE_NAME, path.name)
    except (ValueError, TypeError, KeyError, LookupError, ArithmeticError, AttributeError, StoreError) as error:
        raise UsageError(f"{clip(str(path), 300)} is no bundle that can be read: {clip(str(error))}.") from None


def _split(path: Path, content: bytes) -> tuple[str, bytes]:
    line, _, _ = content[: len(MAGIC) + 65].partition(b"\n")
    if not line.startswith(MAGIC) or len(line) != len(MAGIC) + 64:
        raise UsageError(
            f"{clip(str(path), 300)} is no bundle. Name a run directory, or what proctor bundle wrote."
        )
    return line[len(MAGIC) :].decode("ascii", "replace"), content[len(line) + 1 :]


def _check_hash(path: Path, named: str, payload: bytes) -> None:
    digest = hashlib.sha256()
    for piece in _inflated(payload):
        digest.update(piece)
    if digest.hexdigest() != named:
        raise ValueError("its content is not what its hash says: it is damaged, or was changed")


def _inflated(payload: bytes) -> Iterator[bytes]:
    """Go through the content in pieces. Raises `ValueError` if it is none, or too much."""
    unpacking, total, rest = zlib.decompressobj(), 0, payload
    try:
        while rest and not unpacking.eof:
            piece = unpacking.decompress(rest, _AT_ONCE)
            rest = unpacking.unconsumed_tail
            total += len(piece)
            if total > _MOST_CONTENT:
                raise ValueError("its content is larger than is read")
            yield piece
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not unpacking.eof:
        raise ValueError("its end is missing")


def _unpacked(payload: bytes) -> Iterator[Any]:
    unpacker = msgpack.Unpacker(max_buffer_size=_MOST_VALUE, strict_map_key=True)
    for piece in _inflated(payload):
        unpacker.feed(piece)
        yield from unpacker


def _write(directory: Path, header: Mapping[str, Any], episodes: Iterator[Any]) -> None:
    run = RunDirectory(directory)
    settings = _settings(dict(header["settings"]))  # once more: who made it need not have
    settings["eval"] = {"n_episodes": header["n_episodes"]}
    with run.table() as table:
        for key in _META:
            table.set_meta(key, header[key])
            table.meta(key)  # refuses what no reader could rely on
        count = 0
        while some := [_record(values) for values in islice(episodes, _COMMITTED)]:
            count += len(some)
            if count > MOST_EPISODES:
                raise ValueError("it has more episodes than a run can have")
            table.write(some)
        table.write([], running=[RunningEpisode(EpisodeKey(*one[:3]), one[3]) for one in header["running"]])
    run.write_config(settings)


def _record(values: Any) -> EpisodeRecord:
    record = EpisodeRecord(**dict(zip(_EPISODE, values, strict=True)))
    for numbers in (record.metrics, record.layout):
        if not isinstance(numbers, dict) or not {*map(type, numbers.values())} <= {int, float}:
            raise ValueError("an episode's numbers are none")
    if record.trajectory:
        unpack_trajectory(record.trajectory)  # refused here, and not in a worker
    return record if record.status == "finished" else replace(record, error="the bundle does not say why")
