"""A button on an episode's page has it filmed; video and observed numbers are there when it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import SUPPORT, flags, lay_out, run_cli, start_cli, tiny_tree
from proctor.store.lock import RunLock

EPISODE = "episode/run/?group=a&task=0&episode=0"
SIZES = {"phone": (390, 844), "wide": (1400, 900)}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run of a benchmark that comes with an installed package, filmed nowhere, and a viewer's surroundings."""
    place = tmp_path_factory.mktemp("filmed")
    lay_out(place / "site", "tiny-benchmark", "[proctor.benchmarks]\ntiny-installed = tiny:Tiny\n")
    with pytest.MonkeyPatch.context() as patch:
        paths = [str(place / "site"), str(SUPPORT), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        env = {"type": "tiny-installed", "max_steps": 30}
        done = run_cli("eval", *flags(tiny_tree(place / "runs" / "run", task="a", n_episodes=3, env=env)))
        assert done.returncode == 0, done.stderr
        yield place / "runs"


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    process = start_cli("view", str(root), "--port=0")
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split(" at ")[1].split()[0]
    finally:
        process.kill()
        process.communicate()


def test_a_click_films_the_episode_and_an_error_is_told(
    visiting: Any, address: str, root: Path, screenshots: Path
) -> None:
    with visiting(f"{address}{EPISODE}") as visit:
        page = visit.page
        button, status = (
            page.get_by_role("button", name="Film this episode"),
            page.locator(".film-request [role=status]"),
        )
        assert status.text_content() == "There is no video of it."
        page.screenshot(path=screenshots / "film-request.png")
        with RunLock(root / "run"):  # as if somebody wrote to it
            button.click()
            page.wait_for_function(
                "s => s.textContent.includes('is being written by process')", arg=status.element_handle()
            )
        assert button.is_enabled()
        with page.expect_navigation():
            button.click()  # again; the page is made anew when it is done
        video = page.locator(".film video")
        video.wait_for()
        assert page.locator(".film-request").count() == 0
        names = page.locator(".trace .lane-name").all_text_contents()
        assert {"reward", "action 0", "observation.state 0", "observation.state 2"} <= set(names)
        video.evaluate("v => { v.muted = true; v.play(); }")
        page.wait_for_function("v => v.currentTime > 0.1", arg=video.element_handle())
        visit.check_quiet(address)
    assert [found.name for found in root.glob("run/videos/*/*.mp4")] == ["eval_episode_0.mp4"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("episode", [0, 1])
def test_the_page_fits_with_and_without_a_film(
    visiting: Any, address: str, screenshots: Path, size: str, scheme: str, episode: int
) -> None:
    width, height = SIZES[size]
    where = EPISODE.replace("episode=0", f"episode={episode}")
    with visiting(f"{address}{where}", viewport={"width": width, "height": height}, color_scheme=scheme) as visit:
        page = visit.page
        page.locator(".trace").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.screenshot(path=screenshots / f"episode-{episode}-{size}-{scheme}.png", full_page=True)
        visit.check_quiet(address)
