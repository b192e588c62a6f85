"""The viewer's pages. A run's figures are the report's: the templates build on its template."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray
from starlette.exceptions import HTTPException
from starlette.responses import Response

from proctor.files import clip
from proctor.report.page.episode import ON_ITS_PAGE, episode_view
from proctor.report.page.episodes import MOST_ROWS, Card, cards, episode_rows, video_link
from proctor.report.page.figures import rate_bars
from proctor.report.page.page import MOST_RUNS, REPORT, make_page, render, templates
from proctor.results import ScoredRun
from proctor.store.outcomes import KINDS as OUTCOME_OF
from proctor.store.outcomes import Kind
from proctor.store.videos import video_file
from proctor.viewer.addresses import address, episode_address
from proctor.viewer.chart import MOST_DRAWN, chart_of
from proctor.viewer.chart_figure import chart_figure, place_in_words, rate_scale, sign
from proctor.viewer.episodes import attempts_at, neighbours, place_asked_for
from proctor.viewer.exports import as_download, episodes_table
from proctor.viewer.files import KINDS
from proctor.viewer.films import Films, why_not
from proctor.viewer.keys import KEYS
from proctor.viewer.runs import Signature, signature
from proctor.viewer.summaries import STATES, RunSummary, matching

OUTCOMES: tuple[Kind, ...] = ("success", "failure", "unknown", "error")
_STATES = {kind: state for state, kind in OUTCOME_OF.items()}
_SMALL_LOG = 4 << 20
_MOST_ENTRIES = 10_000
_MOST_ATTEMPTS = 20
_MOST_TAGS = 24
_MOST_IN_A_REPORT = 64 << 20
"""Bytes of the videos inside of a report that is sent as one file."""

_REPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; media-src 'self' data:; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The report's own policy, inside it, is stricter: it names the one script by its digest. A browser obeys both."""


class FileEntry(NamedTuple):
    """A file or folder of a run."""

    name: str
    link: str | None
    size: str


class RunCache:
    """The runs that were looked at last, for as long as nobody writes to them."""

    def __init__(self) -> None:
        self._known: OrderedDict[Path, tuple[Signature, ScoredRun]] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, directory: Path) -> ScoredRun:
        """Return a run, read again only if its files have changed."""
        now = signature(directory)
        with self._lock:
            before, run = self._known.get(directory, ((), None))
        if run is None or before != now:
            run = ScoredRun.open(directory)
        with self._lock:
            self._known[directory] = now, run
            self._known.move_to_end(directory)
            while len(self._known) > MOST_RUNS:
                self._known.popitem(last=False)
        return run


