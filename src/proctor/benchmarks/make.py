"""From a benchmark's path and settings to the object, whoever has written it."""

from __future__ import annotations

import contextlib

from proctor.benchmarks.protocol import Benchmark
from proctor.blame import users_code
from proctor.config.registry import load_object
from proctor.config.settings import EnvSettings
from proctor.errors import UsageError


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
