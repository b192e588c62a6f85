"""What a reference run leaves, as far as it is the same every time: through the command line and files alone."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import av
import pyarrow.parquet as parquet

from reference.runs import Command, Run

HERE = Path(__file__).resolve().parent
WORLD, EXPECTED = HERE / "world", HERE / "expected"
# The code that the expected files are from has `python -m proctor.cli`.
PROGRAM = "proctor" if importlib.util.find_spec("proctor.__main__") else "proctor.cli"
LAST_LINES = 40
TIMEOUT = 240
WIDTH = 420  # an episode fits

_NORMAL = (
    (r"in [\d.,]+ (s|min|h)\b.* steps/s\).*", "in T (SPEED)."),
    (r"^[\d.,]+ (s|min|h)\b.* in all.*", "T in all."),
    (r"steps in [\d,]+ (s|min).*", "steps in T."),
    (r"\b(process|pid) \d+", r"\1 PID"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d[:-]\d\d[:-]\d\d", "TIME"),
    (r"worker-\d+\.log", "worker-N.log"),
    (r"node \S+ \(\w+\)", "node NODE"),
    (r"\b[0-9a-f]{32,64}\b", "HASH"),
    (r", line \d+, in", ", line N, in"),
    (r"\b[\d.]+ ms\b", "T ms"),
    (r"\s+$", ""),
)
_KEY = ("task_group", "task_id", "episode_index")
_OUTCOME = ("task", "seed", "status", "success", "sum_reward", "max_reward", "steps", "metrics", "attempts")
_LISTED = (*_KEY, *_OUTCOME, "digest", "pixel_digest", "video_path", "error")


def machine() -> dict[str, str]:
    """Return what digests depend on besides code: on another kind of machine they are others."""
    names = ("numpy", "mujoco", "gymnasium", "metaworld", "av", "pyarrow")
    about = Path("/proc/cpuinfo").read_text()
    cpu = "".join(sorted(set(re.findall(r"^(?:model name|flags)\s*:.*$", about, re.MULTILINE))))
    return {
        "python": platform.python_version(),
        "cpu": hashlib.sha256(cpu.encode()).hexdigest()[:12],
        **{name: importlib.metadata.version(name) for name in names},
    }


def observe(run: Run, folder: Path) -> dict[str, Any]:
    """Do a run in an empty folder and return what is to be the same."""
    places = {"TMP": str(folder), "WORLD": str(WORLD), "PYTHON": sys.executable}
    for name, content in run.files.items():
        (folder / name).write_text(_filled(content, places))
    paths = [str(WORLD), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("PROCTOR_", "PYTEST_", "RAY_"))},
        "PYTHONPATH": os.pathsep.join(paths),
        "COLUMNS": "500",
        **run.environment,
    }
    seen: dict[str, Any] = {"commands": []}
    with contextlib.ExitStack() as servers:
        for command in run.commands:
            seen["commands"].append(_call(command, folder, environment, places, servers))
    seen["runs"] = {
        str(table.parent.relative_to(folder)): _look(table.parent, places)
        for table in sorted(folder.rglob("run.sqlite"))
    }
    for episode in [episode for found in seen["runs"].values() for episode in found["episodes"]]:
        for name in ("digest", "pixel_digest"):
            episode[name] = episode[name] and episode[name][:16]
    for path in run.unstable:
        _leave_out(seen, path.split("."))
    plain: dict[str, Any] = json.loads(json.dumps(seen))
    return plain


def observe_all(runs: Iterable[Run], report: Callable[[str, float], None] | None = None) -> dict[str, Any]:
    """Do runs, two at a time: what each leaves, or the error that stood in the way."""

    def one(run: Run) -> Any:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="reference-") as folder:
            try:
                return observe(run, Path(folder).resolve())
            except Exception as error:
                return error
            finally:
                if report is not None:
                    report(run.name, time.monotonic() - began)

    listed = list(runs)
    with ThreadPoolExecutor(2) as pool:
        return dict(zip([run.name for run in listed], pool.map(one, listed), strict=True))


def _call(
    command: Command,
    folder: Path,
    environment: dict[str, str],
    places: dict[str, str],
    servers: contextlib.ExitStack,
) -> dict[str, Any]:
    arguments = _filled(command.arguments, places).split()
    number = len(list(folder.glob("*.out")))
    out, err = folder / f"{number}.out", folder / f"{number}.err"
    with out.open("w") as to, err.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=to,
            stderr=errors,
            cwd=folder,
            env=environment,
        )
    if command.serves:
        servers.callback(_end, process)
        _wait(lambda: re.search(r":\d+", out.read_text()), process)
        places["PORT"] = re.findall(r":(\d+)", out.read_text())[0]
        return {"arguments": command.arguments, "stdout": _lines(out, places)}
    try:
        if command.when:
            _wait((folder / command.when).exists, process)
            process.send_signal(command.signal)
        status = process.wait(TIMEOUT)
    finally:
        _end(process)
    return {
        "arguments": command.arguments,
        "status": status,
        "stdout": _events(out) if "--display=json" in arguments else _lines(out, places),
        "stderr": _lines(err, places),
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(condition: Any, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert process.poll() is None, f"ended with {process.returncode}"
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def _filled(text: str, places: dict[str, str]) -> str:
    for name, value in places.items():
        text = re.sub(rf"\b{name}\b", value.replace("\\", r"\\"), text)
    return text


def _normal(text: str, places: dict[str, str]) -> str:
    for name, value in sorted(places.items(), key=lambda place: -len(place[1])):
        if name != "PORT":
            text = text.replace(value, name)
    for pattern, stand_in in _NORMAL:
        text = re.sub(pattern, stand_in, text)
    return text


def _lines(file: Path, places: dict[str, str]) -> list[str]:
    """Return the last lines; without progress, tracebacks of our own files, and columns as wide as a path."""
    text = re.sub(r"^Traceback .*\n(?:[ \t].*\n|\n)*.*\n", "", file.read_text(), flags=re.MULTILINE)
    text = re.sub(r"^\d+/\d+ episodes, .*\n", "", text, flags=re.MULTILINE)  # progress, now and then
    lines = [_normal(line, places) for line in text.splitlines()[-LAST_LINES:]]
    return [re.sub(r" {2,}", "  ", line) if re.search("TMP|WORLD", line) else line for line in lines]


def _events(file: Path) -> list[str]:
    """Return the kinds of events that programs are given, with the names of what each has."""
    events = [json.loads(line) for line in file.read_text().splitlines()]
    return sorted({f"{event['event']}: {' '.join(sorted(event))}" for event in events})


def _look(directory: Path, places: dict[str, str]) -> dict[str, Any]:
    """Return what is in a run directory."""
    with contextlib.closing(sqlite3.connect(f"file:{directory / 'run.sqlite'}?mode=ro", uri=True)) as table:
        rows = table.execute(f"SELECT {', '.join(_LISTED)}, asks, looks, rewards FROM episodes").fetchall()
        attempts = table.execute("SELECT task_group, episode_index, number, reason FROM attempts").fetchall()
        in_flight = table.execute("SELECT task_group, episode_index, steps FROM in_flight").fetchall()
        endings = [row[0] for row in table.execute("SELECT ending FROM sessions ORDER BY id")]
        notes = [row[0] for row in table.execute("SELECT message FROM notes")]
    found: dict[str, Any] = {
        "attempts": [[*row[:3], _normal(row[3], places)] for row in sorted(attempts)],
        "endings": [ending and _normal(ending, places) for ending in endings],
        "episodes": [_episode(row) for row in sorted(rows, key=lambda row: row[:3])],
        "files": _files(directory),
        "in_flight": sorted(in_flight),
        "notes": sorted(_normal(note, places) for note in notes),
    }
    result = next(iter([*directory.glob("eval_info.json"), *directory.glob("shard_*.json")]), None)
    if result is not None:
        _add_info(found, json.loads(_normal_result(result, places)))
    if (directory / "videos").exists():
        found["videos"] = _frames(directory / "videos")
    if (directory / "dataset").exists():
        found["dataset"] = _dataset(directory / "dataset")
    if (directory / "told.jsonl").exists():
        told = [json.loads(line) for line in (directory / "told.jsonl").read_text().splitlines()]
        names = sorted({name for note in told for name in note.get("names", [])})
        found["told"] = {"first": told[0]["kind"], "last": told[-1]["kind"], "names": names}
    return found


def _episode(row: tuple[Any, ...]) -> dict[str, Any]:
    episode: dict[str, Any] = dict(zip([*_LISTED, "asks", "looks", "rewards"], row, strict=True))
    episode["metrics"] = json.loads(episode["metrics"])
    episode["success"] = None if episode["success"] is None else bool(episode["success"])
    episode["rewards"] = hashlib.sha256(episode["rewards"]).hexdigest()[:16]
    return episode


def _normal_result(file: Path, places: dict[str, str]) -> str:
    text = file.read_text()
    for name in ("TMP", "WORLD", "PYTHON"):
        text = text.replace(places[name], name)
    return text


def _add_info(found: dict[str, Any], info: dict[str, Any]) -> None:
    """Add a result, without times, versions and the machine; its episodes must be those of the table.

    Of a run that a rule has stopped, what had ended beyond that place is in the table alone: how much is chance.
    """
    del info["timing"], info["versions"], info["overall"]["eval_s"], info["overall"]["eval_ep_s"]
    listed = {_key(episode): episode for episode in info.pop("per_episode")}
    if info["run"]["stopped"]:
        found["episodes"] = [episode for episode in found["episodes"] if _key(episode) in listed]
    same = [all(listed[_key(e)][name] == e[name] for name in _LISTED) for e in found["episodes"]]
    info["per_episode is the table's"] = len(same) == len(listed) and all(same)
    identity = info["run"]["identity"]
    for name in ("machine", "versions", "renderer"):
        del identity[name]
    del identity["policy"]["versions"]
    found["eval_info"] = json.loads(re.sub(r"[0-9a-f]{32,64}", "HASH", json.dumps(info)))


def _key(episode: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(episode[name] for name in _KEY)


def _files(directory: Path) -> list[str]:
    """Return the files that a user finds, without logs and what lies in shards."""
    names = [str(file.relative_to(directory)) for file in directory.rglob("*") if file.is_file()]
    passing = re.compile(r"(^|/)(logs|shard_\d+_of_\d+)/|(^|/)([^/]*lock|run\.sqlite-\w+)$")
    return sorted(name for name in names if not passing.search(name))


def _dataset(directory: Path) -> dict[str, Any]:
    """Return what a recorded dataset holds: its numbers by their digest, its pictures by their count."""
    data = [parquet.read_table(file).to_pydict() for file in sorted(directory.glob("data/*/*.parquet"))]
    return {
        "columns": sorted({name for table in data for name in table}),
        "frames": _frames(directory),
        "info": json.loads((directory / "meta" / "info.json").read_text()),
        "data": hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest(),
    }


def _frames(directory: Path) -> dict[str, int]:
    """Return how many frames each video has."""
    found = {}
    for file in sorted(directory.rglob("*.mp4")):
        with av.open(str(file)) as video:
            found[str(file.relative_to(directory))] = sum(1 for _ in video.decode(video=0))
    return found


def _leave_out(value: Any, path: list[str]) -> None:
    name, *rest = path
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys if name == "*" else [name if isinstance(value, dict) else int(name)]:
        if rest:
            _leave_out(value[key], rest)
        else:
            value[key] = "not stored"


def written(value: Any, indent: int = 0) -> str:
    """Return JSON for people and diffs: on one line what fits there."""
    short = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(short) + indent <= WIDTH or not isinstance(value, dict | list) or not value:
        return short
    return "\n".join(_broken(value, indent))


def _broken(value: dict[str, Any] | list[Any], indent: int) -> Iterator[str]:
    space = " " * (indent + 1)
    if isinstance(value, dict):
        parts = [f"{json.dumps(k)}: {written(v, indent + 1)}" for k, v in sorted(value.items())]
    else:
        parts = [written(v, indent + 1) for v in value]
    yield "{" if isinstance(value, dict) else "["
    yield ",\n".join(space + part for part in parts)
    yield " " * indent + ("}" if isinstance(value, dict) else "]")
