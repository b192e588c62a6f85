"""TensorBoard: event files in the run directory, written with tensorboard's own writer. No torch, no TensorFlow.

A resumed run adds a file to the same folder, which TensorBoard shows as one run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from proctor.config.plain_values import flat
from proctor.trackers.protocol import EPISODE_COLUMNS, RunOutcome, TrackedRun, Tracker

FOLDER = "tensorboard"
_MOST_ROWS = 1000


class TensorboardTracker(Tracker):
    """Scalars for numbers, text for everything else."""

    def start(self, run: TrackedRun) -> str | None:
        """Open a file and write the settings."""
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer: Any = EventFileWriter(str(run.directory / FOLDER))
        settings = {**flat(run.settings), "run directory": str(run.directory)}
        self._text("settings", _table(("setting", "value"), list(settings.items())), 0)
        self._writer.flush()
        return None

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write a scalar for each value."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._add(Summary(value=[Summary.Value(tag=tag, simple_value=v) for tag, v in values.items()]), step)
        self._writer.flush()

    def conclude(self, outcome: RunOutcome) -> None:
        """Write the result, the episodes, and where the videos are."""
        self.log(outcome.step, outcome.values)
        rows = [[episode[column] for column in EPISODE_COLUMNS] for episode in outcome.episodes[:_MOST_ROWS]]
        self._text("episodes", _table(EPISODE_COLUMNS, rows), outcome.step)
        if outcome.videos:
            self._text("videos", _table(("video",), [[str(video)] for video in outcome.videos]), outcome.step)
        self._text("status", " ".join(filter(None, (outcome.status, outcome.error))), outcome.step)
        self._writer.close()

    def _text(self, tag: str, text: str, step: int) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.types_pb2 import DT_STRING

        plugin = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        content = TensorProto(dtype=DT_STRING, string_val=[text.encode()])
        self._add(Summary(value=[Summary.Value(tag=tag, metadata=plugin, tensor=content)]), step)

    def _add(self, summary: Any, step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))


def _table(heads: tuple[str, ...], rows: list[Any]) -> str:
    """Return Markdown, which TensorBoard shows as a table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.replace("|", "\\|").replace("\n", " ")
