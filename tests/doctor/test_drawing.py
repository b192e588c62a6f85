"""What trials of drawing mean: which backend is used, what else there is, and what to do if none works."""

from __future__ import annotations

import pytest

from proctor.benchmarks.rendering import INSTALL_HINT, BackendTrial
from proctor.doctor.drawing import judge, look_at_drawing
from proctor.doctor.findings import Finding

SOFTWARE = BackendTrial("egl", "llvmpipe (LLVM 15.0.6, 256 bits)", 21.46)
GPU = BackendTrial("egl", "NVIDIA H200/PCIe/SSE2", 0.9)
OSMESA = BackendTrial("osmesa", "softpipe", 80.0)


def failed(backend: str) -> BackendTrial:
    return BackendTrial(backend, complaint="was killed by SIGSEGV")


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
