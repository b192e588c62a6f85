"""Other packages' benchmarks and policies: found by entry point, and none of them can break the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import lay_out
from proctor.config.load import build_settings
from proctor.config.plugins import BENCHMARK_GROUP, Plugin, plugins
from proctor.config.registry import BENCHMARKS, benchmark_path, known_benchmarks
from proctor.errors import UsageError


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
