"""The map of shadows behind a picture, drawn anew only where something that casts them has moved.

For every picture MuJoCo fills a map of 4096 by 4096 depths, as the light sees the scene. That is most of a
picture's time on a GPU, and all but a few hundredths of the map come to what they were in the picture before. So
MuJoCo draws as always, while GL keeps it from touching the rest: what has moved lies within the part that is drawn
anew, where it was and where it is now. The whole map holds what it would hold otherwise, bit for bit, and so does
the picture, whichever depths it looks up.

Whatever is not known to be so is drawn whole: a scene of other things than those before, a light that is not
directional, a MuJoCo whose source has not been read for this, a GL that draws a part differently (tried once in
every process).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import mujoco
import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.metaworld.environments import PROVED

_MARGIN = 4
"""Texels around a bound, for what is rounded on the way."""

_BORDER = 64
"""Texels around a part that are compared, too, where the way of drawing parts is tried."""

_BOUNDED = frozenset(
    int(getattr(mujoco.mjtGeom, f"mjGEOM_{shape}"))
    for shape in ("SPHERE", "CAPSULE", "ELLIPSOID", "CYLINDER", "BOX")
)
"""Shapes that lie within the sum of their sizes around their position."""

_PARALLEL, _UNSURE = 0.01, 1e-4
"""Below the first MuJoCo takes a light for one along the x-axis, and turns its map; near it, rounding decides."""

_GEOM = int(mujoco.mjtObj.mjOBJ_GEOM)
_MESH = int(mujoco.mjtGeom.mjGEOM_MESH)

_is_exact: dict[type[Any], bool] = {}
"""By the way in which parts are drawn: whether they were found to be what the whole is there, in this process."""


class Part(NamedTuple):
    """Texels of a map, from the left and the lowest up to the right and the highest without these."""

    left: int
    bottom: int
    right: int
    top: int


class Limit(Protocol):
    """Keeps GL from drawing into a map but for one part."""

    def to(self, part: Part) -> AbstractContextManager[None]:
        """Do so within a context."""

    def close(self) -> None:
        """Free what it has in GL."""


class _Casters(NamedTuple):
    """All that a map depends on, of one moment.

    Attributes:
        around: light, camera and options.
        kinds: type, data, object and category of each geom.
        size: sizes, positions and rotations, a row each.
    """

    around: tuple[Any, ...]
    kinds: tuple[tuple[int, ...], ...]
    size: NDArray[np.float32]
    position: NDArray[np.float32]
    rotation: NDArray[np.float32]


class ShadowMap:
    """The shadow map of one context of MuJoCo's, which nobody else may draw with. Its GL has to be current.

    Args:
        model: what is drawn; its meshes are those of the context.
        scene: which is drawn every time.
        context: MuJoCo's own.
    """

    def __init__(self, model: Any, scene: Any, context: Any) -> None:
        self._scene, self._context = scene, context
        self._geoms = scene.geoms  # these stand for what the scene will hold
        self._mesh_radius = _mesh_radii(model)
        self._drawn: _Casters | None = None

    @cached_property
    def _limit(self) -> Limit | None:
        """What keeps GL from drawing more than a part, as soon as there is one."""
        return _limit_for(self._context)

    def render(self, view: Any) -> None:
        """Draw the scene, as `mjr_render` does."""
        before, now = self._drawn, self._casters()
        self._drawn = None  # unknown, until it has been drawn
        part = None if before is None or now is None else self._moved(before, now)
        if part is None or self._limit is None:
            mujoco.mjr_render(view, self._scene, self._context)
        else:
            with self._limit.to(part):
                mujoco.mjr_render(view, self._scene, self._context)
            if type(self._limit) not in _is_exact:
                self._try(self._limit, part, view)
        self._drawn = now

    def close(self) -> None:
        """Free what is not MuJoCo's."""
        limit = self.__dict__.get("_limit")
        self._limit = None
        if limit is not None:
            limit.close()

    def _try(self, limit: Limit, part: Part, view: Any) -> None:
        """Draw the same again as a whole, and compare."""
        found = self._seen(part, view)
        mujoco.mjr_render(view, self._scene, self._context)
        _is_exact[type(limit)] = found == self._seen(part, view)
        if not _is_exact[type(limit)]:
            self.close()

    def _seen(self, part: Part, view: Any) -> tuple[bytes, bytes]:
        """Return the depths around a part, and the picture."""
        picture = np.empty((view.height, view.width, 3), np.uint8)
        mujoco.mjr_readPixels(picture, None, view, self._context)
        return depths(self._context, part, _BORDER), picture.tobytes()

    def _casters(self) -> _Casters | None:
        """Return what the map depends on; nothing if that is more than what is told apart here."""
        scene, context = self._scene, self._context
        casting = [light for light in scene.lights[: scene.nlight] if light.castshadow]
        if len(casting) != 1 or not _is_directional(casting[0]) or scene.nskin or scene.nflex or scene.stereo:
            return None
        (light,) = casting
        around = (
            light.pos.tobytes(),
            light.dir.tobytes(),
            *((camera.frustum_near, camera.frustum_far) for camera in scene.camera),
            scene.flags.tobytes(),
            scene.enabletransform,
            context.shadowClip,
            context.shadowSize,
        )
        geoms = self._geoms[: scene.ngeom]
        if not geoms:
            return None
        kinds = tuple((geom.type, geom.dataid, geom.objtype, geom.category) for geom in geoms)
        size, position, rotation = (
            np.stack([getattr(geom, name) for geom in geoms]).reshape(len(geoms), -1)
            for name in ("size", "pos", "mat")
        )
        return _Casters(around, kinds, size, position, rotation)

    def _moved(self, before: _Casters, now: _Casters) -> Part | None:
        """Return where something has moved; nothing if it may be anywhere, or if there is nothing."""
        if before.around != now.around or before.kinds != now.kinds:
            return None
        moved = np.zeros(len(now.kinds), bool)
        for old, new in zip(before[2:], now[2:], strict=True):
            moved |= (old != new).any(axis=1)
        if not moved.any():
            return None  # the same state in another size: not worth a way of its own
        centres = np.concatenate([before.position[moved], now.position[moved]]).astype(float)
        radii = np.concatenate([self._radii(one)[moved] for one in (before, now)])
        light = np.frombuffer(now.around[0], np.float32), np.frombuffer(now.around[1], np.float32)
        return _part(centres, radii, *light, self._context.shadowClip, self._context.shadowSize)

    def _radii(self, casters: _Casters) -> NDArray[np.float64]:
        """Return how far each geom reaches from its position."""
        sums = np.abs(casters.size).sum(axis=1, dtype=float).tolist()
        return np.array([self._radius(kind, total) for kind, total in zip(casters.kinds, sums, strict=True)])

    def _radius(self, kind: tuple[int, ...], sizes: float) -> float:
        shape, data, owner, _ = kind
        if shape in _BOUNDED:
            return sizes
        # Of a mesh, MuJoCo draws itself or its hull: these are numbered in turn.
        return self._mesh_radius[data // 2] if shape == _MESH and owner == _GEOM and data >= 0 else math.inf


def _mesh_radii(model: Any) -> list[float]:
    """Return how far each mesh reaches from its origin."""
    distance = np.sqrt((model.mesh_vert.astype(float) ** 2).sum(axis=1))
    begins, counts = model.mesh_vertadr.tolist(), model.mesh_vertnum.tolist()
    pieces = (distance[begin : begin + count] for begin, count in zip(begins, counts, strict=True))
    return [float(piece.max(initial=0.0)) for piece in pieces]


def _is_directional(light: Any) -> bool:
    kind = getattr(light, "type", None)  # newer than 3.3
    return bool(light.directional if kind is None else kind == mujoco.mjtLightType.mjLIGHT_DIRECTIONAL)


def _part(
    centres: NDArray[np.float64], radii: NDArray[np.float64], origin: Any, direction: Any, clip: float, size: int
) -> Part | None:
    """Return the texels in which a light sees what lies within these radii of these centres, as MuJoCo looks."""
    forward = direction.astype(float) / np.linalg.norm(direction)
    up = np.cross(direction, (-1.0, 0.0, 0.0)).astype(float)
    if abs(up @ up - _PARALLEL) < _UNSURE:
        return None
    if up @ up < _PARALLEL:
        up = np.cross(direction, (0.0, 1.0, 0.0)).astype(float)
    side = np.cross(forward, up / np.linalg.norm(up))
    side /= np.linalg.norm(side)
    seen = (centres - origin) @ np.stack([side, np.cross(side, forward)]).T
    ends = np.concatenate([(seen - radii[:, None]).min(axis=0), (seen + radii[:, None]).max(axis=0)])
    if not np.isfinite(ends).all():
        return None
    # MuJoCo leaves a texel at every edge of the map alone.
    texels = 1 + (ends / clip + 1) / 2 * (size - 2)
    low, high = np.floor(texels[:2]) - _MARGIN, np.ceil(texels[2:]) + _MARGIN
    left, bottom = np.clip(low, 0, size - 1).astype(int).tolist()
    right, top = np.clip(high, 1, size).astype(int).tolist()
    return Part(left, bottom, max(right, left + 1), max(top, bottom + 1))


def depths(context: Any, part: Part, border: int = 0) -> bytes:
    """Return what a context's shadow map holds in a part and around it."""
    from OpenGL import GL

    left, bottom = (max(0, low - border) for low in part[:2])
    right, top = (min(context.shadowSize, high + border) for high in part[2:])
    GL.glBindFramebuffer(GL.GL_FRAMEBUFFER, context.shadowFBO)
    found = GL.glReadPixels(left, bottom, right - left, top - bottom, GL.GL_DEPTH_COMPONENT, GL.GL_FLOAT)
    GL.glBindFramebuffer(GL.GL_FRAMEBUFFER, context.offFBO)
    return np.asarray(found).tobytes()


def _limit_for(context: Any) -> Limit | None:
    """Return what keeps this GL from drawing the whole map, where that can be relied on."""
    known = mujoco.__version__ in {pair.mujoco for pair in PROVED}
    if not known or not context.shadowFBO or os.environ.get("MUJOCO_GL") not in ("egl", "osmesa"):
        return None
    for kind in (WindowRectangles, SmallerFramebuffer):
        if kind.is_here():
            return kind(context) if _is_exact.get(kind, True) else None
    return None


class WindowRectangles:
    """A part with four edges, where GL has `GL_EXT_window_rectangles`: drivers of NVIDIA and of many GPUs.

    Args:
        context: whose map it is.
    """

    def __init__(self, context: Any) -> None:
        self._context = context

    @staticmethod
    def is_here() -> bool:
        """Whether this GL has them."""
        from OpenGL import GL

        return b"GL_EXT_window_rectangles" in GL.glGetString(GL.GL_EXTENSIONS).split()

    @contextmanager
    def to(self, part: Part) -> Iterator[None]:
        """Limit all that is drawn to the picture and the part."""
        from OpenGL.GL.EXT import window_rectangles as gl

        # The picture is drawn under the same limit, which must not reach into it.
        picture = (0, 0, self._context.offWidth, self._context.offHeight)
        own = (part.left, part.bottom, part.right - part.left, part.top - part.bottom)
        gl.glWindowRectanglesEXT(gl.GL_INCLUSIVE_EXT, 2, [*picture, *own])
        try:
            yield
        finally:
            gl.glWindowRectanglesEXT(gl.GL_EXCLUSIVE_EXT, 0, [])

    def close(self) -> None:
        """There is nothing to free."""


class SmallerFramebuffer:
    """A part with two edges, from the map's lowest left corner, where there is nothing better: in software.

    GL draws into a framebuffer no farther than its smallest attachment reaches. So beside the map there is another
    one, into which nothing is drawn.

    Args:
        context: whose map it is.
    """

    _STEP = 64
    """Of its width and height, so that it need not be made anew for every picture."""

    def __init__(self, context: Any) -> None:
        from OpenGL import GL

        self._gl, self._context, self._size = GL, context, (0, 0)
        self._framebuffer, self._beside = int(GL.glGenFramebuffers(1)), int(GL.glGenRenderbuffers(1))
        GL.glBindFramebuffer(GL.GL_FRAMEBUFFER, self._framebuffer)
        GL.glFramebufferTexture2D(
            GL.GL_FRAMEBUFFER, GL.GL_DEPTH_ATTACHMENT, GL.GL_TEXTURE_2D, context.shadowTex, 0
        )
        GL.glDrawBuffer(GL.GL_NONE)
        GL.glReadBuffer(GL.GL_NONE)
        GL.glBindFramebuffer(GL.GL_FRAMEBUFFER, context.offFBO)

    @staticmethod
    def is_here() -> bool:
        """Whether this GL has framebuffers with attachments of several sizes."""
        from OpenGL import GL

        return bool(GL.glGenFramebuffers)  # of GL 3.0

    @contextmanager
    def to(self, part: Part) -> Iterator[None]:
        """Have MuJoCo draw the map through this framebuffer."""
        self._reach(*(min(-(-end // self._STEP) * self._STEP, self._context.shadowSize) for end in part[2:]))
        whole, self._context.shadowFBO = self._context.shadowFBO, self._framebuffer
        try:
            yield
        finally:
            self._context.shadowFBO = whole

    def _reach(self, width: int, height: int) -> None:
        if self._size == (width, height):
            return
        gl = self._gl
        gl.glBindRenderbuffer(gl.GL_RENDERBUFFER, self._beside)
        gl.glRenderbufferStorage(gl.GL_RENDERBUFFER, gl.GL_R8, width, height)
        gl.glBindFramebuffer(gl.GL_FRAMEBUFFER, self._framebuffer)
        gl.glFramebufferRenderbuffer(gl.GL_FRAMEBUFFER, gl.GL_COLOR_ATTACHMENT0, gl.GL_RENDERBUFFER, self._beside)
        gl.glBindFramebuffer(gl.GL_FRAMEBUFFER, self._context.offFBO)
        self._size = (width, height)

    def close(self) -> None:
        """Free both."""
        self._gl.glDeleteFramebuffers(1, [self._framebuffer])
        self._gl.glDeleteRenderbuffers(1, [self._beside])
