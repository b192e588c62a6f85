"""Where failures lie is shown where there is something to show, and chance is called chance."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from made_up_run import MadeUp, alter, make_run

from proctor.report.page.layouts import MOST_PANELS, LayoutPanel, layout_panels
from proctor.report.page.page import write_report
from proctor.results import ScoredRun
from proctor.store.episodes import EpisodeTable
from proctor.store.schema import EpisodeRecord
from proctor.types import EpisodeKey, Task
from report_pages import SMALL, Document

Change = Callable[[EpisodeRecord, np.random.Generator], EpisodeRecord]


def rewritten(path: Path, change: Change, **kind: Any) -> ScoredRun:
    """Write a run whose episodes are then changed, through the store."""
    make_run(path, MadeUp(**{"tasks": SMALL[:1], "n_episodes": 30, "errors": 0, **kind}))
    with EpisodeTable(path / "run.sqlite") as table:
        records = list(table.records())
    for name in ("episodes", "trajectories"):
        alter(path, name, lambda row: None)
    rng = np.random.default_rng(0)
    with EpisodeTable(path / "run.sqlite") as table:
        table.write([change(record, rng) for record in records])
    return ScoredRun.open(path)


def panels(path: Path, change: Change, **kind: Any) -> list[LayoutPanel]:
    return layout_panels([rewritten(path, change, **kind)])


def decided(record: EpisodeRecord, rng: np.random.Generator) -> EpisodeRecord:
    """Goals to the right fail; the height of the object has nothing to do with it."""
    layout = {"object_z": rng.normal(), "goal_x": rng.normal(), "goal_y": rng.normal(), "table": 0.7}
    return dataclasses.replace(record, layout=layout, success=layout["goal_x"] < 0.3)


def random(record: EpisodeRecord, rng: np.random.Generator) -> EpisodeRecord:
    return dataclasses.replace(decided(record, rng), success=bool(rng.random() < 0.6))


def test_what_decides_is_found_and_what_is_chance_is_said_to_be(tmp_path: Path) -> None:
    (found,) = panels(tmp_path / "decided", decided)
    assert not found.chance
    assert "Where it begins matters" in found.words
    assert ">goal_x</text>" in found.figure or "goal_x up" in found.figure
    (other,) = panels(tmp_path / "random", random)
    assert other.chance
    assert "Chance would do the same" in other.words
    document = Document(write_report([tmp_path / "random"]))
    (figure,) = document.all("figure", class_="chance")
    assert "Chance would do the same" in document.text(figure)


def test_every_episode_is_a_mark_of_its_outcome(tmp_path: Path) -> None:
    run = rewritten(tmp_path / "run", decided)
    (panel,) = layout_panels([run])
    failed = sum(record.success is False for record in run.records)
    marks = {
        kind: panel.figure.split(f'class="dots {kind}"')[0].rpartition(' d="')[2]
        for kind in ("success", "failure")
    }
    assert marks["failure"].count("M") == failed
    assert marks["success"].count("M") == 30 - failed
    assert f"{failed} failures among 30 episodes" in panel.words


def test_tasks_without_failures_successes_or_layout_show_nothing(tmp_path: Path) -> None:
    for number, change in enumerate(
        (
            lambda record, rng: dataclasses.replace(decided(record, rng), success=True),
            lambda record, rng: dataclasses.replace(decided(record, rng), success=False),
            lambda record, rng: dataclasses.replace(decided(record, rng), layout={}),
            lambda record, rng: dataclasses.replace(decided(record, rng), layout={"only": rng.normal()}),
            lambda record, rng: dataclasses.replace(decided(record, rng), layout={"x": 1.0, "y": 2.0}),
        )
    ):
        assert panels(tmp_path / str(number), change) == []
    silent = [dataclasses.replace(SMALL[0], reports_success=False)]
    unknown = lambda record, rng: dataclasses.replace(decided(record, rng), success=None)  # noqa: E731
    assert panels(tmp_path / "silent", unknown, tasks=silent, tells_success=False) == []


def test_of_a_run_that_is_not_complete_only_what_was_chosen_beforehand_is_shown(tmp_path: Path) -> None:
    run = rewritten(tmp_path / "run", decided)
    (whole,) = layout_panels([run])
    assert "among 30" in whole.words
    gap = EpisodeKey(SMALL[0].group, 0, 20)
    alter(run.path, "episodes", lambda row: None if row["episode_index"] == gap.episode_index else row)
    (part,) = layout_panels([ScoredRun.open(run.path)])
    assert "among 20" in part.words


def test_p_values_are_corrected_for_the_number_of_tasks(tmp_path: Path) -> None:
    alone = float(panels(tmp_path / "one", decided)[0].words.rpartition("p = ")[2].rstrip("."))
    tasks = [Task("many", place, f"task-{place}", "", 50) for place in range(MOST_PANELS + 3)]
    many = panels(tmp_path / "many", decided, tasks=tasks)
    assert len(many) == MOST_PANELS
    assert alone < 0.001
    assert all(float(panel.words.rpartition("p = ")[2].rstrip(".")) >= 0.0005 * 1 for panel in many)
    assert max(float(panel.words.rpartition("p = ")[2].rstrip(".")) for panel in many) >= MOST_PANELS * 0.0005


def test_absurd_layouts_are_read_calmly(tmp_path: Path) -> None:
    def absurd(record: EpisodeRecord, rng: np.random.Generator) -> EpisodeRecord:
        layout = {
            "<script>alert(1)</script>" * 50: 1e307 * rng.normal(), "huge": 10**400, "nan": float("nan"),
            "tiny": 5e-324, "mixed": (-1) ** record.episode_index * 1e308,
        }  # fmt: skip
        return dataclasses.replace(random(record, rng), layout=layout)

    run = rewritten(tmp_path / "run", absurd)
    (panel,) = layout_panels([run])
    assert "<script>" not in panel.figure
    assert "nan" not in panel.figure.replace("nan from", "")
    assert Document(write_report([run.path])).all("section", id="layouts")
