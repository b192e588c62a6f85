"""The example in docs/vector.md does what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "vector.md"


def test_the_example_runs_and_prints_what_the_page_shows(tmp_path: Path) -> None:
    example, shown = re.findall(r"```(?:python|text)\n(.*?)```", PAGE.read_text(), re.DOTALL)[:2]
    script = tmp_path / "example.py"
    script.write_text(example)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == (shown, "")
