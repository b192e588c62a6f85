"""What decides the bits of a computation besides the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from proctor.machine.versions import cpu_kind, installed_versions, interpreter_versions, numeric_environment

X86 = """processor	: 0
model name	: Intel(R) Xeon(R) Processor
flags		: fpu avx2 sse4_2

processor	: 1
model name	: Intel(R) Xeon(R) Processor
flags		: fpu avx2 sse4_2
"""
ARM = """processor	: 0
Features	: fp asimd sve
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x1
CPU part	: 0xd40
CPU revision	: 1
"""


def told(tmp_path: Path, text: str) -> dict[str, str]:
    file = tmp_path / "cpuinfo"
    file.write_text(text)
    return cpu_kind(file)


def test_versions_are_read_without_importing_and_absence_is_told() -> None:
    versions = installed_versions(["numpy", "no-such-distribution-at-all"])
    assert list(versions) == ["numpy", "no-such-distribution-at-all"]
    assert versions["numpy"][0].isdigit()
    assert versions["no-such-distribution-at-all"] == "absent"


def test_proctor_python_numpy_and_the_c_library_are_known_by_their_versions() -> None:
    assert set(interpreter_versions()) == {"proctor", "python", "numpy", "libc"}
    assert all(version and version != "absent" for version in interpreter_versions().values())


def test_a_processor_is_known_by_model_and_features(tmp_path: Path) -> None:
    kind = told(tmp_path, X86)
    assert "Intel(R) Xeon(R) Processor" in kind["cpu"]
    assert kind["cpu_features"] == "avx2 fpu sse4_2"
    assert told(tmp_path, X86.replace(" avx2", "")) != kind


def test_a_processor_without_a_name_is_known_by_its_numbers_and_features(tmp_path: Path) -> None:
    kind = told(tmp_path, ARM)
    assert "0x41 0xd40 0x1 1" in kind["cpu"]
    assert kind["cpu_features"] == "asimd fp sve"
    assert told(tmp_path, ARM.replace("0xd40", "0xd0c")) != kind
    assert told(tmp_path, ARM.replace(" sve", "")) != kind


def test_a_machine_that_tells_nothing_has_an_architecture_still(tmp_path: Path) -> None:
    assert cpu_kind(tmp_path / "none")["cpu"]


@pytest.mark.parametrize(
    "name",
    [
        "NPY_DISABLE_CPU_FEATURES",
        "OPENBLAS_CORETYPE",
        "MKL_CBWR",
        "ATEN_CPU_CAPABILITY",
        "GLIBC_TUNABLES",
        "MKL_SOMETHING_THAT_DOES_NOT_EXIST_YET",
        "LP_NATIVE_VECTOR_WIDTH",
        "TF_ENABLE_ONEDNN_OPTS",
    ],
)
def test_variables_by_which_libraries_choose_how_they_compute_are_seen(name: str) -> None:
    assert numeric_environment({name: "1", "HOME": "/root"}) == {name: "1"}


@pytest.mark.parametrize(
    "name",
    [
        "OMP_NUM_THREADS",
        "CUDA_VISIBLE_DEVICES",
        "MUJOCO_GL",
        "PATH",
        "LANG",
        "TF_TOKEN_app_terraform_io",
        "TF_VAR_region",
    ],
)
def test_variables_that_say_where_or_how_many_are_not(name: str) -> None:
    assert numeric_environment({name: "1"}) == {}
