"""The launcher: an event loop over the shards' pipes and pidfds. It starts, watches, restarts and stops them.

To whoever watches, the shards are one run: one plan, one count, and one rate over all that was started. Rules that
end a run before its plan does are asked here, of the finished prefix of the whole plan; no shard knows of them.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Iterable, Sequence

from proctor.config.settings import Settings
from proctor.engine.dispatch import Dispatch
from proctor.engine.executors.protocol import TICK, Ending
from proctor.engine.interrupts import Interrupts
from proctor.errors import ProctorError, RunError
from proctor.events import Watcher
from proctor.parallel.shard import ShardEvent, ShardProcess, ShardRecipe, judge
from proctor.store.schema import EpisodeRecord

LATE = 30.0
"""Seconds beyond `--eval.stop_grace` after which a shard that was asked to stop is killed."""


class Launcher:
    """Runs shards until each has done its part, or cannot, or a rule has ended the run.

    Args:
        shards: those that have something left to do.
        dispatch: counts what they have stored, and says when that is enough.
        settings: all settings.
        told: notes that the user has read already, and need not read again from every shard.
        watcher: who is told of progress.
        interrupts: the stop signals.
    """

    def __init__(
        self,
        shards: Sequence[ShardRecipe],
        dispatch: Dispatch,
        settings: Settings,
        told: Sequence[str],
        watcher: Watcher,
        interrupts: Interrupts,
    ) -> None:
        self._shards, self._dispatch, self._told = shards, dispatch, told
        self._eval, self._limits = settings.eval, settings.limits
        self._watcher, self._interrupts = watcher, interrupts
        self._running: dict[str, ShardProcess] = {}
        self._steps_of_the_gone = 0
        self._error: ProctorError | None = None
        self.cut_short: list[ShardRecipe] = []
        """Shards that were ended because of the others; all that they know themselves is a signal."""
        self._stop_deadline: float | None = None
        self._began, self._shown = time.monotonic(), 0.0
        self._selector = selectors.DefaultSelector()

    def run(self) -> Ending:
        """Run to the end, whatever that is, and leave no process behind."""
        self._selector.register(self._interrupts, selectors.EVENT_READ, self._on_signal)
        try:
            for recipe in self._shards:
                self._start(recipe)
            while self._running:
                for key, _ in self._selector.select(TICK):
                    key.data()
                self._watch_the_clock()
                self._show()
            self._show(force=True)
        finally:
            for shard in self._running.values():
                shard.kill()
                shard.reap()
            self._selector.close()
        return Ending(self._interrupts.first, self._error)

    def _start(self, recipe: ShardRecipe) -> None:
        shard = ShardProcess(recipe)
        self._running[recipe.name] = shard
        self._selector.register(shard.pipe, selectors.EVENT_READ, lambda: self._on_words(shard))
        self._selector.register(shard.pidfd, selectors.EVENT_READ, lambda: self._on_end(shard))

    # What shards say.

    def _on_words(self, shard: ShardProcess) -> None:
        if self._running.get(shard.recipe.name) is not shard:
            return
        for event in shard.listen():
            self._on_event(shard, event)
        if shard.hung_up:
            self._unwatch(shard.pipe)  # its pidfd tells the rest

    def _on_event(self, shard: ShardProcess, event: ShardEvent) -> None:
        if event["event"] == "episode":
            del event["event"]
            record = EpisodeRecord(**event)
            self._dispatch.exit_on(record)  # also one that was stored as an error before, and was tried again
            self._note_records(shard, [record])
        elif event["event"] == "note" and not self._is_told(event["message"]):
            self._watcher.note(f"{shard.recipe.name}: {event['message']}")

    def _is_told(self, message: str) -> bool:
        """Whether the user has read it already: that all are stopping was told once for all, too."""
        return message in self._told or self._stop_deadline is not None

    def _note_records(self, shard: ShardProcess, records: Iterable[EpisodeRecord]) -> None:
        for record in records:
            if self._dispatch.tally.knows(record):
                continue
            self._dispatch.restarts.progressed(shard.recipe.name)
            self._dispatch.stored([record])
            self._watcher.episode(record)
        if self._is_enough and self._stop_deadline is None:
            self._error = self._error or self._dispatch.error
            self._stop()

    @property
    def _is_enough(self) -> bool:
        """Whether what is stored ends the run: by a rule over all shards, or because the first error is there."""
        return self._dispatch.stop is not None or self._dispatch.error is not None

    # How shards end.

    def _on_end(self, shard: ShardProcess) -> None:
        recipe = shard.recipe
        if self._running.get(recipe.name) is not shard:
            return
        self._on_words(shard)
        del self._running[recipe.name]
        self._unwatch(shard.pipe, shard.pidfd)
        self._steps_of_the_gone += shard.steps
        code = shard.reap()
        outcome, kind = judge(code, shard.result)
        if outcome != "done":
            self._note_records(shard, recipe.records())  # it may have stored more than it told
            if self._is_enough and not shard.complaint:
                self.cut_short.append(recipe)
        if outcome == "done" or (self._stop_deadline is not None and not shard.complaint):
            shard.drop_log()
        elif outcome == "hopeless" or self._stop_deadline is not None:
            self._error = self._error or kind(f"{recipe.name}: {shard.last_words()}")
            shard.drop_log()
            self._stop(f"{recipe.name} cannot go on, and trying again would not help: stopping the others")
        else:
            self._on_death(recipe, shard.describe_end(code))

    def _on_death(self, recipe: ShardRecipe, ending: str) -> None:
        restarts = self._dispatch.restarts
        deaths = restarts.died(recipe.name)
        if not restarts.is_given_up(recipe.name):
            self._watcher.note(f"{recipe.name} {ending}: starting it again, it goes on from where it was")
            self._start(recipe)
            return
        self._error = self._error or RunError(
            f"{recipe.name} {ending}, {deaths} times without an episode ending in between (see {recipe.log})."
        )
        self._watcher.note(f"{recipe.name} {ending}: given up; the others go on")

    def _unwatch(self, *sources: int) -> None:
        for source in sources:
            if source in self._selector.get_map():
                self._selector.unregister(source)

    # Signals and time.

    def _on_signal(self) -> None:
        self._interrupts.drain()
        if self._interrupts.count:
            grace = self._eval.stop_grace
            self._stop(
                f"stopping all shards: episodes in flight have {grace:g} s to finish; Ctrl-C again stops at once"
            )
        if self._interrupts.count > 1:
            for shard in self._running.values():
                shard.kill()

    def _stop(self, message: str | None = None) -> None:
        """Ask all shards to stop; without a message because a rule has been satisfied, which ends them at once."""
        if self._stop_deadline is not None:
            return
        self._stop_deadline = time.monotonic() + self._eval.stop_grace + LATE
        if message is not None:
            self._watcher.note(message)
        for shard in self._running.values():
            shard.interrupt()

    def _watch_the_clock(self) -> None:
        late = self._stop_deadline is not None and time.monotonic() > self._stop_deadline
        for shard in self._running.values():
            shard.kill_if_still(self._limits.respond)
            if late:
                shard.kill()
            elif self._is_enough:
                shard.interrupt()  # the second one: what is known is enough, and nothing in flight is waited for

    def _show(self, force: bool = False) -> None:
        moment = time.monotonic()
        if not force and moment - self._shown < TICK:
            return
        self._shown = moment
        shards = self._running.values()
        progress = self._dispatch.tally.progress(
            steps=self._steps_of_the_gone + sum(shard.steps for shard in shards),
            busy=sum(shard.busy for shard in shards),
            workers=sum(shard.workers for shard in shards),
            running=[one for shard in shards for one in shard.running],
            seconds=moment - self._began,
        )
        self._watcher.progress(progress)
