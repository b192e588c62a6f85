"""What every command is made of: its words, its flags, and the function that it runs."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from rich.console import Console

from proctor.cli.unforeseen import say
from proctor.errors import UsageError, unknown_flag

if TYPE_CHECKING:  # the doctor must be able to speak where what reads settings is broken
    from proctor.config.flags import Nested
    from proctor.config.help_pages import FlagList

Own = TypeVar("Own")


class Command(argparse.ArgumentParser):
    """A command whose flags are all its own. Every mistake is one line and status 2.

    Args:
        name: what is typed after `proctor`.
        run: is called with what was given; returns the exit status.
        usage: how it is typed, without `proctor` and its name.
        words: what it is for, with examples.
        ending: what is said below the flags.
    """

    def __init__(
        self, name: str, run: Callable[[argparse.Namespace], int], usage: str, words: str, ending: str
    ) -> None:
        super().__init__(
            prog=f"proctor {name}",
            usage=f"proctor {name} {usage}",
            description=words,
            epilog=ending,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=False,
            allow_abbrev=False,
            exit_on_error=False,
        )
        self._run = run
        # An empty path would be the current directory. An option that may be empty has a type of its own.
        self.register("type", None, _not_empty)
        self.register("type", Path, lambda text: Path(_not_empty(text)))

    def __call__(self, arguments: Sequence[str]) -> int:
        """Run it; returns the exit status."""
        return self._run(self._given(arguments))

    def show_help(self, console: Console) -> None:
        """Print its words and its flags."""
        from proctor.config.help_pages import FlagList, print_flags, print_words

        shown = [action for action in self._actions if action.help is not argparse.SUPPRESS]
        print_words(console, f"{self.description}\n\n{self.format_usage().strip()}")
        print_flags(console, "Flags", FlagList([(_typed(action), action.help or "", "") for action in shown]))
        print_words(console, self.epilog or "")

    def error(self, message: str) -> Any:
        """Say what argparse has against a command line."""
        raise UsageError(f"{message}. See: {self.prog} --help")

    def _given(self, arguments: Sequence[str]) -> argparse.Namespace:
        flags = {flag.replace("_", "-"): flag for flag in self._option_string_actions}
        spelled = [_spelled(argument, flags) for argument in arguments]
        try:
            given, rest = self.parse_known_intermixed_args(spelled)
        except argparse.ArgumentError as wrong:
            flag = wrong.argument_name
            if wrong.message == _EMPTY:
                self.error(f"{flag} {_EMPTY}")
            if wrong.message.startswith("ignored explicit argument"):
                self.error(f"{flag} takes no value")
            self.error(f"{flag} needs a value: {flag}=VALUE")
        for word in rest:
            if word.startswith("-"):
                raise unknown_flag(word, flags.values(), self.prog)
            self.error(f"unexpected '{word}'")
        return given


def _typed(action: argparse.Action) -> str:
    """Return a flag or a word as it is typed."""
    if not action.option_strings:
        return str(action.metavar or action.dest)
    flag = action.option_strings[-1]
    return flag if action.nargs == 0 else f"{flag}={action.metavar or action.dest.upper()}"


_EMPTY = "is empty: give a value, or leave it out"


def _not_empty(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError(_EMPTY)
    return text


class Given(NamedTuple, Generic[Own]):
    """A command line: a command's own flags, checked; the rest as a tree of values; and as it was typed."""

    own: Own
    tree: Nested
    arguments: Sequence[str]


class RunCommand(Generic[Own]):
    """A command that takes settings of a run as flags, besides some of its own.

    Args:
        name: what is typed after `proctor`.
        run: is called with what was given; returns the exit status.
        words: what it is for, how it is typed, with examples.
        own: the dataclass of its own flags, with a title for them.
        tables: the settings that it takes, for its help.
        sections: the settings that it takes, by the first part of their names; none: all of them.
        first: the setting that a first word without a flag stands for.
        rest: the setting that further words without a flag stand for, as a comma list.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[Given[Own]], int],
        words: str,
        own: tuple[str, type[Own]],
        tables: Callable[[], list[tuple[str, FlagList]]],
        sections: Sequence[str] = (),
        first: str = "",
        rest: str = "",
    ) -> None:
        self._prog, self._run, self._words = f"proctor {name}", run, words
        self._title, self.own = own
        self._tables, self.sections, self.first, self.rest = tables, sections, first, rest

    def __call__(self, arguments: Sequence[str]) -> int:
        """Run it; returns the exit status."""
        try:
            return self._run(self._given(arguments))
        except UsageError as error:
            if error.unknown_flag is None:
                raise
            flag, known = error.unknown_flag
            raise unknown_flag(flag, {*known, *self._flags().values()}, self._prog) from None

    def show_help(self, console: Console) -> None:
        """Print its words and a table for each kind of flags."""
        from proctor.config.help import settings_table
        from proctor.config.help_pages import print_flags, print_words

        print_words(console, self._words)
        for title, flags in [(self._title, settings_table("", self.own, spelled=_hyphened)), *self._tables()]:
            print_flags(console, title, flags)

    def _given(self, arguments: Sequence[str]) -> Given[Own]:
        from proctor.config.load import parsed_flags, tree_of
        from proctor.config.values import validated

        if self.first and arguments and not arguments[0].startswith("-") and "=" not in arguments[0]:
            arguments = [f"--{self.first}={arguments[0]}", *arguments[1:]]
        if self.rest:
            arguments = self._gathered(arguments)
        names = self._flags()
        flags = parsed_flags(arguments, self.own, self._prog, say)
        for flag in flags if self.sections else ():
            if flag.partition(".")[0] not in {*names, *self.sections}:
                raise unknown_flag(f"--{flag}", [f"--{name}" for name in self.sections])
        for field in dataclasses.fields(cast("Any", self.own)):
            if not flags.get(field.name, "-").strip() and field.default != "":
                raise UsageError(f"{names[field.name]} {_EMPTY}. See: {self._prog} --help")
        tree = tree_of(flags)
        try:
            own: Own = validated("", self.own, {name: tree.pop(name) for name in names if name in tree})
        except UsageError as error:
            flag, equals, words = str(error).partition("=")
            raise UsageError(f"{_hyphened(flag)}{equals}{words}") from None
        return Given(own, tree, arguments)

    def _gathered(self, arguments: Sequence[str]) -> list[str]:
        """Return a command line with its plain words as one flag; a word after a flag without `=` is its value."""
        words: list[str] = []
        others: list[str] = []
        for argument in arguments:
            plain = not argument.startswith("-") and "=" not in argument
            if plain and (not others or not others[-1].startswith("-") or "=" in others[-1]):
                words.append(argument)
            else:
                others.append(argument)
        return [*others, *([f"--{self.rest}={','.join(words)}"] if words else [])]

    def _flags(self) -> dict[str, str]:
        """Return the command's own flags as they are shown, by the names of their fields."""
        return {field.name: _hyphened(f"--{field.name}") for field in dataclasses.fields(cast("Any", self.own))}


def _hyphened(flag: str) -> str:
    return flag.replace("_", "-")


def _spelled(argument: str, flags: dict[str, str]) -> str:
    """Return an argument with its flag's name as it is known, whether with hyphens or underscores."""
    name, equals, value = argument.partition("=")
    return f"{flags.get(name.replace('_', '-'), name)}{equals}{value}"
