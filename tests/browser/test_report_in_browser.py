"""The report in a real browser: every figure is drawn, videos play, nothing leaves the machine, keys suffice."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from made_up_run import MadeUp, alter, make_run

from proctor.engine.video import VideoSink
from proctor.report.page.page import write_report
from proctor.types import Task

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
            """[...document.querySelectorAll('svg.figure:not(.scale-y)')].map(svg => {
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
        for _ in range(40):
            page.keyboard.press("Tab")
            seen.append(page.evaluate("document.activeElement.textContent.trim()"))
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
        assert seen[:3] == ["Result", "Tasks", "Steps"]
        assert "Success" in seen  # a heading that sorts
        summary = page.locator("#steps summary")
        summary.focus()
        page.keyboard.press("Enter")
        assert page.locator("#steps details").get_attribute("open") is not None


def test_a_table_is_sorted_by_a_key_on_its_heading_inside_its_groups(visiting: Any, single: Path) -> None:
    with visiting(single.as_uri()) as visit:
        page = visit.page
        button = page.locator("table.tasks").get_by_role("button", name="Success", exact=True)
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
            "all => all.filter(b => !b.textContent.trim() && !b.getAttribute('aria-label')).length"
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


NARROW = {"width": 390, "height": 844}


@pytest.fixture(scope="session")
def died(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run with errors that ended before its plan, with long names and long lines in its log."""
    tasks = [Task("a group", place, f"{'a-very-long-name-' * 4}{place}", "do it", 300) for place in range(4)]
    run = make_run(tmp_path_factory.mktemp("died") / "run", MadeUp(tasks=tasks, n_episodes=6, errors=2, ended=10))
    reason = f"the policy was lost: {'/a/long/path' * 20} is gone"
    alter(run, "sessions", lambda row: {**row, "ending": reason})
    (run / "logs").mkdir()
    (run / "logs" / "host.log").write_text(f"{'x' * 290}\nlast words\n")
    return write_report([run])


@pytest.mark.parametrize("which", ["single", "several", "died"])
def test_at_390_pixels_nothing_sticks_out_and_what_scrolls_does_so_in_its_own_box(
    request: pytest.FixtureRequest, visiting: Any, which: str
) -> None:
    with visiting(request.getfixturevalue(which).as_uri(), viewport=NARROW) as visit:
        page = visit.page
        unfolded(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        outside = page.evaluate(
            """[...document.querySelectorAll('main *, header *, footer *')].filter(e => {
                const box = e.getBoundingClientRect();
                return box.width > 0 && box.right > 391 && !e.closest('.scroll, pre, .timeline, svg svg');
            }).map(e => e.outerHTML.slice(0, 120))"""
        )
        assert outside == []


def test_the_comparison_is_whole_at_390_pixels(visiting: Any, several: Path) -> None:
    with visiting(several.as_uri(), viewport=NARROW) as visit:
        page = visit.page
        unfolded(page)
        boxes = page.locator(".differences tbody .bar-cell svg").evaluate_all(
            "all => all.map(svg => { const b = svg.getBoundingClientRect(); return [b.left, b.right]; })"
        )
        assert len(boxes) > 50
        assert all(left >= 0 and right <= 390 and right - left > 250 for left, right in boxes)
        # Nothing of the table is left out, nor has it to be scrolled to.
        row = page.locator(".differences tbody tr").first
        assert row.locator("td:visible").count() >= 6
        scrolled = page.locator(".scroll:has(.differences)").evaluate_all(
            "all => all.map(box => box.scrollWidth - box.clientWidth)"
        )
        assert max(scrolled) <= 0


@pytest.mark.parametrize("viewport", [NARROW, {"width": 1400, "height": 900}])
def test_a_warning_stands_beside_the_number_and_above_the_fold(
    visiting: Any, died: Path, viewport: dict[str, int]
) -> None:
    with visiting(died.as_uri(), viewport=viewport) as visit:
        page = visit.page
        number = page.locator(".big .value").bounding_box()
        for alert in page.locator(".alert").all():
            box = alert.bounding_box()
            assert box["y"] + box["height"] <= viewport["height"]
            assert abs(box["y"] - number["y"]) < 300
        assert page.locator(".alert.error").count() == 1
        assert page.locator(".alert.warning").count() >= 1
        page.locator(".alert.warning").first.click()
        assert page.locator("#ending-0").is_visible()
        assert "last words" in page.locator("#ending-0").inner_text()


def test_a_task_below_100_per_cent_leads_to_its_row(visiting: Any, single: Path) -> None:
    with visiting(single.as_uri()) as visit:
        page = visit.page
        rates = page.locator(".shortfalls").first.locator(".n").all_inner_texts()
        assert len(rates) == 10
        assert rates == sorted(rates, key=lambda text: float(text.split()[0]))
        link = page.locator(".shortfalls a").first
        name = link.inner_text()
        link.click()
        row = page.locator("tr:target")
        assert row.locator("th").inner_text() == name
        box = row.bounding_box()
        assert 0 <= box["y"] < 900


@pytest.mark.parametrize("which", ["single", "several"])
def test_all_of_a_heading_sorts_and_its_arrow_says_how(
    request: pytest.FixtureRequest, visiting: Any, which: str
) -> None:
    with visiting(request.getfixturevalue(which).as_uri()) as visit:
        page = visit.page
        table = page.locator("table.tasks")
        heading = table.locator("th", has=page.get_by_role("button", name="k/n", exact=True))
        arrow = heading.locator(".arrow")
        shown = "a => getComputedStyle(a, '::before').content"
        assert arrow.evaluate(shown) == '"↕"'
        heading.scroll_into_view_if_needed()
        box = heading.bounding_box()
        for x, y in ((2, 2), (box["width"] - 2, box["height"] - 3)):  # its corners, not only its words
            page.mouse.click(box["x"] + x, box["y"] + y)
        # Twice: the largest first, then the smallest.
        assert heading.get_attribute("aria-sort") == "ascending"
        assert arrow.evaluate(shown) == '"▲"'
        heading.get_by_role("button").focus()
        page.keyboard.press("Enter")
        assert heading.get_attribute("aria-sort") == "descending"
        assert arrow.evaluate(shown) == '"▼"'
        page.keyboard.press("Space")
        assert heading.get_attribute("aria-sort") == "ascending"
        assert table.locator("th[aria-sort]").count() == 1
        # Words begin with the first of the alphabet.
        table.get_by_role("button", name="Task", exact=True).click()
        assert heading.get_attribute("aria-sort") is None
        names = table.locator("tbody").first.locator("tr:not(.group) th").all_inner_texts()
        assert names == sorted(names)


def test_a_comparison_is_sorted_by_its_differences(visiting: Any, several: Path) -> None:
    with visiting(several.as_uri()) as visit:
        page = visit.page
        unfolded(page)
        table = page.locator("table.differences").last
        table.get_by_role("button", name="Difference", exact=True).click()
        values = table.locator("tbody tr td:nth-child(3)").evaluate_all(
            "all => all.map(c => Number(c.dataset.value))"
        )
        assert len(values) == 50
        assert values == sorted(values, reverse=True)
        assert values[0] > values[-1]


def test_what_has_no_value_comes_last_either_way(visiting: Any, single: Path) -> None:
    with visiting(single.as_uri()) as visit:
        page = visit.page
        button = page.locator("table.tasks").get_by_role("button", name="Errors", exact=True)
        column = button.evaluate("b => b.closest('th').cellIndex + 1")
        cells = page.locator(f"table.tasks tbody tr:not(.group) td:nth-child({column})")
        for _ in range(2):
            button.click()
            texts = [text.strip() for text in cells.all_inner_texts()]
            assert any(texts)
        assert button.evaluate("b => b.closest('th').getAttribute('aria-sort')") == "ascending"


OVERLAPS = """([figures, curves]) => [...document.querySelectorAll(figures)].flatMap(plot => {
    const labels = [...plot.querySelectorAll('text.tick')].map(t => t.getBoundingClientRect());
    const drawn = [...plot.querySelectorAll(curves)].map(c => c.closest('svg').getBoundingClientRect());
    const hit = (a, b) =>
        a.left < b.right - 1 && a.right > b.left + 1 && a.top < b.bottom - 1 && a.bottom > b.top + 1;
    const pairs = labels.flatMap((a, i) => labels.slice(i + 1).map(b => [a, b]));
    return [{
        labels: labels.length,
        onCurves: labels.filter(label => drawn.some(box => hit(label, box))).length,
        onEachOther: pairs.filter(([a, b]) => hit(a, b)).length,
    }];
})"""


@pytest.mark.parametrize("viewport", [NARROW, {"width": 1400, "height": 900}])
def test_figures_have_ticks_and_no_label_lies_on_a_curve_or_another_label(
    visiting: Any, single: Path, viewport: dict[str, int]
) -> None:
    with visiting(single.as_uri(), viewport=viewport) as visit:
        page = visit.page
        unfolded(page)
        for section, at_least in (("#rewards", 4), ("#steps", 8)):
            found = page.evaluate(OVERLAPS, [f"{section} .plot", "path.curve"])
            assert len(found) >= (50 if section == "#rewards" else 1)
            assert min(one["labels"] for one in found) >= at_least
            assert [one for one in found if one["onCurves"] or one["onEachOther"]] == []
            # Each plot has ticks at its axis, too.
            assert page.locator(f"{section} .plot line.axis").count() >= 3 * len(found)


def test_controls_of_a_video_lie_below_its_picture_and_obey_keys(visiting: Any, single: Path) -> None:
    with visiting(single.as_uri()) as visit:
        page = visit.page
        card = page.locator(".gallery figure").first
        video, controls = card.locator("video"), card.locator(".video-controls")
        video.scroll_into_view_if_needed()
        picture, below = video.bounding_box(), controls.bounding_box()
        assert below["y"] >= picture["y"] + picture["height"]
        assert video.evaluate("v => v.controls") is False
        page.wait_for_function("v => v.duration > 1 && !v.seeking", arg=video.element_handle())
        controls.get_by_role("button", name="play").focus()
        page.keyboard.press("Enter")
        page.wait_for_function(PLAYED, arg=video.element_handle())
        place = controls.get_by_role("slider")
        video.evaluate("v => v.pause()")
        page.wait_for_function("v => v.paused", arg=video.element_handle())
        place.focus()
        page.keyboard.press("Home")
        page.wait_for_function("v => !v.seeking && v.currentTime < 0.1", arg=video.element_handle())
        page.keyboard.press("End")
        page.wait_for_function("v => !v.seeking && v.duration - v.currentTime < 0.1", arg=video.element_handle())


def test_without_scripts_tables_are_plain_and_videos_have_the_browsers_controls(
    visiting: Any, single: Path
) -> None:
    with visiting(single.as_uri(), java_script_enabled=False) as visit:
        page = visit.page
        assert page.locator("thead button").count() == 0
        assert page.locator(".arrow").count() == 0
        assert page.locator("table.tasks thead th").first.inner_text() == "Task"
        assert page.locator("video:not([controls])").count() == 0
        assert page.locator(".shortfalls").first.locator("a").count() == 10


def test_the_width_is_used(visiting: Any, single: Path) -> None:
    with visiting(single.as_uri()) as visit:
        page = visit.page
        for place in ("table.tasks", "#steps .plot", "#rewards .panels", ".timeline"):
            assert page.locator(place).first.bounding_box()["width"] >= 1250, place
        # Words are not: a line of more than some 90 letters is hard to read.
        assert page.locator("#rewards .note").bounding_box()["width"] <= 800


def test_no_colour_is_used_in_two_meanings(visiting: Any, single: Path) -> None:
    with visiting(single.as_uri()) as visit:
        page = visit.page
        unfolded(page)

        def colour(selector: str, name: str) -> str:
            return str(page.locator(selector).first.evaluate(f"e => getComputedStyle(e)['{name}']"))

        seen = {
            "link": colour("nav a", "color"),
            "success": colour("table.tasks rect.bar", "fill"),
            "failure": colour(".timeline .lane.failure", "fill"),
            "error": colour(".alert.error", "borderLeftColor"),
            **{use: colour(f".spent.{use}", "fill") for use in ("simulate", "draw", "wait", "start")},
        }
        assert len(set(seen.values())) == len(seen), seen
        assert colour(".headline svg rect.bar", "fill") == seen["success"]
