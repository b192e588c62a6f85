"""Players, seen from outside: started, given their programmes, watched, and ended."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proctor.config.plain_values import to_plain
from proctor.conformance.leaks import Holdings
from proctor.conformance.player import PlayerBoot
from proctor.conformance.schedule import Play, Programme
from proctor.conformance.self_report import SelfReport
from proctor.conformance.trace import Trace
from proctor.engine.messages import Channel, ChannelClosed, Message
from proctor.engine.process import ChannelChild, wait_readable
from proctor.errors import UsageError
from proctor.machine.processes import describe_exit

_LONGEST_ORDER = 300.0
"""Seconds after which a player that does not answer counts as hung."""


@dataclass(frozen=True)
class PlayerRecipe:
    """All that is needed to start a player."""

    boot: PlayerBoot
    logs: Path
    environment: Mapping[str, str]
    python: str | None = None


@dataclass
class PlayerReports:
    """What all players together saw; traces by task number and play name."""

    self_reports: list[SelfReport] = field(default_factory=list)
    unable: str = ""
    traces: dict[tuple[int, str], Trace] = field(default_factory=dict)
    holdings: list[Holdings] = field(default_factory=list)
    leak_error: str = ""


def perform(
    programmes: Sequence[Programme], recipe: PlayerRecipe, at_once: int, tell: Callable[[str], None]
) -> PlayerReports:
    """Run every programme in a process of its own, some of them side by side.

    Args:
        programmes: what is played.
        recipe: how a player starts.
        at_once: how many players there may be at a time.
        tell: who is told how far it has come.

    Raises:
        UsageError: the benchmark cannot be used here, and says why.
    """
    reports = PlayerReports()
    waiting, busy = deque(enumerate(programmes)), list[_PlayerHandle]()
    total = sum(max(1, len(programme.plays)) for programme in programmes)
    try:
        while waiting or busy:
            while waiting and len(busy) < at_once:
                number, programme = waiting.popleft()
                busy.append(_PlayerHandle(programme, recipe, number, reports))
            left = total - len(reports.traces) - bool(reports.holdings or reports.leak_error)
            tell(f"played {total - left} of {total}")
            channels: list[Any] = [player.channel for player in busy]
            wait_readable(channels, max(0.0, min(player.deadline for player in busy) - time.monotonic()))
            for player in busy:
                player.hear()
            busy = [player for player in busy if not player.over]
            if reports.unable:
                break
    finally:
        for player in busy:
            player.child.reap()
    return reports


class _PlayerHandle:
    """One player and what it still has to do."""

    def __init__(self, programme: Programme, recipe: PlayerRecipe, number: int, reports: PlayerReports) -> None:
        self._reports, self._programme = reports, programme
        self._orders: deque[Play | None] = deque(programme.plays or [None])
        self._introduced = False
        self.over = False
        self.deadline = time.monotonic() + _LONGEST_ORDER
        self.child = ChannelChild(
            "player",
            to_plain(recipe.boot),
            [],
            log=recipe.logs / f"player-{number}.log",
            env=dict(recipe.environment),
            python=recipe.python,
        )

    @property
    def channel(self) -> Channel:
        """Where it answers."""
        return self.child.channel

    def hear(self) -> None:
        """Take what has come, and give the next order when the last is answered."""
        if time.monotonic() > self.deadline:
            self._lose(f"gave no answer within {_LONGEST_ORDER:.0f} s")
            return
        for message in self.channel.receive_all():
            self._take(message)
            if self.over:
                return

    def _take(self, message: Message) -> None:
        match message["type"]:
            case "answer":
                self._store(message["value"])
                self._order_next()
            case "unable" | "load_error":
                self.over = True
                self.child.reap()
                reason = message.get("reason") or message["message"]
                if message["usage"]:
                    raise UsageError(reason.removeprefix("UsageError: "))
                self._reports.unable = self._reports.unable or reason
            case "closed":
                ending = describe_exit(self.child.reap())
                words = self.child.last_words()
                self._lose(f"its process {ending}" + (f": {words}" if words else ""))

    def _store(self, answer: dict[str, Any]) -> None:
        if not self._introduced:
            self._introduced = True
            self._reports.self_reports.append(SelfReport(**answer))
            return
        play = self._orders.popleft()
        if play is not None:
            self._reports.traces[play.task, play.name] = Trace.from_plain(answer)
            return
        self._reports.holdings, self._reports.leak_error = (
            [Holdings(**holdings) for holdings in answer["rounds"]],
            answer["error"],
        )

    def _order_next(self) -> None:
        self.deadline = time.monotonic() + _LONGEST_ORDER
        try:
            if not self._orders:
                self.over = True
                self.child.ask_to_stop()
                self.child.reap(patience=10.0)
                return
            play = self._orders[0]
            self.channel.send(
                {"type": "holdings", "rounds": self._programme.rounds}
                if play is None
                else {"type": "play", "play": to_plain(play)}
            )
        except ChannelClosed:
            pass  # its end is the next thing that is read

    def _lose(self, reason: str) -> None:
        """Note why what it had to do was not done."""
        self.over = True
        self.child.reap()
        if not self._introduced:
            self._reports.unable = self._reports.unable or reason
        for play in self._orders:
            if play is None:
                self._reports.leak_error = reason
            else:
                self._reports.traces[play.task, play.name] = Trace(error=reason)
                reason = "not played: " + reason.removeprefix("not played: ")
