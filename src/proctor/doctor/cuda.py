"""Whether torch was built with CUDA, read from its files: importing it would take seconds."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

_CUDA = re.compile(r"""^cuda\s*(?::[^=]+)?=\s*['"]([\d.]+)['"]""", re.MULTILINE)
_LABEL = re.compile(r"\+cu(\d+)(\d)$")


def cuda_of(version: str) -> str:
    """Return the CUDA version of the installed torch, or nothing if it has none."""
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin is not None:
        try:
            return cuda_in(Path(spec.origin).with_name("version.py").read_text())
        except OSError:
            pass  # the version's own label may tell
    label = _LABEL.search(version)
    return f"{label[1]}.{label[2]}" if label else ""


def cuda_in(text: str) -> str:
    """Return the CUDA version that the text of torch/version.py names.

    >>> cuda_in("cuda: Optional[str] = '12.6'"), cuda_in("cuda: Optional[str] = None")
    ('12.6', '')
    """
    match = _CUDA.search(text)
    return match[1] if match else ""
