"""The viewer by keyboard alone, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from made_up_run import MadeUp, make_run

from proctor.store.run_directory import RunDirectory
from viewers import viewer

TRAINING = "outputs/train/act/checkpoints"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A viewer over four runs, three of them of one training."""
    place = tmp_path_factory.mktemp("viewed")
    for number in range(4):
        policy = f"{TRAINING}/{1000 * (number + 1):06}/pretrained_model" if number < 3 else "expert.py:Expert"
        run = make_run(place / f"run-{number}", MadeUp(n_episodes=2, skill=number / 4, policy=policy))
        config = {"policy": {"type": "lerobot", "path": policy}, "env": {"type": "metaworld"}}
        RunDirectory(run).write_config({**config, "tags": "even" if number % 2 == 0 else "odd"})
    with viewer(str(place)) as seen:
        yield f"http://127.0.0.1:{seen.port}/"


def here(page: Any) -> str:
    """Return the name of the run whose row has the focus."""
    name: str = page.evaluate("document.activeElement.closest('tr')?.dataset.key ?? ''")
    return name


def test_rows_are_walked_chosen_compared_and_opened(visiting: Any, address: str) -> None:
    with visiting(address) as visit:
        page = visit.page
        order = page.locator("#runs tbody tr").evaluate_all("rows => rows.map((row) => row.dataset.key)")
        for key in ("j", "j", "ArrowDown", "k", "ArrowUp"):
            page.keyboard.press(key)
        assert here(page) == order[0]
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
        page.keyboard.press("x")
        page.keyboard.press("c")  # one is not enough
        page.keyboard.press("j")
        page.keyboard.press("x")
        page.keyboard.press("c")
        page.wait_for_url("**/compare/?**")
        assert page.url == f"{address}compare/?run={order[0]}&run={order[1]}"
        page.keyboard.press("u")
        page.wait_for_url(address)
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url(f"{address}run/{order[0]}/")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url("**/episode/**")
        page.keyboard.press("u")
        page.wait_for_url(f"{address}run/{order[0]}/")
        visit.check_quiet(address)


def test_the_filter_takes_keys_and_gives_them_back(visiting: Any, address: str) -> None:
    with visiting(address) as visit:
        page = visit.page
        page.keyboard.press("/")
        page.keyboard.type("odd jxc")  # letters are letters here
        assert page.locator("#runs tbody tr:visible").count() == 0
        for _ in " jxc":
            page.keyboard.press("Backspace")
        assert page.locator("#runs tbody tr:visible").count() == 2
        assert page.locator(".with-words").first.get_attribute("href").endswith("/runs.csv?q=odd")
        page.keyboard.press("ArrowDown")
        first = here(page)
        page.keyboard.press("j")
        page.keyboard.press("j")  # there are but two
        assert first
        assert here(page) not in ("", first)
        page.keyboard.press("/")
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement === document.body")
        visit.check_quiet(address)


def test_a_dialog_lists_the_keys_and_keeps_them_to_itself(visiting: Any, address: str) -> None:
    with visiting(address) as visit:
        page = visit.page
        dialog = page.get_by_role("dialog", name="Keys")
        assert not dialog.is_visible()
        page.keyboard.press("?")
        assert dialog.is_visible()
        page.keyboard.press("j")
        assert here(page) == ""
        page.keyboard.press("Escape")
        assert not dialog.is_visible()
        button = page.get_by_role("button", name="Keys")
        button.focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate(
            "document.activeElement.closest('dialog') !== null || document.activeElement === document.body"
        )
        page.get_by_role("button", name="Close").press("Enter")
        assert not dialog.is_visible()
        assert page.evaluate("document.activeElement.className") == "show-keys"
        visit.check_quiet(address)


def test_the_chart_s_points_are_reached_by_tab_and_lead_to_their_runs(visiting: Any, address: str) -> None:
    with visiting(address) as visit:
        page = visit.page
        page.keyboard.press("t")
        page.wait_for_url("**/chart/")
        points = page.locator("svg.chart a")
        assert points.count() == 3
        page.locator("select[name=tag]").focus()
        page.keyboard.press("Tab")
        seen = []
        for _ in range(3):
            seen.append(page.evaluate("document.activeElement.getAttribute('aria-label')"))
            page.keyboard.press("Tab")
        assert [label.split(":")[0] for label in seen] == ["run-0", "run-1", "run-2"]
        assert all("step " in label and "%" in label for label in seen)
        page.locator("select[name=by]").select_option("tag")
        page.wait_for_url("**/chart/?**by=tag**")
        assert page.locator(".legend li").all_text_contents() == [" even", " odd"]
        page.locator("svg.chart a").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/run/run-0/")
        visit.check_quiet(address)
