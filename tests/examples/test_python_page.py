"""The examples in docs/python.md, run one after the other, print what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

import proctor

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
EXAMPLES = re.findall(r"```python\n([^`]*?)```(?:\n\n```text\n([^`]*?)```)?", PAGE)


def test_every_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place: dict[str, Any] = {}
    ran = 0
    for example, shown in EXAMPLES:
        if "import torch" in example or "check_benchmark" in example:
            continue  # tests/lerobot_policies and tests/conformance have what these need
        if "outputs/baseline" in example:
            arguments: dict[str, Any] = {
                "task": ["reach-v3", "push-v3"],
                "n_episodes": 5,
                "env": {"obs_type": "state"},
            }
            proctor.evaluate("zero", output_dir="outputs/baseline", display="none", **arguments)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(example, place)
        ran += 1
        if shown:
            assert printed.getvalue().endswith(shown), example
    assert ran == 5
