"""Simulators that draw in one process, each in a GL context of its own.

A simulator that makes its context current once, when it is built, draws into its neighbour's from then on as soon
as that one is built too: Meta-World does, and shows the wrong task's textures. So whoever calls a simulator gives
it a turn: what was current when it was left is current again, and what the caller had is put back afterwards.
That also lets a simulator move from one thread to another between turns.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any


class Turn:
    """One simulator's turns; a context manager around every call of it, its building and its closing included."""

    def __init__(self) -> None:
        self._own: Any = None
        self._callers: Any = None
        self._depth = 0

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._callers = _current()
            _make_current(self._own, instead_of=self._callers)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._own = _current()
            _make_current(self._callers, instead_of=self._own)


def _backend() -> str:
    return os.environ.get("MUJOCO_GL", "").strip().lower()


def _current() -> Any:
    """Return what `_make_current` takes to make this thread's context current again; `None` if there is none."""
    match _backend():
        case "egl" if "OpenGL.EGL" in sys.modules:
            egl = sys.modules["OpenGL.EGL"]
            egl.eglBindAPI(egl.EGL_OPENGL_API)  # freeing a context falls back to another
            context = egl.eglGetCurrentContext()
            if not context:
                return None
            surfaces = (egl.eglGetCurrentSurface(egl.EGL_DRAW), egl.eglGetCurrentSurface(egl.EGL_READ))
            return (egl.eglGetCurrentDisplay(), *surfaces, context)
        case "osmesa" if "OpenGL.osmesa" in sys.modules:
            mesa = sys.modules["OpenGL.osmesa"]
            context = mesa.OSMesaGetCurrentContext()
            if not context:
                return None
            width, height, _, buffer = mesa.OSMesaGetColorBuffer(context)
            return (context, buffer, mesa.OSMesaGetIntegerv(mesa.OSMESA_TYPE), width, height)
        case "glfw" if "glfw" in sys.modules:
            return sys.modules["glfw"].get_current_context() or None
    return None


def _make_current(state: Any, instead_of: Any) -> None:
    if state is None and instead_of is None:
        return
    match _backend():
        case "egl":
            egl = sys.modules["OpenGL.EGL"]
            if state is None:
                none = (egl.EGL_NO_SURFACE, egl.EGL_NO_SURFACE, egl.EGL_NO_CONTEXT)
                egl.eglMakeCurrent(instead_of[0], *none)
            else:
                egl.eglMakeCurrent(*state)
        case "osmesa":
            sys.modules["OpenGL.osmesa"].OSMesaMakeCurrent(*(state or (None, None, 0, 0, 0)))
        case "glfw":
            sys.modules["glfw"].make_context_current(state)
