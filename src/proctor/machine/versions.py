"""What decides the bits of a computation on this machine besides the code: versions, processor, environment."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from proctor import __version__

HASH_SEED = "0"
"""Python's hash seed in every child: the order of a set of strings must not differ from run to run."""

_LIBRARIES = (
    "NPY_", "NUMPY_", "OPENBLAS_", "GOTO_", "BLIS_", "MKL_", "OMP_", "GOMP_", "KMP_", "VECLIB_", "NUMEXPR_",
    "DNNL_", "ONEDNN_", "ATEN_", "TORCH_", "PYTORCH_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_TF32_", "HIP_", "ROC",
    "MIOPEN_", "XLA_", "JAX_", "MUJOCO_", "MESA_", "GALLIUM_", "LIBGL_", "LP_", "__GL", "GLIBC_TUNABLES",
    "LD_PRELOAD", "TF_AUTO_", "TF_CUDNN_", "TF_DETERMINISTIC_", "TF_DISABLE_", "TF_ENABLE_", "TF_FORCE_",
    "TF_FP16_", "TF_GPU_", "TF_NUM_", "TF_OVERRIDE_", "TF_USE_", "TF_XLA_",
)  # fmt: skip
"""How the environment variables begin by which maths and graphics libraries choose how they compute.

TensorFlow's are named further than by `TF_`, which Terraform's begin with too, and its tokens.
"""

_HARMLESS = {
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_HOME", "CUDA_PATH", "CUDA_CACHE_PATH", "MUJOCO_GL",
    "MUJOCO_EGL_DEVICE_ID", "TORCH_HOME", "MESA_SHADER_CACHE_DIR", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT",
}  # fmt: skip
"""Of those, the ones that say where a thing lies or is done, or how threads wait: the GPU's kind and the renderer
are known anyway."""


def interpreter_versions() -> dict[str, str]:
    """Return the versions of what any computation in this interpreter goes through."""
    return {
        "proctor": __version__,
        "python": platform.python_version(),
        "libc": "".join(platform.libc_ver()),
        **installed_versions(["numpy"]),
    }


def installed_versions(distributions: Iterable[str]) -> dict[str, str]:
    """Return the versions of the given distributions, without importing any of them."""
    versions = {}
    for name in distributions:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    return versions


def cpu_kind(cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, str]:
    """Return the processor's architecture, model and features: maths libraries choose their kernels by them."""
    lines = [line.partition(":") for line in _read(cpuinfo).split("\n\n")[0].splitlines()]
    told = {name.strip(): value.strip() for name, _, value in lines}
    # ARM has no model's name; its numbers say which design it is.
    arm = " ".join(
        told[name] for name in ("CPU implementer", "CPU part", "CPU variant", "CPU revision") if name in told
    )
    features = told.get("flags") or told.get("Features") or ""
    return {
        "cpu": " ".join(filter(None, (platform.machine(), told.get("model name") or arm))),
        "cpu_features": " ".join(sorted(features.split())),
    }


def numeric_environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables that may change how libraries compute.

    The numbers of threads are not among them: every child has its own set.
    """
    variables = os.environ if variables is None else variables
    return {
        name: value
        for name, value in sorted(variables.items())
        if name.startswith(_LIBRARIES) and name not in _HARMLESS and not name.endswith("_NUM_THREADS")
    }


def own_hash_seed() -> str:
    """Return the hash seed of this very process, for what runs in it."""
    seed = os.environ.get("PYTHONHASHSEED", "")
    return seed if seed.isdecimal() else "random"


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
