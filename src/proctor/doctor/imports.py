"""Whether packages can be imported: tried for real, in a process of its own, which one of them may crash.

The process is `python -m proctor.doctor.imports MODULE...`. It answers after each module: so a module that
ends the process is known, and the rest is tried again without it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence

from proctor.benchmarks.rendering import NO_GL
from proctor.machine.processes import ask_module, describe_exit

_SECONDS = 60.0


def try_imports(modules: Sequence[str], seconds: float = _SECONDS) -> dict[str, str]:
    """Return what each module complains of when it is imported; nothing for those that work."""
    complaints: dict[str, str] = {}
    rest = list(modules)
    while rest:
        answers, ending = _run(rest, seconds)
        complaints |= answers
        rest = rest[len(answers) :]
        if rest:
            complaints[rest.pop(0)] = ending
    return complaints


def _run(modules: Sequence[str], seconds: float) -> tuple[dict[str, str], str]:
    """Return the answers that came, and how the process ended."""
    done = ask_module("proctor.doctor.imports", *modules, seconds=seconds, variables=NO_GL)
    late = f"did not end within {seconds:.0f} s"
    ending = f"its import {late if done.late else describe_exit(done.code)}"
    return dict(json.loads(line) for line in done.output.splitlines()), ending


def main() -> None:
    """Import the modules that the command line names, one after the other, and say how it went."""
    # Packages may print; what they print must not get between the answers.
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        for module in sys.argv[1:]:
            complaint = ""
            try:
                importlib.import_module(module)
            except BaseException as error:  # SystemExit too
                complaint = f"{type(error).__name__}: {error}"
            answers.write(json.dumps([module, complaint]) + "\n")
            answers.flush()
        os._exit(0)  # some libraries crash in their own tear-down, after all is said


if __name__ == "__main__":
    main()
