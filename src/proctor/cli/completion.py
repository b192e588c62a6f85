"""`proctor completion`: what makes a shell complete commands, flags and values on Tab.

The script asks this program at every Tab, and the answer is made from the commands and settings themselves: it
cannot be out of date, and knows the benchmarks and policies of other packages.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import os
import shlex
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from proctor.cli.command import Command, RunCommand
from proctor.errors import EXIT_OK, UsageError, did_you_mean
from proctor.files import clip

_SCRIPTS = {
    "bash": """_proctor() {
    local line end typed="${COMP_LINE:0:COMP_POINT}" kept=""
    local token="${typed##*[[:space:]]}"
    # bash takes = and : for the ends of words, and replaces only what follows them.
    [[ $COMP_WORDBREAKS == *=* ]] && kept="${token%"${token##*[=:]}"}"
    COMPREPLY=()
    while IFS=$'\\t' read -r line _; do
        end=" "
        [[ $line == *[=/.,] ]] && end=""
        line="${line#"$kept"}"
        [[ $line == *[!A-Za-z0-9_./:=,@%+~-]* ]] && printf -v line %q "$line"
        COMPREPLY+=("$line$end")
    done < <("${COMP_WORDS[0]/#\\~/$HOME}" completion answer "$typed" 2>/dev/null)
}
complete -o nospace -F _proctor proctor
""",
    "zsh": """#compdef proctor
_proctor() {
    local line
    local -a open whole
    for line in "${(@f)$(${~words[1]} completion answer "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)}"; do
        line="${line%%$'\\t'*}"
        [[ -z $line ]] && continue
        if [[ $line == *[=/.,] ]]; then open+=("$line"); else whole+=("$line"); fi
    done
    compadd -S '' -a open
    compadd -a whole
}
if [[ $funcstack[1] == _proctor ]]; then _proctor "$@"; else compdef _proctor proctor; fi
""",
    "fish": """function __proctor_complete
    set -l words (commandline -opc)
    $words[1] completion answer (commandline -cp | string collect) 2>/dev/null
end
complete -c proctor -f -a '(__proctor_complete)'
""",
}

_WORDS = """Print what makes a shell complete Proctor's commands, flags, values, tasks and files on Tab.

  eval "$(proctor completion bash)"
  proctor completion bash >> ~/.bashrc
  proctor completion zsh > "${fpath[1]}/_proctor"
  proctor completion fish > ~/.config/fish/completions/proctor.fish

What is offered is made from this version's own commands and settings, and asked for at every Tab."""


def _completion(given: argparse.Namespace) -> int:
    shell, *words = given.words or [""]
    if shell == "answer":
        for token, about in answer(" ".join(words)):
            sys.stdout.write(f"{token}\t{about}\n" if about else f"{token}\n")
        return EXIT_OK
    if shell not in _SCRIPTS or words:
        hint = did_you_mean(shell, _SCRIPTS)
        what = f"'{clip(words[0] if words else shell, 60)}': " if shell else ""
        raise UsageError(f"{what}name a shell: proctor completion bash|zsh|fish.{hint}")
    sys.stdout.write(_SCRIPTS[shell])
    return EXIT_OK


completion_command = Command(
    "completion",
    _completion,
    "bash|zsh|fish",
    _WORDS,
    "Exit status: 0 printed, 2 it is another shell.",
)
completion_command.add_argument("words", metavar="bash|zsh|fish", nargs="*", help="the shell")


class Candidate(NamedTuple):
    """What may be typed: the whole word, and what it is."""

    token: str
    about: str = ""


Values = Callable[[str], Iterable[str]]
"""What may follow what has been typed of a value: whole values."""


class Flag(NamedTuple):
    """A flag, what it is for, and its values; `None`: it takes none."""

    about: str
    values: Values | None


def answer(line: str) -> list[Candidate]:
    """Return what may stand where the cursor is, at the end of a line. Whatever goes wrong, it is nothing."""
    with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
        words = _split(line)
        programs = [place for place, word in enumerate(words[:-1]) if os.path.basename(word) == "proctor"]  # noqa: PTH119
        if programs:
            return _answer(words[programs[-1] + 1 :])
    return []


def _split(line: str) -> list[str]:
    """Return the words of a line; the last is the one at the cursor, and may be empty."""
    try:
        words = shlex.split(line)
    except ValueError:  # a quote that is still open
        words = line.split()
    return [*words, ""] if not line or line[-1].isspace() else words