class Pages:
    """Makes the pages over the runs below `root`."""

    def __init__(self, root: Path, films: Films | None = None) -> None:
        self._root, self._films = root, films
        self._cache = RunCache()
        self._templates = templates(Path(__file__).parent / "templates")
        self._templates.filters.update(
            address=address, episode_address=episode_address, size=_size, sign=sign, place=place_in_words,
            rate_bar=lambda rate: rate_bars([(rate, "")]), tagged=lambda tag: "/?" + _query(tag=tag),
            breakable=_breakable,
        )  # fmt: skip
        self._templates.globals.update(
            root=_plain(str(root)), most_runs=MOST_RUNS, states=STATES, most_drawn=MOST_DRAWN,
            key_groups=KEYS,
        )  # fmt: skip

    def list(self, summaries: Sequence[RunSummary], query: Mapping[str, str]) -> Response:
        """Return the list of runs, of those that a request asks for."""
        tags = Counter(tag for run in summaries for tag in run.tags)
        return self._page(
            "list.html.j2",
            runs=matching(summaries, query),
            there=len(summaries),
            tags=tags.most_common(_MOST_TAGS),
            tag=query.get("tag", ""),
            words=query.get("q", ""),
            query=_query(tag=query.get("tag", ""), q=query.get("q", "")),
        )

    def rows(self, summaries: Sequence[RunSummary], query: Mapping[str, str]) -> Response:
        """Return its rows alone, for a page that is open."""
        return self._page("rows.html.j2", runs=matching(summaries, query), tag=query.get("tag", ""))

    def chart(self, summaries: Sequence[RunSummary], query: Mapping[str, str]) -> Response:
        """Return success against training step or time, over the runs that a request asks for."""
        chart = chart_of(matching(summaries, query), query)
        return self._page(
            "chart.html.j2",
            chart=chart,
            figure=chart_figure(chart) if chart.points else None,
            scale=rate_scale(),
            tags=[tag for tag, _ in Counter(tag for run in summaries for tag in run.tags).most_common(_MOST_TAGS)],
            tag=query.get("tag", ""),
        )

    def run(
        self, summary: RunSummary, directory: Path, query: Mapping[str, str], *, parts: bool = False
    ) -> Response:
        """Return a run's page: how far it is, its episodes, and its report; as `parts` only what changes in it."""
        run = self._cache.read(directory)
        output = directory / REPORT
        wanted = query.get("task", "").strip(), query.get("outcome", "")
        chosen = _chosen(run, *wanted)
        if summary.state == "running":  # what is new comes first
            chosen = chosen[np.argsort(-run.ended["ended_at"][chosen], kind="stable")]
        pages = max(1, ceil(len(chosen) / MOST_ROWS))
        number = query.get("page", "")
        here = min(pages, max(1, int(number))) if number.isdecimal() and len(number) < 10 else 1
        shown = run.records.at(chosen[(here - 1) * MOST_ROWS : here * MOST_ROWS])
        asked = {"task": wanted[0], "outcome": wanted[1]}
        rows = episode_rows(run, shown, output)
        page = make_page([run], output, single_episodes=not parts)
        return self._page(
            "run.html.j2",
            page=page,
            summary=summary,
            rows=rows,
            matching=len(chosen),
            first=(here - 1) * MOST_ROWS + 1,
            others={
                other: _query(**asked, page=str(other)) for other in (here - 1, here + 1) if 1 <= other <= pages
            },
            here=here,
            pages=pages,
            wanted=wanted,
            query=_query(**asked),
            embeds=_videos_fit(run, page.cards),
            outcomes=[kind for kind in OUTCOMES if run.ended.counts[_STATES[kind]]],
            troubled=summary.state == "running" or any(row.record.error for row in rows),
            logs=_logs(run),
            now=time.strftime("%H:%M:%S"),
        )

    def episode(self, summary: RunSummary, directory: Path, query: Mapping[str, str]) -> Response:
        """Return the page of an episode that has ended."""
        run, place = self.found(directory, query)
        (record,) = run.records.at([place])
        video = video_link(run, record, directory / REPORT)
        link = None if video is None else f"{address(summary.path)}{video}"
        failed = attempts_at(run, record)
        unfilmed = "" if self._films is None or record.status == "error" else why_not(run, place)
        return self._page(
            "episode_page.html.j2",
            summary=summary,
            view=episode_view(run, record, "episode", ON_ITS_PAGE, link),
            neighbours=neighbours(run, place, summary.path),
            attempts=failed[:_MOST_ATTEMPTS],
            more_attempts=max(0, len(failed) - _MOST_ATTEMPTS),
            film=episode_address(record.key, summary.path, "film"),
            token=None if self._films is None or unfilmed or record.status == "error" else self._films.token,
            unfilmed=unfilmed,
        )

    def found(self, directory: Path, query: Mapping[str, str]) -> tuple[ScoredRun, int]:
        """Return the run in a directory, and the place in it of the episode that a query names."""
        run = self._cache.read(directory)
        place = place_asked_for(run, query)
        if place is None:
            raise HTTPException(404, "There is no such episode here, or it has not ended yet.")
        return run, place

    def report(self, directory: Path, query: Mapping[str, str]) -> Response:
        """Return the report as `proctor report` writes it; to be kept as one file if the request says so."""
        run = self._cache.read(directory)
        if "download" not in query:
            return _html(render([run], directory / REPORT), headers={"content-security-policy": _REPORT_POLICY})
        shown, _ = cards([run], directory / REPORT, embed=False)
        html = render([run], directory / REPORT, embed_videos=_videos_fit(run, shown))
        return _html(html, headers=as_download(f"{clip(run.name)}-report.html"))

    def episodes(self, summary: RunSummary, directory: Path, query: Mapping[str, str]) -> Response:
        """Return a run's episodes as a file, those that a request asks for."""
        run = self._cache.read(directory)
        chosen = _chosen(run, query.get("task", "").strip(), query.get("outcome", ""))
        return episodes_table(summary, run, chosen, query.get("format", "csv"))

    def compare(self, chosen: Sequence[tuple[RunSummary, Path]]) -> Response:
        """Return runs side by side; the first is what the others are compared with."""
        if not 2 <= len(chosen) <= MOST_RUNS:
            raise HTTPException(400, f"Choose 2 to {MOST_RUNS} runs to compare; these are {len(chosen)}.")
        for summary, _ in chosen:
            if summary.problem or not summary.planned:
                why = summary.problem or "It has not started yet."
                raise HTTPException(409, f"{summary.folder} cannot be compared. {why}")
        page = make_page([self._cache.read(directory) for _, directory in chosen], self._root / "compare.html")
        turned = [*chosen[1:], chosen[0]]
        query = urlencode([("run", summary.path) for summary, _ in turned], errors="surrogateescape")
        return self._page("compare.html.j2", page=page, chosen=[one for one, _ in chosen], turned=query)

    def problem(self, summary: RunSummary) -> Response:
        """Return the page of a run that has nothing to show, or nothing yet."""
        return self._page("problem.html.j2", summary=summary)

    def folder(self, folder: Path, run: Path) -> Response:
        """Return what a folder of a run holds."""
        entries = sorted(itertools.islice(folder.iterdir(), _MOST_ENTRIES))
        return self._page(
            "folder.html.j2",
            title=f"{run.name}/{folder.relative_to(run)}",
            entries=[_entry(found) for found in entries if not found.name.startswith(".")],
        )

    def refusal(self, words: str, status: int) -> Response:
        """Return why there is no page."""
        return self._page("refusal.html.j2", status, words=words)

    def _page(self, template: str, status: int = 200, **values: Any) -> Response:
        return _html(self._templates.get_template(template).render(**values), status)


