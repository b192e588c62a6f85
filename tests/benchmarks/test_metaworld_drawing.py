"""Pictures are those of Meta-World's own `render()` in a fresh process, whatever was drawn before."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from harness import SUPPORT
from proctor.benchmarks.metaworld.drawing import turned, upright
from proctor.benchmarks.metaworld.tasks import MT50
from proctor.benchmarks.rendering import NO_GL, Renderer


def start(variables: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SUPPORT / "metaworld_pictures.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})


def pictures(renderer: Renderer, route: str, camera: str, *tasks: str) -> list[str]:
    """Return a line per task: its name, and digests of what is seen at the beginning and later."""
    done = start(renderer.env, route, camera, *tasks)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # nothing complains when GL ends
    return done.stdout.splitlines()


def in_fresh_processes(renderer: Renderer, camera: str, tasks: Iterable[str]) -> set[str]:
    """Return what Gymnasium draws of Meta-World's own environments, each task in a process of its own."""
    with ThreadPoolExecutor(2) as threads:
        found = threads.map(lambda task: pictures(renderer, "gymnasium", camera, task), tasks)
        return {line for lines in found for line in lines}


@pytest.mark.gl
@pytest.mark.parametrize("camera", ["corner2", "topview"])
def test_pictures_are_gymnasiums_in_any_order_of_tasks_and_with_two_open_at_once(
    renderer: Renderer, camera: str
) -> None:
    here = ("hammer-v3", "reach-v3", "assembly-v3+hammer-v3", "reach-v3", "assembly-v3")
    found = pictures(renderer, "proctor", camera, *here)
    assert len(found) == 6
    assert set(found) == in_fresh_processes(renderer, camera, ("hammer-v3", "reach-v3", "assembly-v3"))


@pytest.mark.slow
@pytest.mark.gl
@pytest.mark.timeout(1800)
def test_pictures_of_all_fifty_tasks_are_gymnasiums_in_any_order(renderer: Renderer) -> None:
    order = random.Random(0).sample(MT50, 50)
    beside = [f"{one}+{other}" for one, other in zip(order, order[25:], strict=False)]
    found = pictures(renderer, "proctor", "corner2", *MT50, *order, *beside)
    assert len(found) == 150
    fresh = in_fresh_processes(renderer, "corner2", MT50)
    assert len(fresh) == 50
    assert set(found) == fresh


@pytest.mark.gl
def test_a_camera_that_meta_world_does_not_have_is_refused(renderer: Renderer) -> None:
    """Gymnasium draws a view of its own choice."""
    done = start(renderer.env, "proctor", "corner9", "reach-v3")
    assert "BenchmarkError: --env.camera_name=corner9: the installed Meta-World has no such camera" in done.stderr


def test_without_gl_drawing_says_what_to_install() -> None:
    done = start(NO_GL, "proctor", "corner2", "reach-v3")
    assert "NoPicturesError: no GL can draw here (MUJOCO_GL=disable). Run: apt-get install" in done.stderr


def test_rows_from_the_lowest_up_become_pictures() -> None:
    rows = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    assert np.array_equal(upright(rows), np.flip(rows, 0))
    assert np.array_equal(turned(rows), np.flip(np.flip(rows, 0), (0, 1)))
    assert all(picture.base is None and picture.flags.c_contiguous for picture in (upright(rows), turned(rows)))


@pytest.mark.gl
def test_another_viewer_in_the_same_process_draws_as_if_it_were_alone(renderer: Renderer) -> None:
    command = [sys.executable, str(SUPPORT / "neighbour_drawing.py")]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **renderer.env})
    assert done.stdout.strip() == "each as alone", done.stderr
