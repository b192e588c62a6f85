"""What `import proctor` promises: these names, and almost no time."""

from __future__ import annotations

import subprocess
import sys

import pytest

import proctor

HEAVY = {
    "pydantic",
    "pydantic_core",
    "rich",
    "yaml",
    "mujoco",
    "metaworld",
    "gymnasium",
    "torch",
    "av",
    "scipy",
    "jinja2",
    "markupsafe",
    "pandas",
}


def imported_by(statement: str) -> set[str]:
    """Return the top-level packages that a fresh interpreter has loaded after `statement`."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_the_public_names_are_these_and_no_others() -> None:
    assert proctor.__all__ == [
        "EXECUTION",
        "Actions",
        "AtLeast",
        "AtMost",
        "Benchmark",
        "BenchmarkError",
        "BenchmarkSpec",
        "ChangedError",
        "CheckResult",
        "Comparison",
        "DamagedError",
        "DatasetConfig",
        "DevicePolicySettings",
        "EnvProcessor",
        "EnvSettings",
        "Episode",
        "EpisodeRecord",
        "EvalConfig",
        "EvalResult",
        "Evaluator",
        "ExitFirstError",
        "Feature",
        "IdentityError",
        "Look",
        "Memory",
        "MoreThan",
        "NoPicturesError",
        "Observation",
        "Outcome",
        "PeftConfig",
        "Policy",
        "PolicyError",
        "PolicyHostError",
        "PolicyLostError",
        "PolicySettings",
        "PolicySpec",
        "ProctorError",
        "Rate",
        "RunError",
        "RunGoneError",
        "RunLockedError",
        "RunOutcome",
        "Simulator",
        "SimulatorError",
        "StoreError",
        "Task",
        "TaskResult",
        "TorchPolicy",
        "TrackedRun",
        "Tracker",
        "UsageError",
        "UserCodeError",
        "WandBConfig",
        "Window",
        "__version__",
        "check_benchmark",
        "close_envs",
        "compare",
        "evaluate",
        "make_env",
        "make_env_config",
        "make_env_pre_post_processors",
    ]


@pytest.mark.parametrize("name", proctor.__all__)
def test_every_public_name_is_there(name: str) -> None:
    found = getattr(proctor, name)
    aliases = ("dict", "tuple", "frozenset", "Any", "Ge", "Le", "Gt")
    assert getattr(found, "__name__", name) in (name, *aliases)


def test_every_error_that_a_caller_can_meet_is_public() -> None:
    kinds = [proctor.ProctorError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    ours = {kind.__name__ for kind in kinds if kind.__module__ in ("proctor.errors", "proctor.blame")}
    assert ours <= set(proctor.__all__)


def test_a_star_import_gives_the_public_names() -> None:
    space: dict[str, object] = {}
    exec("from proctor import *", space)
    assert space.keys() - {"__builtins__"} == set(proctor.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'proctor' has no attribute 'evalute'"):
        _ = proctor.evalute


def test_importing_proctor_imports_nothing_of_weight() -> None:
    loaded = imported_by("import proctor")
    assert "proctor" in loaded
    assert not loaded & (HEAVY | {"numpy", "msgpack", "sqlite3"})


def test_importing_a_worker_imports_neither_settings_checks_nor_display_nor_simulators_nor_models() -> None:
    loaded = imported_by("import proctor.engine.worker")
    assert {"proctor", "numpy", "msgpack"} <= loaded
    assert not loaded & HEAVY


def test_importing_a_host_imports_no_more_than_a_worker_does() -> None:
    loaded = imported_by("import proctor.engine.policy_host")
    assert "proctor" in loaded
    assert not loaded & HEAVY


def test_importing_the_coordinator_imports_no_simulator_and_no_model() -> None:
    loaded = imported_by("import proctor.engine.executors.local")
    assert "proctor" in loaded
    assert not loaded & {"mujoco", "metaworld", "gymnasium", "torch", "av", "scipy", "pandas"}


def test_importing_make_env_imports_no_gymnasium() -> None:
    loaded = imported_by("from proctor import make_env")
    assert "proctor" in loaded
    assert not loaded & HEAVY


def test_what_a_run_shows_of_itself_needs_no_scipy() -> None:
    loaded = imported_by(
        "from proctor.stats.intervals import wilson; from proctor.stats.macro import clustered, stratified; "
        "from proctor.stats.sequential import BetterRule, PrecisionRule; "
        "from proctor.stats.steps import curve_of_successes; "
        "wilson(3, 5); stratified([(3, 5)]); clustered([(3, 5), (4, 5)]); PrecisionRule(0.1).add(True); "
        "BetterRule().add(True, False); curve_of_successes([], 0); import proctor.comparison.compare"
    )
    assert "numpy" in loaded
    assert "scipy" not in loaded


def test_importing_a_benchmark_never_imports_torch_or_a_simulator() -> None:
    loaded = imported_by("import proctor.benchmarks.metaworld.benchmark")
    assert "proctor" in loaded
    assert not loaded & {"mujoco", "metaworld", "gymnasium", "torch", "av"}
