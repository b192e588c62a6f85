"""`--help` of every command: readable at any width, with examples that can be pasted, and equal to the manual."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path

import pytest
from rich.console import Console

from harness import run_cli
from proctor.cli.command import Command, RunCommand
from proctor.cli.main import COMMANDS, OTHER_NAMES
from proctor.config.load import build_settings, or_embedded
from proctor.config.registry import load_object

DOCS = Path(__file__).parents[2] / "docs"
_PLACEHOLDER = re.compile(r"\b[A-Z]{3,}(_[A-Z]+)*\b")


def help_of(name: str, width: int) -> str:
    """Return a command's help as a terminal of some width shows it."""
    page = io.StringIO()
    load_object(COMMANDS[name][0]).show_help(Console(file=page, width=width))
    return page.getvalue()


def examples(name: str, width: int = 80) -> list[str]:
    """Return the command lines in a command's help, as a shell reads them."""
    lines = help_of(name, width).replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if re.match(r"  (proctor|mkdir|eval) ", line)]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_it_fits_at_any_width_and_no_column_is_a_trickle(name: str, width: int) -> None:
    lines = [line.rstrip() for line in help_of(name, width).splitlines()]
    # A word that has no room cannot be broken: it would be another one when it is pasted.
    long = [line for line in lines if len(line) > width and len(line.removesuffix(" \\").split()) > 1]
    assert long == []
    indents = [len(line) - len(line.lstrip()) for line in lines]
    assert all(width - indent >= 32 for indent in indents)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_words_are_the_same_at_any_width(name: str) -> None:
    def words(width: int) -> list[str]:
        return sorted(word for word in help_of(name, width).split() if word not in ("\\", "#"))

    assert words(60) == words(80) == words(400)
    # A default that is longer than the line is broken, in words and not in an example.
    assert sorted("".join(words(40))) == sorted("".join(words(400)))


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_commands_that_are_understood_as_they_stand(name: str) -> None:
    found = examples(name)
    assert found or name == "doctor"
    assert [shlex.split(line, comments=True) for line in found] == [
        shlex.split(line, comments=True) for line in examples(name, 400)
    ]
    for line in found:
        for part in re.split(r" && | > ", line.partition("  # ")[0]):
            assert not _PLACEHOLDER.search(part), part
            words = shlex.split(part)
            if words[0] == "proctor":
                understood(words[1], words[2:])


def understood(name: str, arguments: list[str]) -> None:
    """Have a command line read as its command reads it; a wrong flag or value is an error."""
    command = load_object(COMMANDS[OTHER_NAMES.get(name, name)][0])
    if isinstance(command, Command | RunCommand):
        if any(argument.startswith(("--resume", "--failed")) for argument in arguments):
            return  # the settings are in a run
        given = command._given(arguments)
        if name in ("eval", "parallel"):
            build_settings(or_embedded(given.tree))


def test_the_manual_has_the_help_of_eval() -> None:
    """docs/settings.md repeats `proctor eval --help` at 100 columns."""
    manual = (DOCS / "settings.md").read_text().split("```text\n")[-1].split("```")[0]
    shown = "\n".join(line.rstrip() for line in help_of("eval", 100).splitlines())
    assert manual.strip() == shown.strip()


def test_proctor_alone_lists_every_command_at_any_width() -> None:
    for width in (40, 120):
        done = run_cli("--help", extra_env={"COLUMNS": str(width)})
        assert all(name in done.stdout for name in COMMANDS)
        assert max(map(len, done.stdout.splitlines())) <= width + 1
