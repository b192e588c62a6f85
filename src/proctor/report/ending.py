"""The report that every run writes at its end. It is a convenience: it never fails a run."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from proctor.engine.evaluation import Evaluation
from proctor.errors import ProctorError


class Written(NamedTuple):
    """Where the report lies, or why there is none, in one line; neither where there is nothing to report."""

    path: Path | None = None
    problem: str | None = None


def write_run_report(evaluation: Evaluation) -> Written:
    """Write `report.html` into the directory of a run that has ended. A shard is only a part, and has none."""
    if not evaluation.info or evaluation.run.shard is not None:
        return Written()
    try:
        from proctor.report.page.page import write_report

        return Written(write_report([evaluation.directory], stored=[evaluation.stored]))
    except (ProctorError, ImportError) as error:
        problem = str(error)
    except Exception as error:  # a mistake of ours in the report must not cost anybody a run
        problem = f"{type(error).__name__}: {error}"
    return Written(problem=f"no report was written: {' '.join(problem.split())}")
