"""A handle on a worker: what is left if that cannot be started."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from proctor.engine import worker_handle
from proctor.engine.eventfd import EventFd
from proctor.engine.host_handle import Host
from proctor.engine.transport import Slot
from proctor.engine.worker_handle import WorkerHandle, WorkerRecipe


class Attached:
    """A host that only notes whom it serves."""

    generation = 0

    def __init__(self) -> None:
        self.bell = EventFd()
        self.slots: dict[int, Slot] = {}

    def attach(self, number: int, slot: Slot) -> None:
        self.slots[number] = slot

    def detach(self, number: int) -> None:
        del self.slots[number]


def test_a_worker_that_cannot_be_started_leaves_nothing_with_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Slot] = []
    host: Any = Attached()

    def no_room(*arguments: Any, **options: Any) -> None:
        given.extend(host.slots.values())
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(worker_handle, "ChannelChild", no_room)
    recipe = WorkerRecipe(
        benchmark="tiny", env={}, spec={}, policy_spec={}, benchmark_identity={}, policy_identity={},
        logs=tmp_path, environment={},
    )  # fmt: skip
    serving: Host = host
    with pytest.raises(OSError, match="Too many open files"):
        WorkerHandle(0, recipe, serving)
    assert given
    assert host.slots == {}
    assert given[0].bell.fileno() == -1  # freed here and now, whoever still knows the slot
    host.bell.close()
