"""Every command, with flags that are right, nearly right, and wild."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fuzz.commands import Runner, run_here, short_lives
from fuzz.inputs import MARKS, inputs
from fuzz.sandbox import Sandbox
from fuzz.surface import Surface, Trial
from fuzz.values import BENCH, OF_A_RUN, WORDS, fields_of, make_places, misspelled, of_type
from made_runs import make_run
from proctor.cli.check_benchmark import CheckSettings
from proctor.cli.main import COMMANDS
from proctor.cli.parallel import ParallelSettings
from proctor.cli.serve import ServeSettings
from proctor.config.registry import load_object

pytestmark = MARKS

_OWN = {
    "serve": fields_of(ServeSettings),
    "parallel": fields_of(ParallelSettings),
    "check-benchmark": fields_of(CheckSettings),
}
_EVALUATES = ("eval", "parallel", "autotune", "serve", "check-benchmark")
_WRITES = ("output_dir", "output", "resume")


def _flags(command: str) -> list[str]:
    """Return the flags that a command's own help names."""
    page = io.StringIO()
    load_object(COMMANDS[command][0]).show_help(Console(file=page, width=200))
    named = {name.rstrip(".") for name in re.findall(r"--([a-z][a-z_.-]*)", page.getvalue())}
    return sorted(named - {"follow"})  # that waits for another program's folder


@st.composite
def command_lines(draw: st.DrawFn, places: list[str], runs: list[str]) -> list[str]:
    """Draw a command line that often gets far."""
    if not draw(st.integers(0, 19)):
        return draw(st.lists(WORDS, max_size=4))
    command = draw(st.sampled_from(list(COMMANDS)))
    types = {**OF_A_RUN, **_OWN.get(command, {})} if command in _EVALUATES else {}
    wild = draw(st.booleans())
    words = [command]
    if command == "check-benchmark":
        words.append(draw(st.sampled_from((f"{BENCH}:Reached", f"{BENCH}:Nobody", "nothing", ""))))
    elif command in ("report", "compare", "merge") and not wild:
        words += draw(st.lists(st.sampled_from(runs), min_size=1, max_size=3))
    elif command not in _EVALUATES:
        words += draw(st.lists(st.one_of(st.sampled_from(runs), st.sampled_from(places), WORDS), max_size=3))
    names = [*_flags(command), *types]
    flags = []
    for _ in range(draw(st.integers(0, 6 if wild else 2)) if names else 0):
        name = draw(st.sampled_from(names))
        typed = of_type(types[name], places) if name in types else st.sampled_from([*places, *runs])
        if name == "env.type":
            typed = st.sampled_from([place for place in places if ":OneStep" not in place])
        value = draw(st.one_of(typed, WORDS) if wild else typed)
        flags += _spelled(draw, name, value) if wild else [f"--{name}={value}"]
    if command in _EVALUATES:
        flags = [*_base(draw, command), *flags, *_bounds(command)]
    if wild and not draw(st.integers(0, 9)):
        flags = draw(st.permutations(flags))
    return [*words, *flags]


def _spelled(draw: st.DrawFn, name: str, value: str) -> list[str]:
    if not draw(st.integers(0, 9)):
        name = misspelled(draw, name)
    if not draw(st.integers(0, 4)):
        name = name.replace("_", "-")
    form = draw(st.sampled_from(("equals", "equals", "equals", "two", "bare", "alone", "twice")))
    return {
        "equals": [f"--{name}={value}"],
        "two": [f"--{name}", value],
        "bare": [f"{name}={value}"],
        "alone": [f"--{name}"],
        "twice": [f"--{name}={value}", f"--{name}=1"],
    }[form]


def _base(draw: st.DrawFn, command: str) -> list[str]:
    if not draw(st.integers(0, 9)):
        return []
    flags = [f"--policy.path={BENCH}:Still"]
    if command != "check-benchmark":
        kind = draw(st.sampled_from(("Reached", "OneStep"))) if command in ("eval", "serve") else "Reached"
        flags.append(f"--env.type={BENCH}:{kind}")
    return flags


def _bounds(command: str) -> list[str]:
    """An evaluation that is reached has one episode, in this process."""
    if command != "eval":
        return []
    return ["--eval.n_episodes=1", "--env.task=a", "--eval.use_async_envs=false", "--display=plain"]


def told(arguments: list[str]) -> list[str]:
    """Return the paths among arguments that a command may write to: its directories, and where a report goes."""
    values = [value for argument in arguments for value in (argument, argument.partition("=")[2]) if value]
    return ["out", "outputs", *(value for value in values if not value.startswith("-"))]


def test_no_command_line_ends_in_a_traceback(sandbox: Sandbox, surface: Callable[..., Surface]) -> None:
    places = make_places(sandbox)
    runs = [str(make_run(sandbox.kept / name, {"a": [True, None]})) for name in ("first", "second")]
    flags, run = surface("flags"), Runner()
    with short_lives():
        for command in COMMANDS:  # what is imported only once is not this input's
            run_here(Trial(), [command, "--help"])

        @inputs(3000)
        @given(command_lines(places, runs))
        def each(arguments: list[str]) -> None:
            with flags.trial(arguments) as trial:
                sandbox.told = told(arguments)
                # Servers that can be reached would serve, and examinations would examine.
                run(trial, arguments, apart=arguments[:1] not in (["serve"], ["view"], ["doctor"]))

        flags.drive(each)
