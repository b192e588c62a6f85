"""Which GL a vector environment draws with: chosen once for a process, before its first simulator is imported."""

from __future__ import annotations

import os
from functools import lru_cache

from proctor.benchmarks.gl import NO_GL, Renderer, find_renderer
from proctor.benchmarks.protocol import Benchmark
from proctor.errors import NoPicturesError
from proctor.types import BenchmarkSpec


def gl_variables(benchmark: Benchmark, spec: BenchmarkSpec) -> dict[str, str]:
    """Return the environment variables that let a process draw this benchmark.

    Raises:
        NoPicturesError: it shows pictures, and no GL works here.
    """
    if not benchmark.uses_gl:
        return {}
    try:
        return _renderer(os.environ.get("MUJOCO_GL")).env
    except NoPicturesError:
        if any(feature.drawn for feature in spec.features.values()):
            raise
        return NO_GL  # only render() will miss it


@lru_cache(maxsize=4)
def _renderer(_chosen: str | None) -> Renderer:
    return find_renderer()


def choose_gl_here(benchmark: Benchmark, spec: BenchmarkSpec) -> None:
    """Let this process draw the benchmark, unless its owner has chosen already."""
    if benchmark.uses_gl and not os.environ.get("MUJOCO_GL"):
        for name, value in gl_variables(benchmark, spec).items():
            os.environ.setdefault(name, value)
