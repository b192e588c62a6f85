"""What has to be known of a benchmark before any simulator starts, asked where its packages are.

Most benchmarks can tell without importing anything. One whose simulator alone knows its spaces, or whose packages
are another interpreter's (`--env.python`), is asked in a process of its own: `python -m proctor.benchmarks.facts`.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proctor import __version__
from proctor.benchmarks.protocol import Benchmark
from proctor.benchmarks.rendering import NO_GL, find_renderer
from proctor.blame import users_code
from proctor.config.plain_values import from_plain, to_plain
from proctor.config.registry import load_object
from proctor.config.settings import EnvSettings
from proctor.errors import NoPicturesError, ProctorError, UsageError
from proctor.identity import benchmark_identity
from proctor.installation import install_command, other_version
from proctor.machine.processes import ask_module, reply
from proctor.machine.versions import HASH_SEED, interpreter_versions
from proctor.types import BenchmarkSpec, Task

_SECONDS = 300


@dataclass(frozen=True)
class BenchmarkFacts:
    """What a run has to know beforehand; `versions` are those of what can change a trajectory.

    `identity` is what a worker can find out for itself, and must, before it builds a simulator. All others are the
    benchmark's own attributes, which it may know only when it has opened a simulator.
    """

    spec: BenchmarkSpec
    tasks: tuple[Task, ...]
    versions: dict[str, str]
    identity: dict[str, Any]
    fps: int = 30
    uses_gl: bool = False
    no_frames: str = ""
    draws_on_look: bool = True
    replays: bool = True
    undecided: str = ""
    notes: tuple[str, ...] = ()


def learn(path: str, settings: EnvSettings) -> BenchmarkFacts:
    """Return the facts of the benchmark at `path` under these settings.

    Raises:
        UsageError: a task is unknown, or a package is missing; says how to get it.
    """
    benchmark = make_benchmark(path, settings)
    if benchmark.fetches:
        _fetch(path, settings, benchmark)
    if settings.python is None and not benchmark.opens_to_tell:
        with asking(settings):
            return facts_of(benchmark, path)
    facts = _ask(path, settings)
    if facts.undecided and facts.uses_gl:
        # Its observations may be drawn: tried again with a GL that works, if there is one.
        with contextlib.suppress(NoPicturesError):
            facts = _ask(path, settings, find_renderer(settings.python).env)
    if facts.undecided:
        raise UsageError(
            f"--env.task={settings.task}: whether it reports success could not be found out ({facts.undecided}). "
            "Say so: --env.success_key=NAME is the entry of info, --env.success_key=none says that there is none."
        )
    return facts


def facts_of(benchmark: Benchmark, path: str) -> BenchmarkFacts:
    """Return the facts of a benchmark whose packages are this interpreter's; `path` is where its class is."""
    if benchmark.opens_to_tell:
        benchmark.check_installed()
    tasks, spec = tuple(benchmark.tasks()), benchmark.spec
    benchmark.check_installed()
    distributions = sorted({"numpy", *benchmark.distributions()})
    identity = benchmark_identity(path, benchmark.settings, distributions, sorted(benchmark.modules()))
    return BenchmarkFacts(
        spec,
        tasks,
        {**interpreter_versions(), **identity["versions"], **benchmark.fingerprints()},
        identity,
        fps=benchmark.fps,
        uses_gl=benchmark.uses_gl,
        no_frames=benchmark.no_frames,
        draws_on_look=benchmark.draws_on_look,
        replays=benchmark.replays,
        undecided=benchmark.undecided,
        notes=tuple(benchmark.notes),
    )


def _fetch(path: str, settings: EnvSettings, benchmark: Benchmark) -> None:
    if not benchmark.opens_to_tell:
        benchmark.tasks()  # a mistake is told before anything is downloaded
    if settings.python is not None:
        _answer(path, settings, fetch=True)
        return
    benchmark.check_installed()
    benchmark.fetch()


def _ask(path: str, settings: EnvSettings, drawing: Mapping[str, str] = NO_GL) -> BenchmarkFacts:
    facts: BenchmarkFacts = from_plain(BenchmarkFacts, _answer(path, settings, drawing=drawing))
    return facts


def _answer(
    path: str, settings: EnvSettings, fetch: bool = False, drawing: Mapping[str, str] = NO_GL
) -> dict[str, Any]:
    """Ask a process of its own. One that fetches takes its time, and shows its progress on our terminal."""
    question = {
        "version": __version__,
        "benchmark": path,
        "env": to_plain(settings),
        "fetch": fetch,
        # Another interpreter's packages are its own.
        "sys_path": list(sys.path) if settings.python is None else [],
    }
    try:
        done = ask_module(
            "proctor.benchmarks.facts",
            python=settings.python,
            variables={**drawing, "PYTHONHASHSEED": HASH_SEED},
            question=json.dumps(question),
            seconds=None if fetch else _SECONDS,
            shows_progress=fetch,
        )
    except OSError as error:
        raise UsageError(f"--env.python={settings.python}: {error.strerror or error}.") from None
    if done.late:
        raise UsageError(f"--env.type={settings.type}: no answer within {_SECONDS} s when asked.")
    if done.reply is not None:
        answer: dict[str, Any] = done.reply
        if "usage" in answer:
            raise UsageError(answer["usage"])
        return answer
    if "No module named" in done.last_words and settings.python is not None:
        pip = install_command(pip=f"{settings.python} -m pip")
        raise UsageError(f"--env.python: {done.last_words}. Run: {pip}")
    raise UsageError(f"--env.type={settings.type} could not be asked for its spaces: {done.last_words}")


def main() -> None:
    """Answer our parent: one line of JSON on standard output."""
    asked = json.load(sys.stdin)
    sys.path.extend(path for path in asked["sys_path"] if path not in sys.path)
    answer: dict[str, Any]
    try:
        problem = other_version(asked["version"])
        if problem is not None:
            raise UsageError(problem)
        settings = load_object(asked["benchmark"]).Settings(**asked["env"])
        benchmark = make_benchmark(asked["benchmark"], settings)
        with asking(settings):
            if asked["fetch"]:
                benchmark.check_installed()
                benchmark.fetch()
                answer = {}
            else:
                answer = to_plain(facts_of(benchmark, asked["benchmark"]))
    except ProctorError as error:
        answer = {"usage": str(error)}
    reply(answer)


def asking(settings: EnvSettings) -> contextlib.AbstractContextManager[None]:
    """Return the context in which a benchmark is asked for what it knows: what it raises is its own."""
    return users_code(f"--env.type={settings.type}: the benchmark could not be asked for its tasks and spaces")


def make_benchmark(path: str, settings: EnvSettings) -> Benchmark:
    """Return the benchmark at `path`, made with these settings.

    Raises:
        UserCodeError: its class cannot be imported, or raises; says where.
    """
    kind = load_object(path)
    with users_code(f"--env.type={settings.type}: the benchmark cannot be made"):
        benchmark: Benchmark = kind(settings)
    if getattr(benchmark, "settings", None) is None:
        raise UsageError(f"--env.type={settings.type}: its __init__ must call super().__init__(settings).")
    return benchmark


if __name__ == "__main__":
    main()
