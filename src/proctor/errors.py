"""Every error a user of Proctor can meet, and the exit status it ends with.

A message says what happened, to what, and what to do next, in one or two lines. A user's mistake is a
`UsageError`; anything that ends a run which had started is a `RunError`.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar, cast

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_EPISODE_ERRORS = 3
EXIT_BELOW = 4
"""The run is complete, and its success rate misses `--min_success`."""
EXIT_VERDICT = 5
"""The verdict of a comparison is one that `--fail-if` names, or nothing could be compared as it asks."""
EXIT_SIGINT = 130
EXIT_SIGTERM = 143


class ProctorError(Exception):
    """Base of every error that Proctor raises on purpose."""

    exit_status = EXIT_FAILED


class UsageError(ProctorError):
    """A flag, value, task, file or environment that cannot work; raised before anything starts."""

    exit_status = EXIT_USAGE
    unknown_flag: tuple[str, Collection[str]] | None = None
    """A flag that there is none of, and those that there are: a command that has more of them says it anew."""


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


class DamagedError(StoreError):
    """What is stored has changed since it was written: nothing is built on it."""


class PolicyError(RunError):
    """The policy raised, or returned something that is no action. Trying again cannot help."""


class ChangedError(RunError):
    """The policy or the benchmark is no longer what the run began with: a process that started later found out."""


class BenchmarkError(RunError):
    """A benchmark does other than it said before the run, so that its rates would mean nothing."""


class PolicyHostError(RunError):
    """The process that holds the policy died or hung more often than `eval.max_attempts` allows."""


class ExitFirstError(RunError):
    """An episode ended in an error, and `--exitfirst` says that this ends the run. The same command goes on."""

    exit_status = EXIT_EPISODE_ERRORS


class PolicyLostError(ProctorError):
    """What the policy remembered of an episode is gone, with its server or host: the episode starts again."""


class SimulatorError(ProctorError):
    """A simulator broke its contract: a NaN observation, a missing key, a wrong shape."""


class NoPicturesError(UsageError):
    """Drawing was asked for and no GL works here."""


class Interrupted(Exception):
    """The user asked to stop before the run had started."""


_FLAG = re.compile(r"--([a-z][\w-]*(?:\.[\w-]+)*)")
_SEE = re.compile(r" See: proctor [\w-]+ --help")
_FLAG_HINT = re.compile(r" Did you mean '--[^']*'\?")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def for_python(arguments: Mapping[str, str]) -> Callable[[_Function], _Function]:
    """Decorate a function of the Python interface: its errors name arguments and settings, and no flags.

    Everywhere else a setting is called by its flag, `--eval.n_episodes`. Who calls from Python gave none: what has
    an argument is called by it, any other setting by its place in `config.yaml`.

    Args:
        arguments: the argument for each setting that has one; `"env."` is for all of that section. A name without
            a dot that is not among them is left as it is: it may be a flag of another program.
    """

    def name(found: re.Match[str]) -> str:
        setting = found[1].replace("-", "_")
        section, dot, rest = setting.partition(".")
        if setting not in arguments and section + dot in arguments:
            return arguments[section + dot] + rest
        return arguments.get(setting, setting if dot else found[0])

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def speaking(*given: Any, **named: Any) -> Any:
            try:
                return function(*given, **named)
            except ProctorError as error:
                text = _SEE.sub("", str(error)).replace("unknown flag --", "unknown setting ")
                error.args = (_FLAG_HINT.sub("", _FLAG.sub(name, text)), *error.args[1:])
                raise

        return cast("_Function", speaking)

    return decorate


def unknown_flag(flag: str, known: Iterable[str], program: str = "proctor eval") -> UsageError:
    """Return the error for a flag that there is none of, with the one that was meant."""
    known = set(known)
    # A flag of the command line that stands in a file is known, and still none there.
    match = None if flag in known else nearest_flag(flag.partition("=")[0], known)
    hint = f" Did you mean '{match}'?" if match else ""
    error = UsageError(f"unknown flag {flag}.{hint} See: {program} --help")
    error.unknown_flag = flag, known
    return error


_FEW = 12
"""Names that are all told to whoever names another."""


def check_known(flag: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise one `UsageError` for all names that are not known, each with what it may have meant."""
    unknown = [name for name in names if name not in known]
    if unknown:
        choice = f" There are {', '.join(sorted(known))}." if len(known) <= _FEW else ""
        words = " ".join(f"--{flag}={name}: unknown.{did_you_mean(name, known)}" for name in unknown)
        raise UsageError(f"{words}{choice}")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that a mistyped `word` most likely meant.

    >>> nearest("n_episode", ["n_episodes", "batch_size"])
    'n_episodes'
    >>> nearest("quux", ["n_episodes", "batch_size"]) is None
    True
    """
    matches = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def nearest_flag(flag: str, known: Iterable[str]) -> str | None:
    """Return the known flag that a mistyped one most likely meant: of its own section, if one there is near.

    Of another section only the same name will do, and beyond that a section whose own name was mistyped.

    >>> known = ["--eval.n_episodes", "--eval.noise", "--env.task", "--seed"]
    >>> nearest_flag("--eval.n_episode", known), nearest_flag("--env.n_episodes", known)
    ('--eval.n_episodes', '--eval.n_episodes')
    >>> nearest_flag("--evl.noise", known), nearest_flag("--n-episodes", known), nearest_flag("--env.sed", known)
    ('--eval.noise', '--eval.n_episodes', None)
    """
    plain = {_plain(each): each for each in known}
    section, _, name = _plain(flag).rpartition(".")
    parts = {each: each.rpartition(".")[::2] for each in plain}
    inside = {own: each for each, (place, own) in parts.items() if place == section}
    if (match := nearest(name, inside)) is not None:
        return plain[inside[match]]
    elsewhere = {place: each for each, (place, own) in parts.items() if own == name}
    if not elsewhere:
        return None
    return plain[elsewhere[nearest(section, elsewhere) or min(elsewhere)]]


def _plain(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" with its leading space, or nothing when no name is near."""
    match = nearest(word, known)
    return f" Did you mean '{match}'?" if match else ""
