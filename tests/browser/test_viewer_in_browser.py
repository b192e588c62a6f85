"""The viewer in a real browser: find a run, watch its videos, compare by clicking; live, on a phone, with keys."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_run import MadeUp, make_run

from harness import start_cli
from proctor.engine.video import VideoSink

FIRST = "group=easy&task=0&episode=0"
SIZES = {"phone": (360, 740), "wide": (1400, 900)}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs with videos, one of them half done, and a folder that is none."""
    place = tmp_path_factory.mktemp("viewed")
    video = place / "video.mp4"
    sink = VideoSink(video, 20, 20)
    for step in range(30):
        sink.add(np.full((96, 96, 3), 8 * step, np.uint8))
    sink.finish()
    for number in range(4):
        kind = MadeUp(
            video=video, skill=number / 4, policy=f"outputs/policy-{number}", ended=230 if number == 3 else None
        )
        make_run(place / f"day-{number}" / f"run-{number}", kind)
    (place / "broken").mkdir()
    (place / "broken" / "run.sqlite").write_bytes(b"no database " * 100)
    return place


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    """A viewer, as a process of its own."""
    process = start_cli("view", str(root), "--port=0")
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "viewing" in line
        yield line.split(" at ")[1].split()[0]
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_from_the_list_to_a_run_its_video_and_a_comparison(visiting: Any, address: str) -> None:
    with visiting(address) as visit:
        page = visit.page
        assert page.locator("#runs tbody tr").count() == 5
        page.get_by_role("searchbox", name="Filter").fill("policy-2 complete")
        assert page.locator("#runs tbody tr:visible").count() == 1
        assert page.locator("#how-many").text_content() == "1 of 5 runs"
        page.get_by_role("link", name="run-2").click()
        page.wait_for_url("**/run/day-2/run-2/")
        page.get_by_label("Outcome").select_option("failure")
        outcomes = page.locator("#episode-rows tbody tr:visible td:nth-child(3)").all_text_contents()
        assert outcomes
        assert set(outcomes) == {"failure"}
        page.get_by_label("Outcome").select_option("")
        page.locator("#episode-rows .watch").first.click()
        video = page.locator("#player video")
        page.wait_for_function(
            "v => v.played.length > 0 && v.played.end(0) > 0.2 && v.duration > 1", arg=video.element_handle()
        )
        page.locator("#player .to-end").click()
        page.wait_for_function("v => v.paused && v.duration - v.currentTime < 0.1", arg=video.element_handle())
        source = video.evaluate("v => v.src")
        page.locator("#next").click()
        page.wait_for_function(
            "([v, old]) => v.src !== old && v.readyState >= 1", arg=[video.element_handle(), source]
        )
        page.get_by_role("link", name="All runs").click()
        for name in ("run-1", "run-0"):  # the first that is clicked is the baseline
            page.get_by_role("checkbox", name=f"Choose {name},").check()
        page.get_by_role("button", name="Compare chosen runs").click()
        page.wait_for_url("**/compare/?run=day-1%2Frun-1&run=day-0%2Frun-0")
        assert page.locator("ol.runs strong").all_text_contents() == ["policy-1", "policy-0"]
        assert page.locator("#compare .verdict").text_content()
        page.get_by_role("link", name="the other way round").click()
        assert page.locator("ol.runs strong").first.text_content() == "policy-0"
        card = page.locator(".gallery video").first
        card.scroll_into_view_if_needed()
        page.wait_for_function("v => v.duration > 1 && v.error === null", arg=card.element_handle())
        visit.check_quiet(address)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_nothing_sticks_out(visiting: Any, address: str, screenshots: Path, size: str, scheme: str) -> None:
    width, height = SIZES[size]
    with visiting(address, viewport={"width": width, "height": height}, color_scheme=scheme) as visit:
        page = visit.page
        for name, path in (
            ("list", ""),
            ("run", "run/day-0/run-0/"),
            ("compare", "compare/?run=day-0/run-0&run=day-1/run-1"),
            ("problem", "run/broken/"),
            ("chart", "chart/?x=time"),
            ("episode", f"episode/day-0/run-0/?{FIRST}"),
        ):
            page.goto(address + path)
            if name == "run":
                page.locator(".watch").first.click()
                page.wait_for_function("() => document.querySelector('#player video').currentTime > 0")
            page.screenshot(path=screenshots / f"view-{name}-{size}-{scheme}.png", full_page=name != "list")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        visit.check_quiet(address)


def test_an_episode_s_video_and_numbers_go_together_and_keys_go_from_failure_to_failure(
    visiting: Any, address: str
) -> None:
    with visiting(f"{address}run/day-0/run-0/") as visit:
        page = visit.page
        page.locator('#episode-rows tr[data-outcome=failure] a[href^="/episode"]').first.click()
        page.wait_for_url("**/episode/day-0/run-0/**")
        first = page.title()
        trace, video = page.locator(".trace"), page.locator(".film video")
        assert trace.locator("path").count() >= 5  # reward, four numbers of an action
        box = trace.bounding_box()
        page.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + 40)
        page.wait_for_function(
            "v => Math.abs(v.currentTime / v.duration - 0.75) < 0.02", arg=video.element_handle()
        )
        # It has been at the end before, where a video that nobody has played yet waits.
        page.wait_for_function(
            "cursor => Math.abs(parseFloat(cursor.getAttribute('x1')) - 75) < 3",
            arg=trace.locator(".cursor").element_handle(),
        )
        assert "played" in trace.get_attribute("class").split()
        assert page.locator(".command .copy").count() == 3
        page.keyboard.press("ArrowLeft")  # there is none before the first
        page.keyboard.press("ArrowRight")
        page.wait_for_function("old => document.title !== old", arg=first)
        assert page.locator(".facts .outcome").text_content() == "failure"
        page.keyboard.press("ArrowLeft")
        page.wait_for_function("old => document.title === old", arg=first)
        visit.check_quiet(address)


def test_the_list_is_sorted_and_chosen_from_with_keys(visiting: Any, address: str) -> None:
    with visiting(address) as visit:
        page = visit.page
        page.locator("#runs thead button", has_text="Rate").focus()
        page.keyboard.press("Enter")
        rates = page.locator("#runs td.rate").evaluate_all("cells => cells.map(c => Number(c.dataset.value))")
        assert len(rates) == 5
        assert rates == sorted(rates, reverse=True)
        button = page.get_by_role("button", name="Compare chosen runs")
        assert button.is_disabled()
        for box in page.get_by_role("checkbox").all()[:2]:
            box.focus()
            page.keyboard.press("Space")
        assert button.is_enabled()
        assert page.get_by_role("status").text_content() == "2 chosen; the first is the baseline."
        table = page.get_by_role("table", name="Runs, the newest first")
        assert table.get_by_role("columnheader").count() == 12
        assert table.get_by_role("rowheader").count() == 5
        visit.check_quiet(address)


def test_without_scripts_runs_are_still_compared(visiting: Any, address: str) -> None:
    with visiting(address, java_script_enabled=False) as visit:
        page = visit.page
        for name in ("run-0", "run-1"):
            page.get_by_role("checkbox", name=f"Choose {name},").check()
        page.get_by_role("button", name="Compare chosen runs").click()
        assert page.get_by_role("heading", level=1).text_content() == "run-0 and run-1"
        page.goto(f"{address}run/day-0/run-0/?outcome=error")
        assert page.locator("#episode-rows tbody tr").count() == 3
