"""The GPUs. Proctor's main job needs none."""

from __future__ import annotations

import os
import shutil

from proctor.doctor.findings import Finding
from proctor.machine.gpus import visible_gpus

SECTION = "GPU"


def look_at_gpus() -> list[Finding]:
    """Return a finding per GPU that CUDA would see, or one that says why there is none."""
    gpus = visible_gpus()
    if gpus:
        return [
            Finding(
                SECTION,
                f"cuda:{number}",
                "ok",
                f"{gpu.name}, {(gpu.memory - gpu.used) / 2**30:.1f} of {gpu.memory / 2**30:.1f} GiB free",
            )
            for number, gpu in enumerate(gpus)
        ]
    if shutil.which("nvidia-smi") is None:
        return [Finding(SECTION, "none", "absent", "not needed")]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        text = f"CUDA_VISIBLE_DEVICES={visible} leaves none"
        return [Finding(SECTION, "none", "note", text, "unset CUDA_VISIBLE_DEVICES")]
    return [Finding(SECTION, "none", "note", "nvidia-smi is there and tells of none", "nvidia-smi")]
