"""Films that somebody asks for in the viewer: one at a time, each by `proctor film` in a process of its own.

What a request names is looked up in a run that was found below the folder of runs; nothing of the request itself
becomes part of a command or of a file's name. A film runs the simulator of its run, and a run may be anybody's:
only benchmarks of installed packages are run here, in this interpreter, never code or programs that a run names.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from proctor.errors import ProctorError
from proctor.files import clip
from proctor.replay.replayer import check_names_no_code
from proctor.report.page.episode import words_of
from proctor.results import ScoredRun
from proctor.types import EpisodeKey

MOST_WAITING = 8
_MOST_KNOWN = 256
_MOST_WORDS = 400

State = Literal["none", "waiting", "filming", "done", "failed"]


@dataclass(frozen=True)
class FilmState:
    """How far a film is, and what to say of it."""

    state: State
    words: str = ""


NO_FILM = FilmState("none")
_Request = tuple[Path, EpisodeKey]


class Films:
    """The films that were asked for since the viewer began.

    Attributes:
        token: what a page that this viewer has sent knows, and no other page can read.
    """

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self._lock = threading.Lock()
        self._known: OrderedDict[_Request, FilmState] = OrderedDict()
        self._waiting: OrderedDict[_Request, str] = OrderedDict()
        self._at_work = False

    def ask(self, run: ScoredRun, place: int) -> FilmState:
        """Have an episode filmed, unless it is under way already; returns how far it is."""
        why = why_not(run, place)
        if why:
            return FilmState("failed", why)
        episode = run.plan[place]
        request, words = (run.path, episode.key), words_of(run, episode)
        assert words is not None, "why_not has seen to it"
        with self._lock:
            known = self._known.get(request, NO_FILM)
            if known.state in ("waiting", "filming"):
                return self._placed(request, known)
            if len(self._waiting) >= MOST_WAITING:
                return FilmState("failed", f"{MOST_WAITING} films are waiting already. Ask again later.")
            self._waiting[request] = words
            self._note(request, FilmState("waiting"))
            if not self._at_work:
                self._at_work = True
                # Its children end with it: it stays until nothing is left to do.
                threading.Thread(target=self._work, name="proctor-films", daemon=True).start()
            return self._placed(request, self._known[request])

    def state(self, run: ScoredRun, place: int) -> FilmState:
        """Return how far an episode's film is."""
        request = run.path, run.plan[place].key
        with self._lock:
            return self._placed(request, self._known.get(request, NO_FILM))

    def _placed(self, request: _Request, state: FilmState) -> FilmState:
        if state.state != "waiting":
            return state
        before = list(self._waiting).index(request) + 1 if request in self._waiting else 1
        return FilmState(
            "waiting", f"waiting for {before} other film{'s' if before > 1 else ''}" if before else ""
        )

    def _note(self, request: _Request, state: FilmState) -> None:
        self._known[request] = state
        self._known.move_to_end(request)
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._at_work = False
                    return
                request, words = self._waiting.popitem(last=False)
                self._note(request, FilmState("filming", "filming"))
            state = _film(request[0], words)
            with self._lock:
                self._note(request, state)


def _film(run: Path, words: str) -> FilmState:
    """Film one episode into its run, and return what came of it."""
    # What a run names is imported from installed packages (-P), and not from wherever the viewer was started.
    child = [sys.executable, "-P", "-m", "proctor.cli.child", str(os.getpid())]
    try:
        done = subprocess.run(
            [*child, "film", f"--run={run}", f"--only={words}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONSAFEPATH": "1"},
            check=False,
        )
    except OSError as error:
        return FilmState("failed", f"It could not be filmed: {error.strerror or error}.")
    if done.returncode == 0:
        return FilmState("done", "filmed")
    return FilmState("failed", _last_words(done.stdout.splitlines(), done.returncode))


def _last_words(lines: Sequence[str], status: int) -> str:
    said = [line.strip().removeprefix("proctor: ") for line in lines if line.strip()]
    # The first line only says what is about to be filmed, and the last how many videos there are.
    told = [line for line in said if not line.startswith("filming ") and " videos in " not in line]
    return clip(" ".join(told[-2:]) or f"proctor film ended with status {status}.", _MOST_WORDS)


def why_not(run: ScoredRun, place: int) -> str:
    """Return why an episode cannot be filmed from a page; empty if it can."""
    episode = run.plan[place]
    with run.table() as table:
        if not table.keeps_trajectory(episode.key):
            return "It has no stored actions, so it cannot be filmed."
    if run.bundle is not None:
        return "A bundle has no place for videos: use proctor film with --output_dir."
    if words_of(run, episode) is None:
        return "Its task's name would choose other episodes too, so it cannot be filmed from here."
    try:
        check_names_no_code(run, {})
    except ProctorError:
        return "Its benchmark is code that the run names. A page does not run that: use proctor film."
    if (run.settings.get("env") or {}).get("python"):
        return "Its simulators run in an interpreter that the run names. A page starts none: use proctor film."
    return ""
