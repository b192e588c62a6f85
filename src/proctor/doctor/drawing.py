"""Drawing: a frame with each GL backend that Proctor would try, and which of them it would use."""

from __future__ import annotations

from collections.abc import Sequence

from proctor.benchmarks.rendering import BACKENDS, FRAME_SIDE, INSTALL_HINT, BackendTrial, candidates, try_backend
from proctor.doctor.findings import Finding

SECTION = "drawing"


def look_at_drawing(mujoco: Finding) -> list[Finding]:
    """Return whether pictures can be drawn, and a finding per backend.

    Args:
        mujoco: what was found about MuJoCo, which draws.
    """
    if mujoco.in_the_way:
        return [Finding(SECTION, "pictures", "broken", "not tried: needs mujoco", mujoco.remedy, needed=True)]
    return judge([try_backend(backend) for backend in candidates()])


def judge(trials: Sequence[BackendTrial]) -> list[Finding]:
    """Say what trials mean, in the order in which Proctor prefers them."""
    used = next((trial for trial in trials if not trial.complaint), None)
    return [_pictures(trials, used), *(_backend(trial, used) for trial in trials)]


def _pictures(trials: Sequence[BackendTrial], used: BackendTrial | None) -> Finding:
    if used is not None:
        text = f"Proctor uses {used.backend}; times are for {FRAME_SIDE}×{FRAME_SIDE} pixels"
        return Finding(SECTION, "pictures", "ok", text, needed=True)
    chosen = len(trials) == 1
    # What is missing can be installed for EGL; any other choice is better not made.
    remedy = "unset MUJOCO_GL" if chosen and trials[0].backend != BACKENDS[0] else INSTALL_HINT
    text = f"nothing can draw; MUJOCO_GL={trials[0].backend} allows no other" if chosen else "no GL can draw here"
    return Finding(SECTION, "pictures", "broken", text, remedy, needed=True)


def _backend(trial: BackendTrial, used: BackendTrial | None) -> Finding:
    if trial.complaint:
        if used is not None:
            return Finding(SECTION, trial.backend, "absent", f"cannot draw here; not needed beside {used.backend}")
        return Finding(SECTION, trial.backend, "broken", trial.complaint)
    kind = "software" if trial.software else "GPU"
    text = f"{trial.name}, {kind}, {trial.milliseconds:.1f} ms"
    return Finding(SECTION, trial.backend, "ok", text)
