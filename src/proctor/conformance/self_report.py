"""What a benchmark says of itself in a fresh process, and what comes into that process with it."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proctor.benchmarks.facts import BenchmarkFacts, facts_of
from proctor.benchmarks.protocol import Benchmark
from proctor.config.plain_values import to_plain
from proctor.config.registry import load_object

_HEAVY = {
    "OpenGL", "brax", "dm_control", "genesis", "glfw", "gym_aloha", "gym_pusht", "gymnasium_robotics",
    "habitat_sim", "isaacgym", "isaaclab", "isaacsim", "jax", "libero", "maniskill", "metaworld", "mujoco",
    "mujoco_py", "omni", "pybullet", "pygame", "pyglet", "pymunk", "rlbench", "robocasa", "robosuite",
    "sapien", "simpler_env", "tensorflow", "torch",
}  # fmt: skip
"""Simulators, what they draw with, and frameworks: modules that belong into workers only."""

_GL = re.compile(r"/lib(EGL|GL|GLX|GLESv2|OSMesa|OpenGL|glfw|vulkan|cuda|gallium)\b[^/]*\.so[^/]*$")


@dataclass(frozen=True)
class SelfReport:
    """A benchmark's facts, and the modules and libraries that were loaded to learn them.

    Attributes:
        facts: spec, tasks and versions, as plain values.
        modules: simulators that were imported.
        libraries: GL libraries that were loaded.
        opens_to_tell: whether it says that its simulator has to be opened for that.
        draws_on_look: whether it says that a step without a look draws nothing.
        no_frames: why it says that its simulators cannot render, if so.
        unsteady: what it says one way first and another way when asked again.
    """

    facts: dict[str, Any]
    modules: list[str]
    libraries: list[str]
    opens_to_tell: bool
    draws_on_look: bool
    no_frames: str = ""
    unsteady: str = ""


def introduce(path: str, env: dict[str, Any]) -> tuple[Benchmark, SelfReport]:
    """Make the benchmark from settings that came over the wire, as a worker does, and ask it."""
    modules, libraries = set(sys.modules), _gl_libraries()
    benchmark_class: type[Benchmark] = load_object(path)
    benchmark = benchmark_class(benchmark_class.Settings(**env))
    facts = None if benchmark.opens_to_tell else facts_of(benchmark, path)
    new = {name.partition(".")[0] for name in set(sys.modules) - modules}
    loaded = sorted(_gl_libraries() - libraries)
    facts = facts or facts_of(benchmark, path)
    own = {path.partition(".")[0].partition(":")[0], "numpy", "proctor"}
    imported = sorted(new & (_HEAVY | {name.replace("-", "_") for name in benchmark.distributions()}) - own)
    return benchmark, SelfReport(
        to_plain(facts),
        imported,
        loaded,
        benchmark.opens_to_tell,
        benchmark.draws_on_look,
        benchmark.no_frames,
        _unsteady(benchmark, facts),
    )


def _unsteady(benchmark: Benchmark, facts: BenchmarkFacts) -> str:
    if tuple(benchmark.tasks()) != facts.tasks:
        return "tasks() returns other tasks, or another order, when it is called again"
    if benchmark.spec != facts.spec:
        return "spec is another one when it is asked for again"
    return ""


def _gl_libraries() -> set[str]:
    found = set()
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        if _GL.search(line):
            found.add(line.rpartition("/")[2])
    return found
