"""Pictures of one MuJoCo model, drawn off screen: what Gymnasium's viewer draws, with less around it.

Neither depth nor a second copy is read back, and a GL context that one simulator leaves is taken by the next: its
shaders are compiled, which takes longer than a picture, and its shadow map is there, which takes a third of what
MuJoCo needs for another model. Each simulator has a context to itself while it lives, because what MuJoCo keeps
there belongs to one model. Whoever else draws in this process finds their own context current afterwards:
Gymnasium's viewer, for one, takes it for granted.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.metaworld.shadow_map import ShadowMap
from proctor.benchmarks.rendering import INSTALL_HINT, candidates
from proctor.errors import BenchmarkError, NoPicturesError

_MOST_GEOMS = 1000
"""In a scene, as in Gymnasium."""

_BACKENDS = ("egl", "osmesa", "glfw")
"""Modules of MuJoCo's, each with a kind of GL context."""


class _ShadowBuffer(NamedTuple):
    """What GL has of a shadow map: the names of its framebuffer and texture, and its size."""

    framebuffer: int
    texture: int
    size: int


_left: list[tuple[Any, _ShadowBuffer]] = []
"""GL contexts that no simulator uses now, each with its shadow map."""


class Drawing:
    """Draws one camera of a model.

    Args:
        model: what is drawn; its off-screen buffer has to hold every size that is asked for.
        data: the state in which it is drawn.
        camera: the name of the camera.
    """

    def __init__(self, model: Any, data: Any, camera: str) -> None:
        self._model, self._data = model, data
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = camera_number(model, camera)
        self._scene = mujoco.MjvScene(model, _MOST_GEOMS)
        self._options, self._perturbations = mujoco.MjvOption(), mujoco.MjvPerturb()
        size = model.vis.global_.offwidth, model.vis.global_.offheight
        with _neighbours():
            left = next((each for each in _left if each[1].size == model.vis.quality.shadowsize), None)
            if left is not None:
                _left.remove(left)
            self._gl, buffer = left or (_new_context(*size), None)
            self._gl.make_current()
            self._context = _drawing_context(model, buffer)
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
            self._shadows = ShadowMap(model, self._scene, self._context)
        self._read: NDArray[np.uint8] = np.empty((0, 0, 3), np.uint8)

    def rows(self, width: int, height: int) -> NDArray[np.uint8]:
        """Draw, and return the picture from its lowest row upwards; it holds until the next is drawn."""
        if self._read.shape[:2] != (height, width):
            self._read = np.empty((height, width, 3), np.uint8)
        view = mujoco.MjrRect(0, 0, width, height)
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(
            self._model, self._data, self._options, self._perturbations, self._camera, everything, self._scene
        )
        with _neighbours():
            self._gl.make_current()  # a neighbour in this process may have drawn meanwhile
            self._shadows.render(view)
            mujoco.mjr_readPixels(self._read, None, view, self._context)
        return self._read

    def close(self) -> None:
        """Free what belongs to this model, and leave the GL context to another simulator."""
        gl, self._gl = self._gl, None
        if gl is not None:
            with _neighbours():
                gl.make_current()
                self._shadows.close()
                context = self._context
                buffer = _ShadowBuffer(context.shadowFBO, context.shadowTex, context.shadowSize)
                context.shadowFBO = context.shadowTex = 0  # not freed with it
                context.free()
            _left.append((gl, buffer))

    def __del__(self) -> None:
        # Of a simulator that failed. MuJoCo frees its own in whatever GL context is current: not in a neighbour's.
        gl = getattr(self, "_gl", None)
        if gl is not None and not sys.is_finalizing():
            with _neighbours():
                gl.make_current()
                if hasattr(self, "_context"):
                    self._context.free()
            gl.free()  # afterwards: it may be the one that was current


def _drawing_context(model: Any, buffer: _ShadowBuffer | None) -> Any:
    """Return what MuJoCo needs to draw a model, with a shadow map of the same size that is there already."""
    quality = model.vis.quality
    size = quality.shadowsize
    if buffer is not None:
        quality.shadowsize = 0  # else MuJoCo makes another
    try:
        context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150)
    finally:
        quality.shadowsize = size
    if buffer is not None:
        context.shadowFBO, context.shadowTex, context.shadowSize = buffer
    return context


@contextlib.contextmanager
def _neighbours() -> Iterator[None]:
    """Make the GL context that is current now current again at the end, if there is one."""
    find = next((find for name, find in _CURRENT.items() if f"mujoco.{name}" in sys.modules), None)
    give_back = None if find is None else find()
    try:
        yield
    finally:
        if give_back is not None:
            give_back()


def _current_egl() -> Callable[[], Any] | None:
    from mujoco.egl import egl_ext as egl

    context = egl.eglGetCurrentContext()
    if not context:
        return None
    display = egl.eglGetCurrentDisplay()
    draw, read = egl.eglGetCurrentSurface(egl.EGL_DRAW), egl.eglGetCurrentSurface(egl.EGL_READ)
    return lambda: egl.eglMakeCurrent(display, draw, read, context)


def _current_osmesa() -> Callable[[], Any] | None:
    from OpenGL import GL, osmesa

    context = osmesa.OSMesaGetCurrentContext()
    if not context:
        return None
    width, height, _, buffer = osmesa.OSMesaGetColorBuffer(context)
    # MuJoCo's are of floats, and so are Gymnasium's, which are MuJoCo's.
    return lambda: osmesa.OSMesaMakeCurrent(context, buffer, GL.GL_FLOAT, width, height)


def _current_glfw() -> Callable[[], Any] | None:
    import glfw

    context = glfw.get_current_context()
    return (lambda: glfw.make_context_current(context)) if context else None


_CURRENT = {"egl": _current_egl, "osmesa": _current_osmesa, "glfw": _current_glfw}


def _new_context(width: int, height: int) -> Any:
    """Return a context of the GL that this process draws with now, which MuJoCo may have been imported before."""
    complaints = []
    for backend in candidates():
        if backend not in _BACKENDS:
            complaints.append(f"MUJOCO_GL={backend}")
            continue
        try:
            made = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
        except Exception as error:
            complaints.append(f"{backend}: {type(error).__name__}: {' '.join(str(error).split())}")
        else:
            _free_at_exit()
            return made
    raise NoPicturesError(f"no GL can draw here ({'; '.join(complaints)}). Run: {INSTALL_HINT}")


@functools.cache
def _free_at_exit() -> None:
    """Free what is left before MuJoCo ends GL: its own order to do so came with the first context."""
    atexit.register(lambda: [gl.free() for gl, _ in _left])


def camera_number(model: Any, name: str) -> int:
    """Return a camera's number in a model. Gymnasium would draw another view if there is none of this name."""
    number: int = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, name)
    if number < 0:
        names = ", ".join(model.camera(each).name for each in range(model.ncam))
        raise BenchmarkError(
            f"--env.camera_name={name}: the installed Meta-World has no such camera. It has {names}."
        )
    return number


def turned(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return rows that go upwards as a picture turned by half a circle: each row from its end.

    A colour at a time, which is five times as quick as a pixel at a time.
    """
    picture = np.empty_like(rows)
    for colour in range(3):
        picture[:, :, colour] = rows[:, ::-1, colour]
    return picture


def upright(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return rows that go upwards as a picture, which has its highest row first."""
    return rows[::-1].copy()
