"""From recorded episodes to the run's dataset: whole, in plan order, in place of an earlier one."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import shutil
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

from proctor.errors import StoreError, UsageError
from proctor.installation import install_command
from proctor.machine.processes import ask_program
from proctor.recording.dataset import DatasetWriter
from proctor.recording.recorder import PIECE
from proctor.recording.sources import DATASET, PIECES, RecordedEpisode, RecordingSource
from proctor.store.run_directory import RunDirectory
from proctor.store.schema import EpisodeRecord
from proctor.types import EpisodeKey

_AV = 14
"""The first PyAV that copies a stream without decoding it."""

_NEW, _OLD = f"{DATASET}.part", f"{DATASET}.old"


def can_record() -> bool:
    """Whether the packages that write any dataset are installed, and new enough."""
    return importlib.util.find_spec("pyarrow") is not None and _can_film()


def check_can_record() -> None:
    """Refuse to record where what writes a dataset is missing."""
    if importlib.util.find_spec("pyarrow") is None:
        raise UsageError(f"--eval.recording needs pyarrow. Run: {install_command('recording')}")


def _can_film() -> bool:
    return importlib.util.find_spec("av") is not None and int(metadata.version("av").partition(".")[0]) >= _AV


def check_can_film(env_python: str | None) -> None:
    """Refuse to record pictures where what writes videos is missing."""
    if not _can_film():
        raise UsageError(
            f"--eval.recording of pictures needs av {_AV} or later. Run: {install_command('recording')}"
        )
    if env_python is not None:
        asked = ask_program([env_python, "-c", "import av"], seconds=300)
        if not asked.may_be_well:
            raise UsageError(
                f"--eval.recording of pictures needs av in --env.python too. Run: {env_python} -m pip install av"
            )


def assemble(run: Path, records: Iterable[EpisodeRecord], others: Sequence[Path] = ()) -> int:
    """Make the dataset of a run from what was recorded in it, and in `others`; returns how many episodes it has.

    The episodes are in the order of `records`, which is the plan's.

    An earlier dataset of the run is replaced, never changed: what is there is whole at any moment. What it had and
    the new one does not is kept beside it, for a later one that wants it.

    Raises:
        StoreError: the disk is full, or the episodes do not fit together.
    """
    recover(run)
    sources = [RecordingSource(place) for place in dict.fromkeys((run, *others))]
    if all(source.is_empty for source in sources):
        return 0
    new = run / _NEW
    try:
        new.mkdir()
        written: set[EpisodeKey] = set()
        count = _write(new, _recorded(sources, records, written))
        if count:
            sources[0].set_aside(written)
        _replace(run)
    except Exception as error:  # whatever it is, the run's results are stored and must be shown
        shutil.rmtree(new, ignore_errors=True)
        words = str(error) or type(error).__name__
        hint = "Free some space, then run the same command again: " if isinstance(error, OSError) else ""
        raise StoreError(
            f"cannot write the dataset in {run}: {words}. {hint}the recorded episodes are kept."
        ) from error
    for key in written:  # what is in the dataset now
        shutil.rmtree(RunDirectory(run).recording(key), ignore_errors=True)
    if next((run / PIECES).glob(f"*/*/{PIECE}"), None) is None:
        shutil.rmtree(run / PIECES, ignore_errors=True)
    return count


def recover(run: Path) -> None:
    """Clean up after a process that was killed while it made a dataset."""
    if (run / _OLD).exists() and not (run / DATASET).exists():
        (run / _OLD).rename(run / DATASET)
    for folder in (_NEW, _OLD):
        shutil.rmtree(run / folder, ignore_errors=True)
    for partial in (run / PIECES).glob("*/*.part"):
        shutil.rmtree(partial, ignore_errors=True)


def _recorded(
    sources: Sequence[RecordingSource], records: Iterable[EpisodeRecord], written: set[EpisodeKey]
) -> Iterator[RecordedEpisode]:
    for record in records:
        if record.status == "finished":
            found = (source.find(record.key, record.digests) for source in sources)
            recorded = next((one for one in found if one is not None), None)
            if recorded is not None:
                written.add(record.key)
                yield recorded


def _write(folder: Path, episodes: Iterator[RecordedEpisode]) -> int:
    first = next(episodes, None)
    if first is None:
        return 0
    with contextlib.closing(DatasetWriter(folder, first.schema)) as writer:
        for episode in itertools.chain([first], episodes):
            if episode.schema != first.schema:
                raise ValueError(f"its episodes were recorded differently: {first.schema} and {episode.schema}")
            writer.add(episode)
        return writer.finish()


def _replace(run: Path) -> None:
    if not any((run / _NEW).iterdir()):
        (run / _NEW).rmdir()  # nothing was recorded of the episodes that ended
        return
    if (run / DATASET).exists():
        (run / DATASET).rename(run / _OLD)
    (run / _NEW).rename(run / DATASET)
    shutil.rmtree(run / _OLD, ignore_errors=True)
