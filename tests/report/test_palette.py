"""One colour has one meaning, is seen on its ground, and is told from others by colour-blind readers too."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from proctor.report.page.page import asset

OUTCOMES = ("success", "failure", "error")
RUNS = tuple(f"run-{place}" for place in range(6))
TIME = ("physics", "draw", "wait", "start")
SCHEMES = ("light", "dark")

# Machado, Oliveira and Fernandes (2009): how the two common kinds of colour blindness see linear RGB.
SEEN_BY: Mapping[str, NDArray[np.float64]] = {
    "most people": np.eye(3),
    "protanopes": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopes": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}


def palette(scheme: str) -> dict[str, str]:
    blocks: list[str] = re.findall(r":root \{(.*?)\}", asset("page.css"), re.S)
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[SCHEMES.index(scheme)]))


def linear(colour: str) -> NDArray[np.float64]:
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(first: str, second: str) -> float:
    darker, lighter = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (first, second))
    return (lighter + 0.05) / (darker + 0.05)


def oklab(colour: str, reader: str) -> NDArray[np.float64]:
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    opponents = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    seen: NDArray[np.float64] = opponents @ np.cbrt(cones @ np.clip(SEEN_BY[reader] @ linear(colour), 0, 1))
    return seen


def apart(first: str, second: str, reader: str) -> float:
    """Return how different two colours look, in hundredths of the way from black to white (OKLab)."""
    return 100 * float(np.linalg.norm(oklab(first, reader) - oklab(second, reader)))


def test_the_measures_are_those_of_their_definitions() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#ffffff", "#767676") == pytest.approx(4.54, abs=0.01)
    assert apart("#000000", "#ffffff", "most people") == pytest.approx(100, abs=0.1)
    # What they are known for not to tell apart.
    red, green = "#c04040", "#6b7034"
    assert apart(red, green, "deuteranopes") < 0.5 * apart(red, green, "most people")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_has_the_contrast_that_wcag_aa_asks_for(scheme: str) -> None:
    colours = palette(scheme)
    for name in ("ink", "muted", "link", "success-text", "failure-text", "error-text"):
        for ground in ("paper", "faint", "warn-paper", "error-paper"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
    for name in RUNS:  # a letter in the colour of the paper on it
        assert contrast(colours[name], colours["paper"]) >= 4.5, name


@pytest.mark.parametrize("scheme", SCHEMES)
def test_marks_have_the_contrast_that_wcag_asks_for(scheme: str) -> None:
    colours = palette(scheme)
    for name in (*OUTCOMES, "unknown", *TIME):
        assert contrast(colours[name], colours["paper"]) >= 3, name
    assert contrast(colours["whisker"], colours["success"]) >= 1.5  # an interval on its bar, in ink


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_two_meanings_share_a_colour(scheme: str) -> None:
    colours = palette(scheme)
    for first, second in itertools.combinations(("link", *OUTCOMES, *RUNS), 2):
        assert apart(colours[first], colours[second], "most people") >= 12, (first, second)


@pytest.mark.parametrize("reader", ["protanopes", "deuteranopes"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_colour_blind_readers_tell_outcomes_from_outcomes_and_runs_from_runs(scheme: str, reader: str) -> None:
    colours = palette(scheme)
    for names in (OUTCOMES, RUNS):
        for first, second in itertools.combinations(names, 2):
            assert apart(colours[first], colours[second], reader) >= 7, (first, second)
    assert apart(colours["run-0"], colours["run-1"], reader) >= 18  # most comparisons have no more


@pytest.mark.parametrize("reader", SEEN_BY)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_time_was_spent_on_goes_from_dark_to_light_in_steps(scheme: str, reader: str) -> None:
    colours = palette(scheme)
    lightness = [float(oklab(colours[name], reader)[0]) for name in TIME]
    assert lightness == sorted(lightness, reverse=scheme == "dark")
    steps = np.abs(np.diff(lightness))
    assert steps.min() >= 0.07


def test_runs_are_not_drawn_in_the_colour_of_an_outcome() -> None:
    css = asset("page.css")
    for rule in re.findall(r"[^{}]*\.run-\d[^{}]*\{[^}]*\}", css):
        assert not re.search(r"var\(--(success|failure|error|link|physics|draw|wait|start)\)", rule), rule
    for rule in re.findall(r"[^{}]*\.spent\.[^{}]*\{[^}]*\}", css):
        assert "--run-" not in rule
        assert "--error" not in rule
