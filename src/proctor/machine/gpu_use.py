"""How busy the GPUs are while something runs, looked at every few seconds with the driver's own tool."""

from __future__ import annotations

import statistics
import threading
from collections import defaultdict
from types import TracebackType

from proctor.machine.gpus import GpuLoad, gpu_loads

PERIOD = 5.0
"""Seconds between two looks: the tool takes a few hundredths of a core's second each time."""


class GpuWatch:
    """Looks at the GPUs from its entry on, in a thread of its own, if it is to; without a driver it sees none."""

    def __init__(self, wanted: bool, period: float = PERIOD) -> None:
        self._wanted, self._period = wanted, period
        self._seen: dict[tuple[int, str], list[GpuLoad]] = defaultdict(list)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True, name="gpu-watch")

    def __enter__(self) -> GpuWatch:
        if self._wanted:
            try:
                self._thread.start()
            except RuntimeError:  # there is no room for a thread; a run can do without this one
                self._wanted = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> list[str]:
        """Look no more; return a line per GPU that was seen."""
        self._over.set()
        if self._wanted:
            self._thread.join()
        return [_described(number, name, loads) for (number, name), loads in sorted(self._seen.items())]

    def _look(self) -> None:
        while not self._over.wait(self._period):
            try:
                loads = gpu_loads()
            except ValueError:  # the tool speaks otherwise than any that is known
                return
            if not loads:
                return  # there is no driver, or it does not tell
            for load in loads:
                self._seen[load.number, load.name].append(load)


def _described(number: int, name: str, loads: list[GpuLoad]) -> str:
    busy = statistics.fmean(load.busy for load in loads)
    used = max(load.used for load in loads)
    looks = f"{len(loads)} looks" if len(loads) > 1 else "one look"
    return f"GPU {number} ({name}) was {busy:.0f} % busy, with at most {used / 2**30:.1f} GiB in use ({looks})"
