"""What slows the imports of LeRobot down and yields nothing: four thousand modules, a third of the time for these.

The garbage collector goes through all that has been imported, again and again, and finds nothing to free. And each
of several packages goes through every file of every installed package, to learn which module is of which.
"""

from __future__ import annotations

import gc
import importlib.metadata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

_FROZEN_ANYHOW = 10_000
"""More objects than an interpreter freezes at its own start."""


@contextmanager
def quick_imports() -> Iterator[None]:
    """Pause the one, and do the other once."""
    collected, distributions = gc.isenabled(), importlib.metadata.packages_distributions
    found = cache(distributions)

    def packages_distributions() -> Mapping[str, list[str]]:
        return {name: list(packages) for name, packages in found().items()}  # whoever asks may change it

    gc.disable()
    importlib.metadata.packages_distributions = packages_distributions
    try:
        yield
    finally:
        importlib.metadata.packages_distributions = distributions
        if collected:
            _take_for_old()
            gc.enable()


def _take_for_old() -> None:
    """Have the collector take all that there is for old, as if it had gone through it twice: half a second."""
    if gc.get_freeze_count() < _FROZEN_ANYHOW:  # what others have frozen stays so
        gc.freeze()
        gc.unfreeze()
