"""Every error a user of Proctor can meet, and the exit status it ends with.

A message says what happened, to what, and what to do next, in one or two lines. A user's mistake is a
`UsageError`; anything that ends a run which had started is a `RunError`.
"""

from __future__ import annotations

import difflib
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_EPISODE_ERRORS = 3
EXIT_SIGINT = 130
EXIT_SIGTERM = 143


class ProctorError(Exception):
    """Base of every error that Proctor raises on purpose."""

    exit_status = EXIT_FAILED


class UsageError(ProctorError):
    """A flag, value, task, file or environment that cannot work; raised before anything starts."""

    exit_status = EXIT_USAGE


class IdentityError(UsageError):
    """The run directory holds a run that this command would not continue but change."""


class RunLockedError(UsageError):
    """Another process writes to the run directory."""


class RunError(ProctorError):
    """The run had to end. Every finished episode is kept; the same command goes on from there."""


class StoreError(RunError):
    """The run directory cannot be written any more: disk full, read-only, gone."""


class RunGoneError(StoreError):
    """The run directory is no longer where it was. The same command does not go on: it would begin anew."""


class PolicyError(RunError):
    """The policy raised, or returned something that is no action. Trying again cannot help."""


class ChangedError(RunError):
    """The policy or the benchmark is no longer what the run began with: a process that started later found out."""


class BenchmarkError(RunError):
    """A benchmark does other than it said before the run, so that its rates would mean nothing."""


class PolicyHostError(RunError):
    """The process that holds the policy died or hung more often than `eval.max_attempts` allows."""


class PolicyLostError(ProctorError):
    """What the policy remembered of an episode is gone, with its server or host: the episode starts again."""


class SimulatorError(ProctorError):
    """A simulator broke its contract: a NaN observation, a missing key, a wrong shape."""


class NoPicturesError(UsageError):
    """Drawing was asked for and no GL works here."""


def name_error(error: BaseException) -> str:
    """Return the kind of an error and what it says.

    >>> name_error(ValueError("too long")), name_error(KeyboardInterrupt())
    ('ValueError: too long', 'KeyboardInterrupt')
    """
    try:
        words = str(error)
    except Exception:  # it is somebody else's class
        words = "(its message cannot be shown)"
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def own_frames(error: BaseException, most: int = 3) -> str:
    """Return where in the user's own code an error came from, the last lines of it, or nothing.

    What is installed, and what is Proctor's, is not the user's to mend.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
    return "".join(f"\n{line}" for line in "".join(traceback.format_list(frames[-most:])).splitlines())


def describe(error: BaseException) -> str:
    """Return what an error says and where in the user's own code it came from."""
    return name_error(error) + own_frames(error)


def _is_users(filename: str) -> bool:
    if filename.startswith("<"):
        return False  # frozen modules, and code without a file
    place = Path(filename).resolve()
    if {"site-packages", "dist-packages"} & set(place.parts):
        return False
    ours = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), Path(__file__).resolve().parent)
    return not any(place.is_relative_to(folder) for folder in ours)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that a mistyped `word` most likely meant.

    >>> nearest("n_episode", ["n_episodes", "batch_size"])
    'n_episodes'
    >>> nearest("quux", ["n_episodes", "batch_size"]) is None
    True
    """
    matches = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" with its leading space, or nothing when no name is near."""
    match = nearest(word, known)
    return f" Did you mean '{match}'?" if match else ""