def _answer(words: Sequence[str]) -> list[Candidate]:
    from proctor.cli.main import COMMANDS, OTHER_NAMES
    from proctor.config.registry import load_object

    *before, current = words
    if not before:
        return [Candidate(name, about) for name, (_, about) in COMMANDS.items() if name.startswith(current)]
    name = OTHER_NAMES.get(before[0], before[0])
    if name not in COMMANDS:
        return []
    command, rest = load_object(COMMANDS[name][0]), before[1:]
    flags = {**_flags_of(command, rest), "--help": Flag("what the command does, and all its flags", None)}
    if current.startswith("-"):
        return _flag_or_value(current, flags)
    last = rest[-1] if rest else ""
    if last.startswith("--") and "=" not in last and (values := _known(last, flags)) is not None:
        return [Candidate(value) for value in values(current)]
    plain = [word for word in rest if not word.startswith("-")]
    return [Candidate(word) for word in _words_of(command, name, plain)(current)]


def _known(name: str, flags: Mapping[str, Flag]) -> Values | None:
    spelled = {_plain(each): flag for each, flag in flags.items()}
    flag = spelled.get(_plain(name))
    return None if flag is None else flag.values


def _flag_or_value(current: str, flags: Mapping[str, Flag]) -> list[Candidate]:
    name, equals, typed = current.partition("=")
    if equals:
        values = _known(name, flags)
        return [] if values is None else [Candidate(f"{name}={value}") for value in values(typed)]
    found: dict[str, Candidate] = {}
    for flag, (about, values) in flags.items():
        if not _plain(flag).startswith(_plain(current)):
            continue
        section, dot, _ = flag.partition(".")
        # As folders are: a section first, what is in it once it is typed.
        if dot and "." not in current:
            found.setdefault(f"{section}.", Candidate(f"{section}."))
        else:
            found[flag] = Candidate(f"{flag}{'=' if values is not None else ''}", about)
    return list(found.values())


def _plain(flag: str) -> str:
    return flag[:2] + flag[2:].replace("-", "_")


# The flags of a command, with their values.


def _flags_of(command: Any, words: Sequence[str]) -> dict[str, Flag]:
    if isinstance(command, Command):
        return {
            action.option_strings[-1]: Flag(action.help or "", None if action.nargs == 0 else _of_action(action))
            for action in command._actions
            if action.option_strings
        }
    if isinstance(command, RunCommand):
        own = {flag.replace("_", "-"): found for flag, found in _of_class("", command.own).items() if flag}
        wanted = command.sections
        settings = _settings(words)
        return {**own, **{f: v for f, v in settings.items() if not wanted or f[2:].partition(".")[0] in wanted}}
    from proctor.training.compact.settings import NetworkSettings
    from proctor.training.settings import TrainFlags

    own = _of_class("", TrainFlags)
    about = own.pop("--dataset").about
    named = {"--dataset.root": Flag(about, files), "--dataset.repo_id": Flag(about, lambda typed: ())}
    return {**_settings(words), **_of_class("policy.", NetworkSettings), **own, **named}


def _settings(words: Sequence[str]) -> dict[str, Flag]:
    """Return the settings of a run, those of the benchmark and the policy that are named among them."""
    from proctor.config.flags import nest
    from proctor.config.lerobot_configs import PASSED_OVER
    from proctor.config.load import SECTIONS, section_classes
    from proctor.config.settings import EnvSettings, PolicySettings, Settings

    given = dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)
    tree = nest({name.replace("-", "_"): value for name, value in given.items()})
    env, policy = tree.get("env") or {}, tree.get("policy") or {}
    kinds: dict[str, type[Any]] = {"policy": PolicySettings, "env": EnvSettings}
    for name in ("env", "policy"):
        with contextlib.suppress(Exception):  # named only in part, or wrong
            known = {"env": env if env.get("type") else {"type": "metaworld"}}
            known["policy"] = policy if policy.get("type") or policy.get("path") else {"type": "expert"}
            found = section_classes(known)
            kinds |= {name: found[name] for name, given in (("env", env), ("policy", policy)) if given}
    flags: dict[str, Flag] = {}
    for section in SECTIONS:
        kind = kinds.get(section) or get_type_hints(Settings)[section]
        flags |= _of_class(f"{section}.", kind)
    flags |= _of_class("", Settings, {*SECTIONS, PASSED_OVER})
    flags["--config_path"] = Flag("settings from a YAML file", files)
    flags["--env.task"] = flags["--env.task"]._replace(values=_listed(lambda: _tasks(str(env.get("type") or ""))))
    return flags


