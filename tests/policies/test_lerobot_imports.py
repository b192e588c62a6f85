"""While LeRobot is imported nothing is collected and packages are listed once; afterwards all is as before."""

from __future__ import annotations

import gc
import importlib.metadata
import weakref
from typing import Any

import pytest

from proctor.policies.lerobot.imports import quick_imports


def test_the_packages_are_those_that_are_installed_and_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    original = importlib.metadata.packages_distributions
    expected, asked = original(), []

    def counted() -> Any:
        asked.append(True)
        return original()

    monkeypatch.setattr(importlib.metadata, "packages_distributions", counted)
    with quick_imports():
        assert not asked
        first: Any = importlib.metadata.packages_distributions()
        assert first == expected
        first["pytest"].append("mine")
        del first["numpy"]
        assert importlib.metadata.packages_distributions() == expected
    assert asked == [True]


def fail() -> None:
    with quick_imports():
        assert not gc.isenabled()
        raise ImportError


@pytest.mark.parametrize("collected", [True, False])
def test_afterwards_all_is_as_before_whatever_happened(collected: bool) -> None:
    before = importlib.metadata.packages_distributions
    (gc.enable if collected else gc.disable)()
    try:
        with pytest.raises(ImportError):
            fail()
        assert gc.isenabled() == collected
        assert importlib.metadata.packages_distributions is before
    finally:
        gc.enable()


class _Module:
    """Refers to itself, as modules do."""

    def __init__(self) -> None:
        self.itself = self


def test_what_was_imported_is_old_at_once_and_can_be_collected() -> None:
    with quick_imports():
        module = _Module()
    assert any(one is module for one in gc.get_objects(generation=2))
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None


def test_what_somebody_has_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        assert frozen > 10_000
        with quick_imports():
            module = _Module()
        assert gc.get_freeze_count() == frozen
        assert not any(one is module for one in gc.get_objects(generation=2))
    finally:
        gc.unfreeze()
