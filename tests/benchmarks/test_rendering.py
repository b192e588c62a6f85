"""A GL counts as working when it has drawn a frame, and only then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proctor.benchmarks.rendering import Renderer, find_renderer, try_backend
from proctor.errors import NoPicturesError

FAKE = """
import os, signal, numpy
class MjModel:
    from_xml_string = staticmethod(lambda text: None)
MjData = lambda model: None
mj_forward = lambda model, data: None
class Renderer:
    def __init__(self, model, height, width): self.size = height, width
    def update_scene(self, data): pass
    def render(self):
        {render}
"""


def fake_mujoco(folder: Path, monkeypatch: pytest.MonkeyPatch, render: str) -> None:
    (folder / "mujoco.py").write_text(FAKE.format(render=render))
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")


@pytest.fixture(scope="module")
def drawn() -> Renderer:
    trials = [try_backend(backend) for backend in ("egl", "osmesa")]
    return next((trial for trial in trials if not trial.complaint), None) or pytest.skip("no GL works here")


@pytest.mark.gl
def test_a_trial_tells_the_renderers_name_and_what_a_frame_took(drawn: Renderer) -> None:
    assert drawn.name
    assert drawn.milliseconds > 0
    assert find_renderer()[:2] == (drawn.backend, drawn.name)


def test_a_frame_of_one_colour_is_no_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_mujoco(tmp_path, monkeypatch, "return numpy.zeros((*self.size, 3), numpy.uint8)")
    assert try_backend("egl").complaint == "RuntimeError: the frame that was drawn is of one single colour"


def test_a_driver_that_crashes_is_a_complaint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_mujoco(tmp_path, monkeypatch, "os.write(2, b'chatter'); os.kill(os.getpid(), signal.SIGSEGV)")
    assert try_backend("egl").complaint == "was killed by SIGSEGV"


def test_a_trial_that_ends_without_an_answer_is_a_complaint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_mujoco(tmp_path, monkeypatch, "os._exit(0)")
    assert try_backend("egl").complaint == "ended without an answer"


def test_a_context_that_opens_and_cannot_draw_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    with pytest.raises(
        NoPicturesError, match=r"no GL can draw here \(glfw: .*Unset MUJOCO_GL=glfw, or run: apt-get"
    ):
        find_renderer()


@pytest.mark.parametrize(
    ("name", "software"),
    [
        ("llvmpipe (LLVM 15.0.6, 256 bits)", True),
        ("softpipe", True),
        ("Software Rasterizer", True),
        ("NVIDIA H200/PCIe/SSE2", False),
        ("AMD Radeon RX 7900 XTX (radeonsi, navi31)", False),
    ],
)
def test_software_is_told_from_a_gpu_by_its_name(name: str, software: bool) -> None:
    assert Renderer("egl", name, 1.0).software is software
