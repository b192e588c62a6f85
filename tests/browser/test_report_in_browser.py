"""The report in a real browser: every figure is drawn, videos play, nothing leaves the machine, keys suffice."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from made_up_run import MadeUp, make_run

from proctor.engine.video import VideoSink
from proctor.report.page.page import write_report

# What was played, and not what is shown at the moment: on a busy machine a short clip is over between two looks.
PLAYED = "v => v.played.length > 0 && v.played.start(0) < 0.1 && v.played.end(0) > 0.3"

SIZES = {"phone": (360, 740), "wide": (1400, 900)}


@pytest.fixture(scope="session")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second and a half of H.264, as runs make it: it brightens towards its end."""
    path = tmp_path_factory.mktemp("video") / "video.mp4"
    sink = VideoSink(path, 20, 20)
    for step in range(30):
        sink.add(np.full((96, 96, 3), 8 * step, np.uint8))
    sink.finish()
    return path


@pytest.fixture(scope="session")
def single(tmp_path_factory: pytest.TempPathFactory, video: Path) -> Path:
    """The report of 500 episodes over 50 tasks, with 50 videos."""
    return write_report([make_run(tmp_path_factory.mktemp("single") / "run", MadeUp(video=video))])


@pytest.fixture(scope="session")
def several(tmp_path_factory: pytest.TempPathFactory, video: Path) -> Path:
    """Two runs side by side."""
    place = tmp_path_factory.mktemp("several")
    kinds = {"first": MadeUp(video=video), "second": MadeUp(video=video, skill=0.5, policy="other")}
    return write_report([make_run(place / name, kind) for name, kind in kinds.items()], place / "both.html")


