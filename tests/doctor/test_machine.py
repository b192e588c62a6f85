"""The interpreter, drawing, GPUs, limits of the machine, the directory: judged, and made for real."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from proctor.benchmarks.rendering import INSTALL_HINT, Renderer
from proctor.doctor.findings import Finding
from proctor.doctor.machine import (
    judge,
    look_at_directory,
    look_at_drawing,
    look_at_gpus,
    look_at_kernel,
    memory_finding,
    open_files_finding,
    python_finding,
    space_finding,
    system_finding,
)


@pytest.mark.parametrize(
    ("version", "state"), [((3, 10), "broken"), ((3, 11), "ok"), ((3, 13), "ok"), ((3, 14), "broken")]
)
def test_python_is_supported_from_3_11_to_3_13(version: tuple[int, int], state: str) -> None:
    finding = python_finding(version, "3.x.y", "/usr/bin/python")
    assert finding.state == state
    assert finding.in_the_way is (state == "broken")
    assert "/usr/bin/python" in finding.text


def test_other_systems_than_linux_are_in_the_way() -> None:
    assert system_finding("Darwin", "24.0", "arm64").in_the_way
    assert not system_finding("Linux", "6.1", "x86_64").in_the_way


def test_too_few_descriptors_are_a_warning_with_a_command() -> None:
    assert open_files_finding(80, 4096, workers=2).state == "ok"
    few = open_files_finding(79, 4096, workers=2)
    assert (few.state, few.remedy, few.in_the_way) == ("note", "ulimit -n 4096", False)
    assert "hard limit" not in few.text
    assert "hard limit 256" in open_files_finding(64, 256, workers=2).text
    assert open_files_finding(4096, 8192, workers=600).remedy == "ulimit -n 4864"
    assert open_files_finding(resource.RLIM_INFINITY, resource.RLIM_INFINITY, 600).state == "ok"


def test_too_little_memory_is_a_warning_with_fewer_workers() -> None:
    assert memory_finding(8 << 30, workers=16).state == "ok"
    little = memory_finding(2 << 30, workers=16)
    assert (little.state, little.in_the_way) == ("note", False)
    assert "--eval.batch_size=5" in little.remedy
    assert memory_finding(0, workers=1).state == "note"


def test_the_kernel_is_asked_for_one_of_each() -> None:
    (finding,) = look_at_kernel()
    assert (finding.state, finding.needed) == ("ok", True)


@pytest.mark.parametrize("call", ["memfd_create", "eventfd", "pidfd_open"])
def test_a_kernel_that_refuses_one_of_them_is_in_the_way(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, call, refuse)
    (finding,) = look_at_kernel()
    assert finding.in_the_way
    assert "Function not implemented" in finding.text
    assert "Linux 5.3" in finding.remedy


def test_a_directory_that_can_be_written_tells_its_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (finding,) = look_at_directory()
    assert finding.state in ("ok", "note")
    assert str(tmp_path) in finding.text
    assert not list(tmp_path.iterdir())
    assert space_finding(tmp_path, 1 << 30).state == "ok"
    assert space_finding(tmp_path, 1 << 20).state == "note"


def test_a_directory_that_cannot_be_written_or_is_gone_is_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/proc")  # refuses even root
    assert look_at_directory()[0].in_the_way
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    (finding,) = look_at_directory()
    assert finding.in_the_way
    assert "--output_dir" in finding.remedy


def smi(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_gpus_are_told_by_name_and_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(tmp_path, monkeypatch, "echo '0, GPU-aa, NVIDIA H200, 143360, 10240, 570.1'")
    (gpu,) = look_at_gpus()
    assert (gpu.name, gpu.state, gpu.text) == ("cuda:0", "ok", "NVIDIA H200, 130.0 of 140.0 GiB free")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (none,) = look_at_gpus()
    assert (none.state, none.remedy) == ("note", "unset CUDA_VISIBLE_DEVICES")


def test_a_driver_that_fails_or_hangs_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(tmp_path, monkeypatch, "exit 9")
    assert look_at_gpus()[0].state == "note"
    smi(tmp_path, monkeypatch, "exec sleep 600")
    monkeypatch.setattr("proctor.machine.gpus._SECONDS", 0.1)
    (finding,) = look_at_gpus()
    assert (finding.state, finding.in_the_way) == ("note", False)
    assert "nvidia-smi" in finding.text


def test_no_driver_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (finding,) = look_at_gpus()
    assert (finding.name, finding.state, finding.in_the_way) == ("none", "absent", False)


SOFTWARE = Renderer("egl", "llvmpipe (LLVM 15.0.6, 256 bits)", 21.46)
GPU = Renderer("egl", "NVIDIA H200/PCIe/SSE2", 0.9)
OSMESA = Renderer("osmesa", "softpipe", 80.0)


def failed(backend: str) -> Renderer:
    return Renderer(backend, complaint="was killed by SIGSEGV")


def test_the_first_that_works_is_used() -> None:
    pictures, egl, osmesa = judge([SOFTWARE, OSMESA])
    assert pictures.text.startswith("Proctor uses egl")
    assert egl.text == "llvmpipe (LLVM 15.0.6, 256 bits), software, 21.5 ms"
    assert osmesa.state == "ok"
    assert judge([GPU, OSMESA])[1].text == "NVIDIA H200/PCIe/SSE2, GPU, 0.9 ms"


def test_one_that_cannot_draw_is_no_trouble_beside_one_that_can() -> None:
    pictures, egl, _ = judge([failed("egl"), OSMESA])
    assert pictures.text.startswith("Proctor uses osmesa")
    assert (egl.state, egl.in_the_way) == ("absent", False)


def test_if_none_works_each_says_why_and_there_is_a_command() -> None:
    pictures, egl, osmesa = judge([failed("egl"), failed("osmesa")])
    assert pictures.in_the_way
    assert pictures.remedy == INSTALL_HINT
    assert egl.text == osmesa.text == "was killed by SIGSEGV"


@pytest.mark.parametrize(
    ("chosen", "remedy"), [("egl", INSTALL_HINT), ("osmesa", "unset MUJOCO_GL"), ("glfw", "unset MUJOCO_GL")]
)
def test_a_choice_that_cannot_work_is_better_not_made(chosen: str, remedy: str) -> None:
    pictures, _ = judge([failed(chosen)])
    assert pictures.remedy == remedy
    assert f"MUJOCO_GL={chosen}" in pictures.text


def test_without_mujoco_nothing_is_tried() -> None:
    (pictures,) = look_at_drawing(Finding("Meta-World", "mujoco", "broken", "3.17.0", "get another", needed=True))
    assert pictures.in_the_way
    assert pictures.remedy == "get another"