def _chosen(run: ScoredRun, task: str, kind: str) -> NDArray[np.int64]:
    """Return the places of the ended episodes of tasks with such a name, and with such an outcome."""
    named = np.array([task.lower() in one.name.lower() for one in run.tasks], bool)
    places = run.ended.at(*([_STATES[kind]] if kind in _STATES else []))
    chosen: NDArray[np.int64] = places[named[run.plan.numbers[places]]] if len(places) else places
    return chosen


def _query(**wanted: str) -> str:
    return urlencode({name: value for name, value in wanted.items() if value}, errors="surrogateescape")


def _videos_fit(run: ScoredRun, shown: Sequence[Card]) -> bool:
    """Whether the videos of a report are few and small enough to be put into it."""
    videos = (video_file(run.path, card.record.key) for card in shown)
    return sum(video.stat().st_size for video in videos if video is not None) <= _MOST_IN_A_REPORT


def _logs(run: ScoredRun) -> list[FileEntry]:
    try:
        found = sorted(run.directory.logs.glob("*.log"))
    except OSError:
        return []
    spoken = [log for log in found if log.is_file() and log.stat().st_size]
    return [_entry(log)._replace(link=_link(log, f"logs/{quote(log.name)}")) for log in spoken]


def _entry(found: Path) -> FileEntry:
    name = _plain(found.name)
    if found.is_dir():
        return FileEntry(f"{name}/", f"{quote(found.name, errors='surrogateescape')}/", "")
    link = _link(found, quote(found.name, errors="surrogateescape"))
    return FileEntry(name, link, _size(found.stat().st_size) if found.exists() else "gone")


def _link(found: Path, link: str) -> str | None:
    """Return the link of a file that a browser can show: of a known kind, and no log that would choke it."""
    if not found.is_file() or found.suffix.lower() not in KINDS:
        return None
    return None if found.suffix == ".log" and found.stat().st_size > _SMALL_LOG else link


def _size(number: int) -> str:
    return f"{number / 1e6:.1f} MB" if number >= 1e5 else f"{number / 1e3:.1f} kB"


def _breakable(text: str) -> Markup:
    """Return a name that a narrow column may break between its parts, and not inside of them."""
    return Markup("").join(
        escape(part) + Markup("<wbr>") if part in "/_-@" else escape(part) for part in re.split("([/_@-])", text)
    )


def _plain(text: str) -> str:
    return text.encode(errors="replace").decode()


def _html(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    # A name may hold half of a character, which UTF-8 has no way to write.
    return Response(text.encode(errors="replace"), status, headers, "text/html; charset=utf-8")
