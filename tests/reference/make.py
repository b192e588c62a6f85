"""Store what the reference runs leave: `python tests/reference/make.py [NAME...]`.

The files in `expected` were made by the code before it was reorganised; `test_reference.py` says whether today's
code gives the same. Do not make them anew because a test fails: find out why it differs. There are
two good reasons:

- words to users were changed on purpose: edit the line in the expected file by hand, so that the diff shows that
  nothing else is another;
- the kind of machine or a package is another (`machine.json`; the tests are skipped then): check out the commit to
  compare with elsewhere, and run `PYTHONPATH=ELSEWHERE/src python tests/reference/make.py` here.

`--to=DIR` writes elsewhere: `diff -r` of two such folders shows what is not the same every time.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from reference.observed import EXPECTED, machine, observe_all, written
from reference.runs import RUNS


def main(arguments: list[str]) -> int:
    names = [argument for argument in arguments if not argument.startswith("--")]
    (home,) = [Path(a[5:]) for a in arguments if a.startswith("--to=")] or [EXPECTED]
    home.mkdir(exist_ok=True)
    wanted = [run for run in RUNS if not names or run.name in names]
    seen = observe_all(wanted, lambda name, seconds: print(f"{seconds:5.1f} s  {name}", flush=True))  # noqa: T201
    for name, found in seen.items():
        if isinstance(found, Exception):
            raise found
        (home / f"{name}.json").write_text(written(found) + "\n")
    (home / "machine.json").write_text(written(machine()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
