"""What is known of a benchmark before any simulator starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from proctor.benchmarks.facts import learn
from proctor.errors import UsageError
from proctor.types import Task
from tiny import Tiny, TinySettings


class Fetching(Tiny):
    """Needs a file that only `fetch` brings; the name of the scratch directory says where."""

    fetches = True

    @property
    def _file(self) -> Path:
        return Path(self.settings.scratch) / "data"

    def tasks(self) -> Sequence[Task]:
        if "nonsense" in self.settings.task:
            raise UsageError("nonsense")
        return super().tasks()

    def fetch(self) -> None:
        if not self._file.parent.is_dir():
            raise UsageError("no network")
        self._file.write_text("fetched")

    def fingerprints(self) -> dict[str, str]:
        return {"data": self._file.read_text()}


PATH = f"{__file__}:Fetching"


def wanted(scratch: Path, python: str | None, task: str = "a") -> TinySettings:
    return TinySettings(type=PATH, task=task, scratch=str(scratch), python=python)


@pytest.mark.parametrize("python", [None, sys.executable], ids=["here", "other-interpreter"])
def test_files_are_fetched_before_anything_is_asked_and_are_part_of_what_a_run_is_known_by(
    python: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "support"), prepend=os.pathsep)
    assert learn(PATH, wanted(tmp_path, python)).versions["data"] == "fetched"
    with pytest.raises(UsageError, match="no network"):
        learn(PATH, wanted(tmp_path / "nowhere", python))
    (tmp_path / "data").unlink()
    with pytest.raises(UsageError, match="nonsense"):
        learn(PATH, wanted(tmp_path, python, task="nonsense"))
    assert not (tmp_path / "data").exists()  # a mistake is told before anything is fetched
