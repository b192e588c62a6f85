"""The keys of the viewer's pages, as its help shows them. What they do is in `static/keys.js`."""

from __future__ import annotations

from collections.abc import Sequence

KEYS: Sequence[tuple[str, Sequence[tuple[Sequence[str], str]]]] = (
    (
        "On every page",
        (
            (("?",), "show these keys"),
            (("/",), "type into the filter; Esc leaves it"),
            (("j", "↓"), "next row of the table"),
            (("k", "↑"), "previous row"),
            (("Enter",), "open the row"),
            (("u",), "up: to the run, or to the list"),
        ),
    ),
    (
        "In the list of runs",
        (
            (("x",), "choose the run, or choose it no more"),
            (("c",), "compare the chosen runs"),
            (("t",), "success over training"),
        ),
    ),
    ("On a run's page", ((("w",), "watch the episode's video"), (("Esc",), "close the video"))),
    ("On an episode's page", ((("←",), "previous failure"), (("→",), "next failure"))),
)
