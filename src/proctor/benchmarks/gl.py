"""Which GL draws: tried for real, in a process of its own, before the first simulator starts.

`MUJOCO_GL` has to be set before MuJoCo's first import, and a GL library must not be loaded into the
coordinator; so the trial runs as `python -m proctor.benchmarks.gl` and prints the renderer's name.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Literal, NamedTuple

from proctor.config.interpreter import package_environment
from proctor.errors import NoPicturesError

BACKENDS = ("egl", "osmesa")
INSTALL_HINT = "apt-get install -y libegl1 libegl-mesa0 libgl1-mesa-dri libopengl0"
_TRIAL_SECONDS = 120
_SOFTWARE = ("llvmpipe", "softpipe", "swrast", "software rasterizer")

RenderDevice = Literal["auto", "gpu", "cpu"]
"""What is to draw; auto: whatever draws first."""


NO_GL = {"MUJOCO_GL": "disable"}
"""The environment of a process that draws nothing: MuJoCo then loads no GL, working or broken."""


class Renderer(NamedTuple):
    """A GL backend that works, and what it calls itself."""

    backend: str
    name: str

    @property
    def env(self) -> dict[str, str]:
        """The environment variables that make a process draw with it."""
        return gl_environment(self.backend)

    @property
    def software(self) -> bool:
        """Whether the processor draws, and no GPU."""
        return any(word in self.name.lower() for word in _SOFTWARE)


def gl_environment(backend: str) -> dict[str, str]:
    """Return the environment that selects a backend.

    `LP_NUM_THREADS=0` keeps the software rasteriser on the worker's own core, so that workers scale.
    """
    env = {"MUJOCO_GL": backend, "LP_NUM_THREADS": os.environ.get("LP_NUM_THREADS", "0")}
    return env if backend == "glfw" else {**env, "PYOPENGL_PLATFORM": backend}


def find_renderer(python: str | None = None, device: RenderDevice = "auto") -> Renderer:
    """Return the first backend that works, on that device; `MUJOCO_GL` in the environment decides if it is set.

    Raises:
        NoPicturesError: none works; the message has the command that mends it.
    """
    chosen = os.environ.get("MUJOCO_GL")
    complaints = []
    for backend in (chosen,) if chosen else BACKENDS:
        trial = _try(backend, python or sys.executable)
        if trial.returncode == 0:
            renderer = Renderer(backend, trial.stdout.strip())
            if device == "auto" or renderer.software == (device == "cpu"):
                return renderer
            complaints.append(f"{backend}: {renderer.name}")
            continue
        lines = trial.stderr.strip().splitlines()
        complaints.append(f"{backend}: {lines[-1] if lines else f'status {trial.returncode}'}")
    if device != "auto":
        raise NoPicturesError(
            f"--render-device={device}: nothing draws on the {device.upper()} here ({'; '.join(complaints)}). "
            "Use --render-device=auto to draw with what there is."
        )
    hint = f"Unset MUJOCO_GL={chosen}, or run: " if chosen else "Run: "
    raise NoPicturesError(f"no GL can draw here ({'; '.join(complaints)}). {hint}{INSTALL_HINT}")


def _try(backend: str, python: str) -> subprocess.CompletedProcess[str]:
    command = [python, "-P", "-m", "proctor.benchmarks.gl"]
    env = {**os.environ, **package_environment(), **gl_environment(backend)}
    try:
        return subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=_TRIAL_SECONDS, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer within {_TRIAL_SECONDS} s")


def main() -> None:
    """Open a context with the backend that the environment names, and print the renderer's name."""
    try:
        import mujoco

        context = mujoco.GLContext(16, 16)
        context.make_current()
        from OpenGL import GL

        name = GL.glGetString(GL.GL_RENDERER)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(1)  # a half-made context complains again when it is collected
    print(name.decode() if isinstance(name, bytes) else name, flush=True)  # noqa: T201 - the answer to our parent
    os._exit(0)  # some drivers crash in their own tear-down, after all is said


if __name__ == "__main__":
    main()
