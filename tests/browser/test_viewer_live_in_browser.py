"""A run that goes on, in a real browser: all of its page arrives by itself, and it becomes the final one."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness import flags, start_cli, tiny_tree
from proctor.report.console import percent
from proctor.results import ScoredRun
from viewers import viewer

PATIENCE = 120_000


@contextmanager
def going_on(path: Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Evaluate on a slow tiny benchmark: some episodes fail at the limit of steps, and some cannot be run."""
    mischief = "step.raise:b:1:2 step.raise:b:9:2"
    env = {"delay": 0.02, "max_steps": 9, "mischief": mischief, **options.pop("env", {})}
    process = start_cli("eval", *flags(tiny_tree(path, env=env, **options)))
    try:
        yield process
    finally:
        process.communicate(timeout=120)
        shutil.rmtree(path, ignore_errors=True)


def page_says(page: Any) -> dict[str, Any]:
    """Return what the page says of the run at one moment."""
    found: dict[str, Any] = page.evaluate(
        """() => ({
          rates: [...document.querySelectorAll('.value')].map((one) => one.textContent.trim()),
          tasks: [...document.querySelectorAll('#tasks tbody tr')].map((row) => row.innerText),
          episodes: document.querySelectorAll('#episode-rows tbody tr').length,
          errors: document.querySelectorAll('#episode-rows tr[data-outcome=error]').length,
          marks: document.querySelectorAll('#time .timeline svg rect').length,
        })"""
    )
    return found


def test_rate_tasks_episodes_and_errors_arrive_and_the_page_becomes_the_final_one(
    visiting: Any, tmp_path: Path, screenshots: Path
) -> None:
    path = tmp_path / "runs" / "going"
    path.parent.mkdir()
    with (
        viewer(str(path.parent)) as seen,
        going_on(path, n_episodes=60, job_name="going_on") as process,
        visiting(f"http://127.0.0.1:{seen.port}/") as visit,
    ):
        page = visit.page
        page.get_by_role("link", name="going_on").click(timeout=PATIENCE)  # the list finds it by itself
        page.wait_for_function(
            "() => document.querySelectorAll('#episode-rows tbody tr').length > 4", timeout=PATIENCE
        )
        page.evaluate("window.same = true")
        page.locator("#episode-rows thead button", has_text="Steps").click()  # an order of the reader's own
        page.locator("#episode-rows a.open").first.focus()
        first = page_says(page)
        assert len(first["rates"]) == 1
        page.wait_for_function(
            """(first) => document.querySelectorAll('#episode-rows tbody tr').length > first.episodes + 10
              && document.querySelector('#episode-rows tr[data-outcome=error]')
              && document.querySelector('.value').textContent.trim() !== first.rates[0]""",
            arg=first,
            timeout=PATIENCE,
        )
        later = page_says(page)
        assert page.evaluate("window.same") is True  # nothing was loaded again
        assert page.evaluate("document.activeElement.matches('#episode-rows a.open')")
        assert len(later["rates"]) == 1
        assert later["tasks"] != first["tasks"]
        assert later["marks"] > first["marks"]
        steps = page.locator("#episode-rows tbody td:nth-child(6)").all_text_contents()
        assert [int(one) for one in steps] == sorted(map(int, steps), reverse=True)
        page.locator("#live dd.errors").wait_for(timeout=PATIENCE)
        where = page.locator("#result a", has_text="could not be run").get_attribute("href")
        assert "the simulator fell over" in page.locator(where).inner_text()
        page.screenshot(path=screenshots / "view-live.png", full_page=True)
        page.wait_for_function("() => document.querySelector('#live') === null", timeout=PATIENCE)
        assert process.wait(timeout=120) == 3  # episodes that could not be run
        page.wait_for_selector(".value")
        run = ScoredRun.open(path)
        last = page_says(page)
        assert last["rates"] == [percent(run.results.overall).replace(" ", "\xa0")]
        assert (last["episodes"], last["errors"]) == (180, run.results.result.errors)
        assert run.results.result.errors == 2
        answer = page.request.get(f"http://127.0.0.1:{seen.port}/episodes/going/?format=json")
        assert answer.json() == json.loads(json.dumps([record.to_row() for record in run.records]))
        visit.check_quiet(f"http://127.0.0.1:{seen.port}/")


def test_a_filter_and_a_watched_page_stay_as_they_are_while_episodes_arrive(visiting: Any, tmp_path: Path) -> None:
    path = tmp_path / "runs" / "going"
    path.parent.mkdir()
    with (
        viewer(str(path.parent)) as seen,
        going_on(path, n_episodes=100, job_name="going_on"),
        visiting(f"http://127.0.0.1:{seen.port}/") as visit,
    ):
        page = visit.page
        page.get_by_role("link", name="going_on").click(timeout=PATIENCE)
        page.wait_for_function(
            "() => document.querySelectorAll('#episode-rows tbody tr').length > 2", timeout=PATIENCE
        )
        page.get_by_role("button", name="Keys").wait_for(timeout=PATIENCE)  # its scripts have run
        page.keyboard.press("/")
        page.keyboard.type("b")
        before = page.locator("#episode-rows tbody tr").count()
        page.wait_for_function(
            "(n) => document.querySelectorAll('#episode-rows tbody tr').length > n + 6",
            arg=before,
            timeout=PATIENCE,
        )
        names = page.locator("#episode-rows tbody tr:visible td:first-child").all_text_contents()
        assert set(names) == {"b"}
        assert page.evaluate("document.activeElement.name") == "task"
        page.wait_for_url("**/?task=b", timeout=PATIENCE)
        assert set(page.locator("#episode-rows tbody td:first-child").all_text_contents()) == {"b"}
        assert page.locator("#episode-rows tbody tr").count() == 100
        assert page.locator("#live").count() == 0
        visit.check_quiet(f"http://127.0.0.1:{seen.port}/")


@pytest.mark.parametrize("size", [(390, 844), (1400, 900)])
def test_a_run_that_was_killed_says_why_and_shows_what_was_there(
    visiting: Any, tmp_path: Path, screenshots: Path, size: tuple[int, int]
) -> None:
    path = tmp_path / "runs" / "killed"
    path.parent.mkdir()
    mischief = (
        "step.print:*:*:2 step.regicide:c:3:2"  # the process that runs it all is killed, and its children go
    )
    tree = tiny_tree(
        path, n_episodes=6, env={"mischief": mischief},
        tags="night", notes="on the old node",
    )  # fmt: skip
    process = start_cli("eval", *flags(tree))
    process.communicate(timeout=120)
    assert process.returncode != 0
    with viewer(str(path.parent)) as seen, visiting(
        f"http://127.0.0.1:{seen.port}/run/killed/", viewport={"width": size[0], "height": size[1]}
    ) as visit:  # fmt: skip
        page = visit.page
        words = page.locator("main, header").all_text_contents()
        said = " ".join(words)
        for told in ("Why it stopped", "was killed", "a simulator says hello", "night", "on the old node"):
            assert told in said, told
        page.screenshot(path=screenshots / f"view-killed-{size[0]}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        visit.check_quiet(f"http://127.0.0.1:{seen.port}/")
