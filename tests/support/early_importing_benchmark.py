"""A benchmark that imports its simulator with itself, and not in the worker that needs it."""

from __future__ import annotations

import mujoco

from sound_benchmark import Sound


class ImportsTooEarly(Sound):
    version = mujoco.__version__
