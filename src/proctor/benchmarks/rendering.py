"""Who draws: the one seam between simulators and what makes their pictures.

A simulator takes every picture from its `Cameras`; the processes around it choose which GL is behind them. Which
GL works is tried for real, in a process of its own, before the first simulator starts. `MUJOCO_GL` has to be set
before MuJoCo's first import, and a GL library must not be loaded into the coordinator; so the trial runs as
`python -m proctor.benchmarks.rendering`. It draws a frame, because there are contexts that open and have no
renderer, and answers with the renderer's name.
"""

from __future__ import annotations

import os
import sys
import time
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from proctor.errors import NoPicturesError
from proctor.machine.processes import ask_module, reply

if TYPE_CHECKING:  # the doctor tries a GL where NumPy may be broken
    import numpy as np
    from numpy.typing import NDArray

    from proctor.benchmarks.protocol import Benchmark
    from proctor.types import BenchmarkSpec, Look

BACKENDS = ("egl", "osmesa")
INSTALL_HINT = "apt-get install -y libegl1 libegl-mesa0 libgl1-mesa-dri libopengl0"
FRAME_SIDE = 64
"""Width and height of the frame that a trial draws, in pixels."""

_SOFTWARE = ("llvmpipe", "softpipe", "swrast", "software rasterizer")
_TRIAL_SECONDS = 120
_SCENE = """<mujoco><worldbody><light pos="0 0 3"/><geom type="box" size=".3 .3 .3"/></worldbody></mujoco>"""

RenderDevice = Literal["auto", "gpu", "cpu"]
"""What is to draw; auto: whatever draws first."""


NO_GL = {"MUJOCO_GL": "disable"}
"""The environment of a process that draws nothing: MuJoCo then loads no GL, working or broken."""


class Cameras(Protocol):
    """What draws a simulator's pictures, and the only thing that does.

    It hears beforehand what will be looked at. So behind it may stand the simulator's own GL context, as it does
    in every benchmark here, or a process that draws for several.
    """

    def expect(self, look: Look) -> None:
        """Hear, before every reset and step, which observation keys will be asked for after it."""

    def picture(self, key: str) -> NDArray[np.uint8]:
        """Return what the policy sees under a key that was expected."""

    def frame(self) -> NDArray[np.uint8]:
        """Return the present state for people and videos; what was drawn already is not drawn again."""


class Renderer(NamedTuple):
    """A GL backend that was tried: what it calls itself and the time a frame took, or what it complains of."""

    backend: str
    name: str = ""
    milliseconds: float = 0.0
    complaint: str = ""

    @property
    def env(self) -> dict[str, str]:
        """The environment variables that make a process draw with it.

        `LP_NUM_THREADS=0` keeps the software rasteriser on the worker's own core, so that workers scale.
        """
        env = {"MUJOCO_GL": self.backend, "LP_NUM_THREADS": os.environ.get("LP_NUM_THREADS", "0")}
        return env if self.backend == "glfw" else {**env, "PYOPENGL_PLATFORM": self.backend}

    @property
    def software(self) -> bool:
        """Whether the processor draws, and no GPU."""
        return any(word in self.name.lower() for word in _SOFTWARE)


def candidates() -> tuple[str, ...]:
    """Return the backends to try, the first that works wins; `MUJOCO_GL` in the environment leaves one."""
    chosen = os.environ.get("MUJOCO_GL")
    return (chosen,) if chosen else BACKENDS


def find_renderer(python: str | None = None, device: RenderDevice = "auto") -> Renderer:
    """Return the first backend that works, on that device; `MUJOCO_GL` in the environment decides if it is set.

    Raises:
        NoPicturesError: none works; the message has the command that mends it.
    """
    complaints = []
    for backend in candidates():
        tried = try_backend(backend, python)
        if not tried.complaint and (device == "auto" or tried.software == (device == "cpu")):
            return tried
        complaints.append(f"{backend}: {tried.complaint or tried.name}")
    if device != "auto":
        raise NoPicturesError(
            f"--render-device={device}: nothing draws on the {device.upper()} here ({'; '.join(complaints)}). "
            "Use --render-device=auto to draw with what there is."
        )
    chosen = os.environ.get("MUJOCO_GL")
    hint = f"Unset MUJOCO_GL={chosen}, or run: " if chosen else "Run: "
    raise NoPicturesError(f"no GL can draw here ({'; '.join(complaints)}). {hint}{INSTALL_HINT}")


