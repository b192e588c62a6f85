"""Errors that say the same, told once: which they are, how many episodes and tasks have them, and the first."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from proctor.report.console import count
from proctor.store.schema import EpisodeRecord

_VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+")
"""What differs in messages of one cause: addresses, steps, process ids."""


@dataclass
class ErrorGroup:
    """Episodes whose errors say the same but for numbers."""

    first: EpisodeRecord
    episodes: int = 0
    tasks: set[tuple[str, int]] = field(default_factory=set)

    def __str__(self) -> str:
        where = f"{self.first.task} episode {self.first.episode_index}"
        if self.episodes == 1:
            return f"{where}: {self.first.error}"
        whose = f" of {count(len(self.tasks), 'task')}" if len(self.tasks) > 1 else f" of {self.first.task}"
        return f"{self.episodes} episodes{whose}: {self.first.error} (first: {where})"


def error_groups(records: Iterable[EpisodeRecord]) -> list[ErrorGroup]:
    """Return the errors among some records by what they say, the most frequent first."""
    groups: dict[str, ErrorGroup] = {}
    for record in records:
        if record.status == "error":
            group = groups.setdefault(_VARYING.sub("#", record.error or ""), ErrorGroup(record))
            group.episodes += 1
            group.tasks.add(record.key[:2])
    return sorted(groups.values(), key=lambda group: -group.episodes)
