"""`proctor film`: videos of a run's failures, or of any episodes, after the fact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console
from rich.text import Text

from proctor.cli.command import Given, RunCommand
from proctor.cli.replay import MOST_LINES, ReplayProgress, named_run, status_of, tables
from proctor.cli.unforeseen import say
from proctor.config.flags import Nested
from proctor.config.settings import AtLeast, AtMost, Locates, comma_list
from proctor.engine.interrupts import Interrupts
from proctor.errors import UsageError
from proctor.files import given_path, is_there
from proctor.replay.film import film, film_into_run, to_film
from proctor.replay.replayer import Replay, check_names_no_code
from proctor.replay.side_by_side import film_side_by_side, pairs_to_film
from proctor.report.console import PatientConsole, count
from proctor.store.bundles import SUFFIX, is_bundle, opened
from proctor.store.run_directory import DATABASE
from proctor.store.stored_run import StoredRun

_WORDS = """Make videos of a run's failures, or of any episodes, after the fact, by replay of their actions.

usage: proctor film RUN [OTHER] [TASK:EPISODE ...] [flags]

  proctor film outputs/network
  proctor film outputs/expert reach-v3:2 --output_dir=close --env.camera_name=gripperPOV
  proctor film outputs/expert --which=all --fps=15 --env.visualization_width=320 --env.visualization_height=240
  proctor film outputs/network outputs/expert --which=all

They go into the run's own videos/, where report and viewer show them, unless --output_dir says otherwise. The
frames are those that would have been filmed during the run.

With a second run, each video shows an episode of both, side by side: those that came to something else in the
other run, unless you name some or say --which=all. Neither run is written to.

Exit status: 0 filmed, 1 some episodes differ when replayed and were left out, 3 some could not be replayed,
2 there is nothing to film."""

SIDE_BY_SIDE = Path("side_by_side")
"""Where videos of two runs go, unless somebody says otherwise."""


@dataclass(frozen=True, kw_only=True)
class FilmFlags:
    """The flags of `proctor film` besides those of the benchmark."""

    run: Annotated[Path | None, Locates("given"), "run directory or bundle; the first word is taken for it"] = None
    only: Annotated[str, "TASK, TASK:7 or TASK:0-4, a comma list; further words are taken for it"] = ""
    against: Annotated[
        Path | None, Locates("given"), "another run, to be shown beside it; a word that is one will do"
    ] = None
    which: Annotated[
        Literal["failures", "successes", "all", "missing", "differing"] | None,
        "where none are named, which: failures, successes, all; missing: what --eval.video of the run asked for "
        "and is not there; differing: of two runs, where outcomes differ [failures; of two runs, differing]",
    ] = None
    fps: Annotated[int, AtLeast(1), AtMost(1000), "most frames a second; it plays in real time"] = 30
    output_dir: Annotated[Path | None, Locates("given"), "put videos/ there, and leave the run alone"] = None
    workers: Annotated[int, AtLeast(0), AtMost(10_000), "simulator workers; 0: as for a run"] = 0


def _film(given: Given[FilmFlags]) -> int:
    path, own = named_run(given.own.run, "film"), given.own
    words, other = _other(own)
    if other is not None:
        return _film_two(path, other, words, given)
    if own.which == "differing":
        raise UsageError("--which=differing is for two runs: proctor film RUN OTHER.")
    console = PatientConsole(highlight=False)
    if is_bundle(path) and own.output_dir is None:
        raise UsageError("a bundle is one file, and has no place for videos: give --output_dir=DIR.")
    with opened(path) as directory:
        run = _run_at(path, directory, given.tree)
        plan, without = to_film(run, words, own.which or "failures")
        console.print(Text(f"filming {count(len(plan), 'episode')} of {path}"), soft_wrap=True)
        target = _target(own.output_dir) or run.path
        watcher = ReplayProgress(Console(stderr=True, highlight=False))
        with Interrupts() as interrupts:

            def work() -> Replay:
                return film(run, plan, _settings(given), target, watcher, interrupts, say)

            replay = film_into_run(run, work).replay if own.output_dir is None else work()
    _name_differing([replay], console)
    shown = f"; proctor report {path} shows them" if own.output_dir is None else ""
    said = f"{count(len(replay.filmed), 'video')} in {target / 'videos'}{shown}"
    console.print(Text(said), soft_wrap=True)
    return status_of(replay, without, console)


def _other(own: FilmFlags) -> tuple[str, Path | None]:
    """Return the episodes that are named, and the run among them, or behind its flag, if there is one."""
    named = comma_list(own.only)
    runs = [word for word in named if word.endswith(SUFFIX) or is_there(Path(word) / DATABASE)]
    if own.against is not None:
        runs.append(str(own.against))
    if len(runs) > 1:
        raise UsageError(f"one video shows two runs at most, and these are more: {', '.join(runs)}.")
    words = ",".join(word for word in named if word not in runs)
    return words, Path(runs[0]) if runs else None


def _film_two(path: Path, other: Path, words: str, given: Given[FilmFlags]) -> int:
    own, console = given.own, PatientConsole(highlight=False)
    if own.which not in (None, "differing", "all"):
        raise UsageError(f"--which={own.which}: of two runs, differing or all. Or name episodes.")
    with opened(path) as first, opened(other) as second:
        runs = _run_at(path, first, given.tree), _run_at(other, second, given.tree)
        plan = pairs_to_film(runs, words, "all" if own.which == "all" else "differing")
        target = _target(own.output_dir or SIDE_BY_SIDE)
        assert target is not None
        console.print(Text(f"filming {count(len(plan), 'episode')} of {path} and {other}"), soft_wrap=True)
        watcher = ReplayProgress(Console(stderr=True, highlight=False))
        names = distinct_names(path, other)
        with Interrupts() as interrupts:
            found = film_side_by_side(runs, names, plan, _settings(given), target, watcher, interrupts, say)
    _name_differing(found.replays, console)
    console.print(Text(f"{count(len(found.filmed), 'video')} in {target / 'videos'}"), soft_wrap=True)
    return max(status_of(replay, (), console) for replay in found.replays)


def distinct_names(first: Path, second: Path) -> tuple[str, str]:
    """Return what to call two runs: the last part of each path that is not the same.

    >>> distinct_names(Path("a/run"), Path("b/run"))
    ('a', 'b')
    """
    for one, other in zip(reversed(first.absolute().parts), reversed(second.absolute().parts), strict=False):
        if one != other:
            return one, other
    return first.name, second.name


def _run_at(named: Path, directory: Path, tree: Nested) -> StoredRun:
    run = StoredRun.open(directory)
    if is_bundle(named):
        check_names_no_code(run, tree)
    return run


def _settings(given: Given[FilmFlags]) -> Nested:
    return {**given.tree, "eval": {"batch_size": given.own.workers, "video_fps": given.own.fps}}


def _name_differing(replays: Sequence[Replay], console: Console) -> None:
    for one in [one for replay in replays for one in replay.differing][:MOST_LINES]:
        console.print(Text(f"{one} (no video: it would show another episode)"), soft_wrap=True)


def _target(output: Path | None) -> Path | None:
    if output is None:
        return None
    with given_path(output, "output_dir"):
        output.mkdir(parents=True, exist_ok=True)
    return output.absolute()


film_command = RunCommand(
    "film", _film, _WORDS, ("Flags", FilmFlags), tables, sections=("env", "limits"), first="run", rest="only"
)
