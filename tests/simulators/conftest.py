"""Simulators that need packages of their own; without them their tests are not collected (`make test-pusht`)."""

from __future__ import annotations

import importlib.util
import os

collect_ignore = [
    f"test_{name}.py" for name in ("pusht", "aloha") if importlib.util.find_spec(f"gym_{name}") is None
]

if importlib.util.find_spec("gym_aloha") is not None:
    # Before MuJoCo's first import in this process.
    from proctor.benchmarks.rendering import find_renderer

    os.environ.update(find_renderer().env)
