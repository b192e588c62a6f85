"""What is found by name, by path and by entry point; one broken package hides no other."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import ModuleType

import pytest

from harness import lay_out
from proctor.blame import UserCodeError
from proctor.config.load import build_settings
from proctor.config.registry import (
    BENCHMARK_GROUP,
    BENCHMARKS,
    POLICIES,
    Plugin,
    benchmark_path,
    known_benchmarks,
    load_object,
    plugins,
    policy_path,
)
from proctor.errors import UsageError


@pytest.fixture(autouse=True)
def path_and_modules_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loading a file adds its folder to the path; the next test must not see that."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("proctor_user_") or name == "neighbour_of_a_policy":
            del sys.modules[name]


@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_a_known_benchmark_loads(name: str) -> None:
    assert hasattr(load_object(benchmark_path(name)), "make_simulator")


@pytest.mark.parametrize("name", ["expert", "random", "zero", "python"])
def test_a_known_policy_loads(name: str) -> None:
    assert name in POLICIES
    assert hasattr(load_object(policy_path(name)), "act")


def test_a_path_is_taken_as_it_is_and_nothing_is_imported() -> None:
    assert benchmark_path("no_such_module:Bench") == "no_such_module:Bench"
    assert policy_path("dir/file.py:Policy") == "dir/file.py:Policy"


def test_somebody_elses_benchmark_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path, "other", "[proctor.benchmarks]\nkitchen = kitchen.bench:Kitchen\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert benchmark_path("kitchen") == "kitchen.bench:Kitchen"
    with pytest.raises(UsageError, match="Did you mean 'kitchen'"):
        benchmark_path("kitchn")
    with pytest.raises(UsageError):
        policy_path("kitchen")


def test_somebody_elses_policy_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path, "other", "[proctor.policies]\nclever = clever:Policy\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert policy_path("clever") == "clever:Policy"


def test_our_own_names_are_not_taken_over_by_an_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path, "other", "[proctor.policies]\nrandom = other:Random\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert policy_path("random") == POLICIES["random"]


def test_an_unknown_name_gets_the_nearest_and_all_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        policy_path("exprt")
    message = str(caught.value)
    assert "--policy.type=exprt" in message
    assert "Did you mean 'expert'?" in message
    assert all(name in message for name in POLICIES)


def test_a_file_is_loaded_once_and_its_neighbours_are_importable(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_a_policy.py").write_text("ANSWER = 42\n")
    (tmp_path / "loaded_once.py").write_text(
        "from neighbour_of_a_policy import ANSWER\nclass Mine:\n    answer = ANSWER\n"
    )
    first = load_object(f"{tmp_path}/loaded_once.py:Mine")
    assert first.answer == 42
    assert load_object(f"{tmp_path}/loaded_once.py:Mine") is first


def test_two_files_of_one_name_are_two_files(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same_name.py").write_text(f"WHERE = {folder!r}\n")
    assert load_object(f"{tmp_path}/a/same_name.py:WHERE") == "a"
    assert load_object(f"{tmp_path}/b/same_name.py:WHERE") == "b"


def test_a_class_of_a_loaded_file_knows_its_module(tmp_path: Path) -> None:
    (tmp_path / "with_dataclass.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Mine:\n"
        "    x: int = 1\n"
    )
    # Dataclasses look their module up in sys.modules while the file runs.
    assert load_object(f"{tmp_path}/with_dataclass.py:Mine")().x == 1


def test_a_file_that_raises_is_not_remembered_as_loaded(tmp_path: Path) -> None:
    file = tmp_path / "raises_at_first.py"
    file.write_text("raise RuntimeError('not yet')\n")
    with pytest.raises(UserCodeError, match="RuntimeError: not yet"):
        load_object(f"{file}:Mine")
    file.write_text("Mine = 'ready, and longer than before'\n")
    assert load_object(f"{file}:Mine") == "ready, and longer than before"


@pytest.mark.parametrize("path", ["", "name", ":Name", "module:", "file.py"])
def test_a_path_of_another_form_is_refused_with_the_right_form(path: str) -> None:
    with pytest.raises(UsageError, match=r"file\.py:Name or module:Name"):
        load_object(path)


def test_a_missing_file_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"no file {tmp_path}/none.py"):
        load_object(f"{tmp_path}/none.py:Mine")


@pytest.mark.parametrize("path", ["no_such_module_here:X", "json.no_such_module_here:X"])
def test_a_missing_module_is_refused_with_the_interpreter_that_lacks_it(path: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_object(path)
    assert path.partition(":")[0] in str(caught.value)
    assert sys.executable in str(caught.value)


def test_a_missing_name_gets_the_nearest_in_its_module() -> None:
    with pytest.raises(UsageError, match=r"json has no 'dump_s'\. Did you mean 'dumps'\?"):
        load_object("json:dump_s")


def test_what_a_users_own_file_imports_in_vain_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "needs_more.py").write_text("import no_such_module_either\n")
    with pytest.raises(UserCodeError, match=r"(?s)No module named 'no_such_module_either'.*needs_more.py, line 1"):
        load_object(f"{tmp_path}/needs_more.py:Mine")


def test_finding_and_loading_a_benchmark_imports_no_simulator_and_no_model() -> None:
    code = (
        "import sys\n"
        "from proctor.config.registry import *\n"
        "for name in BENCHMARKS: load_object(benchmark_path(name))\n"
        "for name in POLICIES: load_object(policy_path(name))\n"
        "print(sorted({'metaworld', 'mujoco', 'gymnasium', 'torch', 'OpenGL', 'av'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_file_that_two_threads_load_at_once_is_whole_for_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, gate = threading.Event(), threading.Event()
    door = ModuleType("door")
    door.__dict__.update(entered=entered, gate=gate)
    monkeypatch.setitem(sys.modules, "door", door)
    (tmp_path / "slow.py").write_text("import door\ndoor.entered.set()\ndoor.gate.wait()\nclass Name: pass\n")
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(load_object, f"{tmp_path / 'slow.py'}:Name")
        entered.wait()
        second = threads.submit(load_object, f"{tmp_path / 'slow.py'}:Name")
        wait([second], timeout=0.2)  # who does not wait for the first is through by now
        gate.set()
        assert first.result() is second.result()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def test_a_plugin_is_known_with_its_package_and_version(site: Path) -> None:
    lay_out(site, "kitchen-bench", "[proctor.benchmarks]\nkitchen = kitchen.bench:Kitchen\n", "2.1")
    assert Plugin("kitchen", "kitchen.bench:Kitchen", "kitchen-bench", "2.1") in plugins(BENCHMARK_GROUP)
    assert "kitchen" in known_benchmarks()


def test_a_damaged_entry_point_hides_no_other(site: Path) -> None:
    lay_out(site, "bad", "[proctor.benchmarks]\nno equals sign\nworse =\nmodule_only = kitchen\n[broken\n")
    lay_out(site, "good", "[other]\nx = y:Z\n[proctor.benchmarks]\n# a comment\nfine = a.b:C [extra]\n")
    assert benchmark_path("fine") == "a.b:C"
    with pytest.raises(UsageError, match=r"from bad 1\.0: its entry point 'kitchen' is not module:Class"):
        benchmark_path("module_only")


def test_metadata_that_cannot_be_read_hides_no_other(site: Path) -> None:
    before = plugins(BENCHMARK_GROUP)
    (site / "torn-1.0.dist-info").mkdir()
    (site / "torn-1.0.dist-info" / "entry_points.txt").write_bytes(b"[proctor.benchmarks]\nx = \xff\xfe:Z\n")
    (site / "nameless-1.0.dist-info").mkdir()
    (site / "nameless-1.0.dist-info" / "entry_points.txt").write_text("[proctor.benchmarks]\ny = a:B\n")
    lay_out(site, "good", "[proctor.benchmarks]\nfine = a.b:C\n")
    assert [plugin.name for plugin in plugins(BENCHMARK_GROUP) if plugin not in before] == ["fine"]


def test_a_name_that_two_packages_have_is_refused_with_both(site: Path) -> None:
    lay_out(site, "one", "[proctor.benchmarks]\nkitchen = one:Kitchen\n")
    lay_out(site, "two", "[proctor.benchmarks]\nkitchen = two:Kitchen\n")
    with pytest.raises(UsageError) as caught:
        benchmark_path("kitchen")
    assert "one 1.0 (one:Kitchen) and two 1.0 (two:Kitchen)" in str(caught.value)
    assert benchmark_path("two:Kitchen") == "two:Kitchen"


def test_two_packages_that_mean_the_same_class_are_no_trouble(site: Path) -> None:
    for package in ("one", "one-legacy"):
        lay_out(site, package, "[proctor.benchmarks]\nkitchen = one:Kitchen\n")
    assert benchmark_path("kitchen") == "one:Kitchen"


def test_an_older_copy_further_down_the_path_does_not_count(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(site, "kitchen-bench", "[proctor.benchmarks]\nkitchen = new:Kitchen\n", "2.0")
    lay_out(tmp_path / "old", "kitchen_bench", "[proctor.benchmarks]\nkitchen = old:Kitchen\n", "1.0")
    monkeypatch.syspath_prepend(tmp_path / "old")
    monkeypatch.syspath_prepend(site)
    assert benchmark_path("kitchen") == "new:Kitchen"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import no_such_simulator_anywhere", "No module named 'no_such_simulator_anywhere'"),
        ("raise RuntimeError('half\\nupgraded')", "RuntimeError: half upgraded"),
        ("Other = 1", "has no 'Kitchen'"),
        ("Kitchen = 1", "it has no Settings"),
    ],
)
def test_a_package_that_cannot_be_imported_is_one_line(site: Path, code: str, words: str) -> None:
    name = f"kitchen_{abs(hash(code)) % 10**6}"
    (site / f"{name}.py").write_text(code)
    lay_out(site, "kitchen", f"[proctor.benchmarks]\nkitchen = {name}:Kitchen\n")
    with pytest.raises(UsageError) as caught:
        build_settings({"env": {"type": "kitchen"}, "policy": {"type": "random"}})
    assert "--env.type=kitchen" in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    # The others are as they were.
    assert benchmark_path("metaworld") == BENCHMARKS["metaworld"]
