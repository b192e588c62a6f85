"""A real browser for pages that Proctor makes.

Without playwright these tests are not collected; `make test-browser` has it, and sees that there is a Chromium.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if importlib.util.find_spec("playwright") is None:
    collect_ignore_glob = ["*.py"]

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests, driven by Playwright, which brings none of its own."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install -y chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.fixture(autouse=True)
def nothing_left_behind(browser: Browser) -> Iterator[None]:
    """In place of the check of the other tests: the browser's processes stay until all are done."""
    before = {child.pid for child in psutil.Process().children()}
    yield
    assert {child.pid for child in psutil.Process().children()} <= before


@dataclass
class Visit:
    """A page that is open in the browser, with what it said and asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    asked_for: list[str] = field(default_factory=list)

    def check_quiet(self, *allowed: str) -> None:
        """Fail if there was an error, or if anything was asked for that does not begin like one of `allowed`."""
        assert self.complaints == []
        left = [address for address in self.asked_for if not address.startswith(("data:", "blob:", *allowed))]
        assert left == []


Visiting = Callable[..., Any]


@pytest.fixture
def visiting(browser: Browser) -> Visiting:
    """Return `visiting(address, **options of Browser.new_context)`, a context manager that gives a `Visit`.

    No request leaves the machine: what is neither a file nor on this machine is refused and noted.
    """

    @contextmanager
    def visit(address: str, **options: Any) -> Iterator[Visit]:
        context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **options})
        try:
            page = context.new_page()
            found = Visit(page)

            def note(request: Request) -> None:
                found.asked_for.append(request.url)

            page.on("request", note)
            page.on(
                "console", lambda m: found.complaints.append(m.text) if m.type in ("error", "warning") else None
            )
            page.on("pageerror", lambda error: found.complaints.append(str(error)))
            context.route("http://**", lambda route: _only_here(route))
            context.route("https://**", lambda route: _only_here(route))
            page.goto(address)
            yield found
        finally:
            context.close()

    return visit


def _only_here(route: Any) -> None:
    here = route.request.url.startswith(("http://127.0.0.1", "http://localhost"))
    route.continue_() if here else route.abort()


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures go: $PROCTOR_SCREENSHOTS, for a person to look at, or a place that nobody looks at."""
    named = os.environ.get("PROCTOR_SCREENSHOTS")
    place = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    place.mkdir(parents=True, exist_ok=True)
    return place
