"""How another Python process finds this very package."""

from __future__ import annotations

import os
from pathlib import Path


def package_environment() -> dict[str, str]:
    """Return the PYTHONPATH a child needs when Proctor runs from a source tree instead of an installation."""
    root = str(Path(__file__).parents[2])
    if Path(root).name in ("site-packages", "dist-packages"):
        return {}
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
