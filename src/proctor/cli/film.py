"""`proctor film`: videos of a run's failures, or of any episodes, after the fact."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.text import Text

from proctor.cli.command import Given, RunCommand
from proctor.cli.replay import MOST_LINES, ReplayProgress, named_run, status_of, tables
from proctor.cli.unforeseen import say
from proctor.config.settings import AtLeast, AtMost, Locates
from proctor.engine.interrupts import Interrupts
from proctor.errors import UsageError
from proctor.files import given_path
from proctor.replay.film import Kind, film, film_into_run, to_film
from proctor.replay.replayer import Replay, check_names_no_code
from proctor.report.console import PatientConsole, count
from proctor.store.bundles import is_bundle, opened
from proctor.store.stored_run import StoredRun

_WORDS = """Make videos of a run's failures, or of any episodes, after the fact, by replay of their actions.

usage: proctor film RUN [TASK:EPISODE ...] [flags]

  proctor film outputs/mt50
  proctor film outputs/mt50 reach-v3:7 --output_dir=close --env.camera_name=gripperPOV
  proctor film outputs/mt50 --which=all --fps=15 --env.visualization_width=320 --env.visualization_height=240

They go into the run's own videos/, where report and viewer show them, unless --output_dir says otherwise. The
frames are those that would have been filmed during the run.

Exit status: 0 filmed, 1 some episodes differ when replayed and were left out, 3 some could not be replayed,
2 there is nothing to film."""


@dataclass(frozen=True, kw_only=True)
class FilmFlags:
    """The flags of `proctor film` besides those of the benchmark."""

    run: Annotated[Path | None, Locates("given"), "run directory or bundle; the first word is taken for it"] = None
    only: Annotated[str, "TASK, TASK:7 or TASK:0-4, a comma list; further words are taken for it"] = ""
    which: Annotated[
        Kind,
        "where none are named, which; missing: those that --eval.video of the run asked for and that have none",
    ] = "failures"
    fps: Annotated[int, AtLeast(1), AtMost(1000), "most frames a second; it plays in real time"] = 30
    output_dir: Annotated[Path | None, Locates("given"), "put videos/ there, and leave the run alone"] = None
    workers: Annotated[int, AtLeast(0), AtMost(10_000), "simulator workers; 0: as for a run"] = 0


def _film(given: Given[FilmFlags]) -> int:
    path, own = named_run(given.own.run, "film"), given.own
    console = PatientConsole(highlight=False)
    if is_bundle(path) and own.output_dir is None:
        raise UsageError("a bundle is one file, and has no place for videos: give --output_dir=DIR.")
    with opened(path) as directory:
        run = StoredRun.open(directory)
        if is_bundle(path):
            check_names_no_code(run, given.tree)
        plan, without = to_film(run, own.only, own.which)
        console.print(Text(f"filming {count(len(plan), 'episode')} of {path}"), soft_wrap=True)
        target = _target(own.output_dir) or run.path
        settings = {**given.tree, "eval": {"batch_size": own.workers, "video_fps": own.fps}}
        watcher = ReplayProgress(Console(stderr=True, highlight=False))
        with Interrupts() as interrupts:

            def work() -> Replay:
                return film(run, plan, settings, target, watcher, interrupts, say)

            replay = film_into_run(run, work).replay if own.output_dir is None else work()
    for one in replay.differing[:MOST_LINES]:
        console.print(Text(f"{one} (no video: it would show another episode)"), soft_wrap=True)
    words = f"{count(len(replay.filmed), 'video')} in {target / 'videos'}"
    shown = f"; proctor report {path} shows them" if own.output_dir is None else ""
    console.print(Text(f"{words}{shown}"), soft_wrap=True)
    return status_of(replay, without, console)


def _target(output: Path | None) -> Path | None:
    if output is None:
        return None
    with given_path(output, "output_dir"):
        output.mkdir(parents=True, exist_ok=True)
    return output.absolute()


film_command = RunCommand(
    "film", _film, _WORDS, ("Flags", FilmFlags), tables, sections=("env", "limits"), first="run", rest="only"
)