def brightness(png: bytes) -> float:
    """Return how bright the middle of a picture is, of 255."""
    with av.open(io.BytesIO(png)) as picture:
        (frame,) = picture.decode(video=0)
    pixels = frame.to_ndarray(format="gray")
    return float(pixels[pixels.shape[0] // 3, pixels.shape[1] // 2])


def unfolded(page: Any) -> None:
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("which", ["single", "several"])
def test_every_figure_is_drawn_and_nothing_sticks_out(
    request: pytest.FixtureRequest, visiting: Any, screenshots: Path, which: str, size: str, scheme: str
) -> None:
    path: Path = request.getfixturevalue(which)
    width, height = SIZES[size]
    with visiting(path.as_uri(), viewport={"width": width, "height": height}, color_scheme=scheme) as visit:
        page = visit.page
        page.screenshot(path=screenshots / f"report-{which}-{size}-{scheme}.png", full_page=True)
        unfolded(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        boxes = page.evaluate(
            """[...document.querySelectorAll('svg.figure')].map(svg => {
                const box = svg.getBoundingClientRect();
                return [svg.id, box.width, box.height, svg.querySelectorAll('path, rect, line, circle').length];
            })"""
        )
        assert len(boxes) > 100
        assert all(wide > 30 and high > 8 and marks > 0 for _, wide, high, marks in boxes)
        # Curves have an extent of their own: a path that was drawn wrongly has none.
        extents = page.evaluate(
            """[...document.querySelectorAll('path.curve')].map(p => {
                const box = p.getBoundingClientRect(); return box.width + box.height; })"""
        )
        assert len(extents) > 100
        assert min(extents) > 5
        visit.check_quiet(path.as_uri(), (path.parent / "videos").as_uri(), path.parent.as_uri())


def test_text_has_one_size_whatever_the_width(visiting: Any, single: Path) -> None:
    sizes = []
    for width, height in SIZES.values():
        with visiting(single.as_uri(), viewport={"width": width, "height": height}) as visit:
            tick = visit.page.locator("#steps svg.figure text").first
            sizes.append(tick.evaluate("t => [getComputedStyle(t).fontSize, t.getBoundingClientRect().height]"))
    assert sizes[0] == sizes[1]


def test_videos_play_seek_to_their_end_and_start_over(visiting: Any, single: Path) -> None:
    with visiting(single.as_uri()) as visit:
        page = visit.page
        first = page.locator(".gallery video").first
        # Nothing is fetched before it is seen.
        assert not [address for address in visit.asked_for if address.endswith(".mp4")]
        first.scroll_into_view_if_needed()
        # Once seen it shows its last frame.
        page.wait_for_function(
            "v => v.duration > 1 && v.duration - v.currentTime < 0.1 && !v.seeking", arg=first.element_handle()
        )
        assert brightness(first.screenshot()) > 200
        first.evaluate("v => v.play()")
        page.wait_for_function(PLAYED, arg=first.element_handle())
        page.get_by_role("button", name="to the end").first.click()
        page.wait_for_function("v => v.paused && v.duration - v.currentTime < 0.1", arg=first.element_handle())
        assert first.evaluate("v => v.error") is None
        visit.check_quiet(single.as_uri(), (single.parent / "videos").as_uri())


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory, single: Path) -> Path:
    """The same report with its videos inside."""
    return write_report([single.parent], tmp_path_factory.mktemp("alone") / "alone.html", embed_videos=True)


def test_embedded_videos_play_from_a_file_that_lies_alone(visiting: Any, alone: Path) -> None:
    with visiting(alone.as_uri()) as visit:
        video = visit.page.locator(".gallery video").first
        video.scroll_into_view_if_needed()
        video.evaluate("v => { v.play(); }")
        visit.page.wait_for_function(PLAYED, arg=video.element_handle())
        visit.check_quiet(alone.as_uri())


@pytest.mark.parametrize("which", ["single", "alone"])
@pytest.mark.parametrize(
    "moment", ["unseen", "loadstart", "durationchange", "loadedmetadata", "seeking", "loadeddata", "seeked"]
)
def test_a_video_plays_from_its_start_whenever_play_is_pressed(
    request: pytest.FixtureRequest, visiting: Any, which: str, moment: str
) -> None:
    """Once seen it is moved to its last frame, and that takes a while: who presses play meanwhile is served."""
    with visiting(request.getfixturevalue(which).as_uri()) as visit:
        video = visit.page.locator(".gallery video").first
        if moment == "unseen":
            video.evaluate("v => { v.play(); }")
        else:
            video.evaluate(
                "(v, moment) => v.addEventListener(moment, () => { v.play().catch(() => {}); }, {once: true})",
                moment,
            )
        video.scroll_into_view_if_needed()
        visit.page.wait_for_function(PLAYED, arg=video.element_handle())


def test_without_scripts_everything_is_there(visiting: Any, single: Path) -> None:
    with visiting(single.as_uri(), java_script_enabled=False) as visit:
        page = visit.page
        assert page.locator("table.tasks tbody tr").count() == 54
        assert page.locator(".gallery video[controls]").count() == 50
        assert page.locator(".filters").is_hidden()
        page.locator("#steps details summary").click()
        assert page.locator("#steps details table").is_visible()
        visit.check_quiet(single.as_uri(), (single.parent / "videos").as_uri())


def test_the_page_is_walked_with_keys_alone(visiting: Any, single: Path) -> None:
    with visiting(single.as_uri()) as visit:
        page = visit.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
        seen = []
        for _ in range(24):
            page.keyboard.press("Tab")
            seen.append(page.evaluate("document.activeElement.textContent.trim()"))
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
        assert seen[:3] == ["Result", "Tasks", "Steps"]
        assert "Success" in seen
        summary = page.locator("#steps summary")
        summary.focus()
        page.keyboard.press("Enter")
        assert page.locator("#steps details").get_attribute("open") is not None


def test_a_table_is_sorted_by_a_key_on_its_heading_inside_its_groups(visiting: Any, single: Path) -> None:
    with visiting(single.as_uri()) as visit:
        page = visit.page
        button = page.locator("table.tasks thead button", has_text="Success")
        button.focus()
        page.keyboard.press("Enter")
        assert page.locator("table.tasks th[aria-sort=descending]").count() == 1
        rates = (
            page.locator("table.tasks tbody")
            .first.locator("tr:not(.group) td:nth-child(3)")
            .evaluate_all("cells => cells.map(c => Number(c.dataset.value))")
        )
        assert len(rates) == 28
        assert rates == sorted(rates, reverse=True)
        assert page.locator("table.tasks tbody").first.locator("tr").first.get_attribute("class") == "group"
        page.keyboard.press("Enter")
        assert page.locator("table.tasks th[aria-sort=ascending]").count() == 1


def test_the_gallery_is_filtered_by_task(visiting: Any, single: Path) -> None:
    with visiting(single.as_uri()) as visit:
        page = visit.page
        unfolded(page)
        page.get_by_role("searchbox", name="Task").fill("door")
        shown = page.locator(".gallery > li:visible .card-title").all_text_contents()
        assert shown
        assert all("door" in name for name in shown)


def test_a_mark_of_the_timeline_tells_its_episode(visiting: Any, single: Path) -> None:
    with visiting(single.as_uri()) as visit:
        mark = visit.page.locator(".timeline rect.lane").nth(3)
        mark.scroll_into_view_if_needed()
        mark.hover()
        assert visit.page.locator(".tip").text_content() == mark.locator("title").text_content()


def test_a_screen_reader_finds_landmarks_headings_tables_and_pictures(visiting: Any, several: Path) -> None:
    with visiting(several.as_uri()) as visit:
        page = visit.page
        for landmark in ("banner", "navigation", "main", "contentinfo"):
            assert page.get_by_role(landmark).count() == 1, landmark
        assert page.get_by_role("heading", level=1).count() == 1
        assert page.get_by_role("heading", level=2).count() == 9
        assert page.get_by_role("img", name="Success against steps").count() == 1
        assert page.get_by_role("img", name="Which worker ran which episode when").count() == 2
        tasks = page.get_by_role("table", name="Success rate of each task")
        assert tasks.get_by_role("rowheader", name="reach-v3", exact=True).count() == 1
        unnamed = page.locator("button:visible").evaluate_all(
            "all => all.filter(b => !b.textContent.trim()).length"
        )
        assert unnamed == 0


def test_on_a_phone_a_table_stays_a_table(visiting: Any, single: Path) -> None:
    with visiting(single.as_uri(), viewport={"width": 360, "height": 740}) as visit:
        tasks = visit.page.get_by_role("table", name="Success rate of each task")
        assert tasks.get_by_role("row").count() == 55
        assert tasks.get_by_role("rowheader", name="reach-v3", exact=True).count() == 1


def test_on_paper_all_is_unfolded_and_dark_ink_is_on_light_paper(
    visiting: Any, single: Path, screenshots: Path
) -> None:
    with visiting(single.as_uri(), color_scheme="dark") as visit:
        page = visit.page
        pdf = page.pdf(path=screenshots / "report.pdf", format="A4", print_background=True)
        assert pdf.startswith(b"%PDF")
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("#steps details table").is_visible()
        assert page.locator("nav").is_hidden()
        ink, paper = page.evaluate("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
        assert (ink, paper) == ("rgb(0, 0, 0)", "rgb(255, 255, 255)")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("#steps details").get_attribute("open") is None


def test_it_opens_at_once(visiting: Any, single: Path) -> None:
    """What makes a page slow to open: many elements and much script. Both are bounded, not the clock."""
    with visiting(single.as_uri()) as visit:
        elements = visit.page.evaluate("document.querySelectorAll('*').length")
        assert elements < 15_000
        print(f"{elements} elements, opened in {_opened_in(visit.page):.0f} ms", file=sys.stderr)  # noqa: T201


def _opened_in(page: Any) -> float:
    return float(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