def _of_class(prefix: str, kind: type[Any], skip: Iterable[str] = ()) -> dict[str, Flag]:
    from proctor.config.settings import EXECUTION

    found = {}
    hints = get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        if field.name in skip:
            continue
        hint = hints[field.name]
        about = [word for word in get_args(hint) if isinstance(word, str) and word != EXECUTION]
        values: Values | None = _of_type(f"{prefix}{field.name}", hint)
        if hint is bool or (get_args(hint) and get_args(hint)[0] is bool and field.default is False):
            values = None
        found[f"--{prefix}{field.name}"] = Flag(about[-1] if about else "", values)
    return found


def _of_type(name: str, hint: Any) -> Values:
    from proctor.config.combinations import TRACKERS
    from proctor.config.registry import POLICIES, POLICY_GROUP, known_benchmarks, plugins
    from proctor.config.settings import Locates

    if name == "env.type":
        return lambda typed: [*_starting(known_benchmarks(), typed), *files(typed)]
    if name == "policy.type":
        return lambda typed: _starting([*POLICIES, *(one.name for one in plugins(POLICY_GROUP))], typed)
    named = {"eval.video": ("failures", "all", "none"), "cluster.address": ("auto", "local")}
    if name in named:
        return lambda typed: _starting(named[name], typed)
    if name == "report_to":
        return _listed(lambda: list(TRACKERS))
    parts = [hint]
    choices: list[str] = []
    paths = False
    while parts:
        part = parts.pop()
        paths = paths or part is Path or isinstance(part, Locates)
        if get_origin(part) is Literal:
            choices += map(str, get_args(part))
        elif part is bool:
            choices += ["true", "false"]
        elif get_origin(part) in (typing.Annotated, typing.Union, types.UnionType):
            parts += get_args(part)
    if paths:
        return files
    return lambda typed: _starting(choices, typed)


def _of_action(action: argparse.Action) -> Values:
    if "|" in str(action.metavar):
        return lambda typed: _starting(str(action.metavar).split("|"), typed)
    return files if action.type is Path else lambda typed: ()


# Words that are no flags.


def _words_of(command: Any, name: str, before: Sequence[str]) -> Values:
    """Return what a further word without a flag may be."""
    if name == "list":
        return _names_to_list(before)
    if isinstance(command, Command):
        words = next((action for action in command._actions if not action.option_strings), None)
        if words is None:
            return lambda typed: ()
        if "|" in str(words.metavar):
            return _of_action(words) if not before else files
        return files
    if isinstance(command, RunCommand) and command.first and not before:
        first = command.first
        return _of_type(first, Path if first == "run" else str)
    return files if isinstance(command, RunCommand) and command.rest else lambda typed: ()


def _names_to_list(before: Sequence[str]) -> Values:
    from proctor.config.registry import POLICIES, known_benchmarks

    names = {"benchmarks": known_benchmarks(), "policies": list(POLICIES)}
    if not before:
        return lambda typed: _starting([*names, *names["benchmarks"], *names["policies"]], typed)
    return lambda typed: _starting(names.get(before[0], []), typed)


# Values.


def _starting(names: Iterable[str], typed: str) -> list[str]:
    return [name for name in names if name.startswith(typed)]


def _listed(names: Callable[[], Iterable[str]]) -> Values:
    """Return the values of a comma list: the last part is completed, and none comes twice."""

    def values(typed: str) -> list[str]:
        before, comma, last = typed.rpartition(",")
        there = before.split(",")
        return [f"{before}{comma}{name}" for name in _starting(names(), last) if name not in there]

    return values


def _tasks(benchmark: str) -> list[str]:
    """Return the groups and tasks of a benchmark, of one that knows them without its simulator."""
    from proctor.benchmarks.protocol import Benchmark
    from proctor.config.registry import benchmark_path, load_object

    kind: type[Benchmark] = load_object(benchmark_path(benchmark))
    groups = kind(kind.Settings(type=benchmark)).catalogue()
    return list(dict.fromkeys([*groups, *(task.name for tasks in groups.values() for task in tasks)]))


def files(typed: str) -> list[str]:
    """Return the files and folders whose names begin so; folders end in a slash."""
    folder, slash, start = typed.rpartition("/")
    place = Path(f"{folder}{slash}" or ".").expanduser()
    try:
        entries = sorted(place.iterdir())
    except OSError:
        return []
    shown = (entry for entry in entries if start.startswith(".") or not entry.name.startswith("."))
    return [
        f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}"
        for entry in shown
        if entry.name.startswith(start)
    ]
