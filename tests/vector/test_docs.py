"""The examples in docs/vector.md do what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "vector.md").read_text()
EXAMPLES = re.findall(r"```python\n([^`]*?)```\n\n```text\n([^`]*?)```", PAGE)


@pytest.mark.parametrize("number", range(2))
def test_an_example_runs_and_prints_what_the_page_shows(number: int, tmp_path: Path) -> None:
    assert len(EXAMPLES) == 2
    example, shown = EXAMPLES[number]
    script = tmp_path / "example.py"
    script.write_text(example if "import proctor" in example else f"import proctor\n{example}")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == (shown, "")
