"""Runs the Python blocks of a page one after the other, in one namespace: a program of `page_reader.py`."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import traceback
from typing import Any


def main() -> None:
    """Read a block a line from stdin, and answer each with what it printed or how it failed."""
    place: dict[str, Any] = {"__name__": "__main__"}
    answers = sys.stdout
    for line in sys.stdin:
        block = json.loads(line)
        printed = io.StringIO()
        answer = {}
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(block["code"], block["name"], "exec"), place)
        except BaseException:
            answer["error"] = traceback.format_exc()
        answers.write(json.dumps({**answer, "printed": printed.getvalue()}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
