"""When a run may end before its plan does: `--eval.stop_when` and `--eval.until_better_than`."""

from __future__ import annotations

import re

from proctor.config.settings import Settings
from proctor.errors import UsageError

OFF = ("", "none")
_PRECISION = re.compile(r"ci\s*<=?\s*(\d*\.?\d+)\s*(%?)")


def wanted_precision(settings: Settings) -> float | None:
    """Return the half-width of the interval at which a run may end, as a share; `None`: it runs its whole plan."""
    text = settings.eval.stop_when.strip().lower()
    if text in OFF:
        return None
    match = _PRECISION.fullmatch(text)
    bound = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < bound < 0.5:
        raise UsageError(
            f'--eval.stop_when={settings.eval.stop_when}: must be "ci<=X" with half the width of the interval, '
            'for example "ci<=0.05" for plus or minus 5 points; none: run the whole plan.'
        )
    return bound


def rival(settings: Settings) -> str | None:
    """Return the run directory of the run that is to be beaten, if there is one."""
    name = settings.eval.until_better_than
    return None if name.lower() in OFF else name


def check_stopping(settings: Settings) -> None:
    """Refuse a rule that is none, and rules where nobody sees the whole plan."""
    if wanted_precision(settings) is None and rival(settings) is None:
        return
    if settings.eval.num_shards > 1:
        raise UsageError(
            "--eval.stop_when and --eval.until_better_than follow the plan from its start, which no shard sees. "
            "Use proctor parallel, which sees it, or leave out --eval.num_shards."
        )