def try_backend(backend: str, python: str | None = None) -> Renderer:
    """Draw a frame with a backend, in a process of its own."""
    answer = ask_module(
        "proctor.benchmarks.rendering",
        python=python,
        variables=Renderer(backend).env,
        seconds=_TRIAL_SECONDS,
    )
    if answer.late:
        return Renderer(backend, complaint=f"no answer within {_TRIAL_SECONDS} s")
    if answer.reply is not None:
        return Renderer(backend, *answer.reply)
    return Renderer(backend, complaint="ended without an answer" if answer.may_be_well else answer.last_words)


def main() -> None:
    """Draw a frame with the backend that the environment names; print the renderer's name and milliseconds."""
    try:
        answer = _draw_a_frame()
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(1)  # a half-made context complains again when it is collected
    reply(answer)


def _draw_a_frame() -> tuple[str, float]:
    import mujoco

    model = mujoco.MjModel.from_xml_string(_SCENE)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    renderer = mujoco.Renderer(model, FRAME_SIDE, FRAME_SIDE)
    renderer.update_scene(data)
    renderer.render()  # the first frame compiles the driver's shaders; the second is like all others
    start = time.perf_counter()
    renderer.update_scene(data)
    picture = renderer.render()
    milliseconds = 1000 * (time.perf_counter() - start)
    if (picture == picture[0, 0]).all():
        raise RuntimeError("the frame that was drawn is of one single colour")
    from OpenGL import GL

    name = GL.glGetString(GL.GL_RENDERER)
    return (name.decode() if isinstance(name, bytes) else str(name)), milliseconds


def gl_variables(benchmark: Benchmark, spec: BenchmarkSpec) -> dict[str, str]:
    """Return the environment variables that let a process draw this benchmark.

    Raises:
        NoPicturesError: it shows pictures, and no GL works here.
    """
    if not benchmark.uses_gl:
        return {}
    try:
        return _renderer(os.environ.get("MUJOCO_GL")).env
    except NoPicturesError:
        if any(feature.drawn for feature in spec.features.values()):
            raise
        return NO_GL  # only render() will miss it


@lru_cache(maxsize=4)
def _renderer(_chosen: str | None) -> Renderer:
    return find_renderer()


def choose_gl_here(benchmark: Benchmark, spec: BenchmarkSpec) -> None:
    """Let this process draw the benchmark, unless its owner has chosen already."""
    if benchmark.uses_gl and not os.environ.get("MUJOCO_GL"):
        for name, value in gl_variables(benchmark, spec).items():
            os.environ.setdefault(name, value)


class GlContext:
    """One simulator's GL context, where several draw in one process: current around every call of that simulator.

    A simulator that makes its context current once, when it is built, draws into its neighbour's from then on as
    soon as that one is built too: Meta-World does, and shows the wrong task's textures. So whoever calls a
    simulator, its building and its closing included, enters this: what was current when it was left is current
    again, and what the caller had is put back afterwards. That also lets a simulator move from one thread to
    another between calls.
    """

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


def is_picture(frame: Any) -> bool:
    """Whether something is a picture: uint8, height by width, by 1 to 4 channels where they are told apart."""
    import numpy as np

    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or 0 in frame.shape:
        return False
    return frame.ndim == 2 or (frame.ndim == 3 and frame.shape[2] <= 4)


def as_rgb(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a picture in colour: grey ones have three equal channels, and transparency is left out."""
    if picture.ndim == 2:
        picture = picture[..., None]
    coloured = picture[..., :3] if picture.shape[2] > 2 else picture[..., :1]
    import numpy as np

    return np.broadcast_to(coloured, (*picture.shape[:2], 3))


if __name__ == "__main__":
    main()
