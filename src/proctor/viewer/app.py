"""The viewer's routes. Pages end in a slash; what lies in a run directory has the page's address before its own.

/?tag=T&q=WORDS   the list of runs          /rows             its rows alone
/runs.csv         the list as a file        /runs.json
/chart/           success against training step or time
/run/RUN/         a run's page              /run/RUN/FILE     a file of the run
/live/RUN/        how far it is, as JSON    /parts/RUN/       what changes of its page while it goes on
/report/RUN/      its report as one file    /report/RUN/?download
/episodes/RUN/?format=csv|json              its episodes as a file
/episode/RUN/?group=G&task=ID&episode=N     an episode's page
/film/RUN/?group=G&task=ID&episode=N        how far its film is, as JSON; POST has it filmed
/compare/?run=A&run=B
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import quote, urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from proctor.errors import ProctorError
from proctor.files import clip
from proctor.machine.addresses import Hosts
from proctor.viewer.exports import runs_table
from proctor.viewer.files import STATIC, file_response, inside, run_around, static_response
from proctor.viewer.films import Films
from proctor.viewer.guard import RequestGuard
from proctor.viewer.pages import Pages
from proctor.viewer.readers import BusyError, Readers
from proctor.viewer.runs import Runs
from proctor.viewer.summaries import RunSummary, matching

_PATIENCE = 30.0
"""Seconds that a page may take."""


def make_app(root: Path, hosts: Hosts, films: Films | None = None) -> RequestGuard:
    """Return the application over the runs below `root`; without `films` nobody can ask for one."""
    viewer = _Viewer(root.resolve(), films)
    routes = [
        Route(path, viewer.patient(answer))
        for path, answer in (
            ("/", viewer.list),
            ("/rows", viewer.rows),
            ("/runs.{kind}", viewer.runs),
            ("/chart/", viewer.chart),
            ("/run/{path:path}", viewer.run),
            ("/report/{path:path}", viewer.report),
            ("/live/{path:path}", viewer.live),
            ("/parts/{path:path}", viewer.parts),
            ("/episodes/{path:path}", viewer.episodes),
            ("/episode/{path:path}", viewer.episode),
            ("/compare", viewer.compare),
            ("/compare/{path:path}", viewer.compare),
            ("/static/{name}", viewer.static),
        )
    ]
    routes.append(Route("/film/{path:path}", viewer.patient(viewer.film), methods=["GET", "POST"]))
    app = Starlette(routes=routes, exception_handlers={HTTPException: viewer.refused, ProctorError: viewer.failed})
    app.router.redirect_slashes = False
    return RequestGuard(app, hosts, None if films is None else films.token)


class _Viewer:
    """Answers requests, each in a thread, so that none waits for another."""

    def __init__(self, root: Path, films: Films | None) -> None:
        self._root, self._runs, self._films = root, Runs(root), films
        self._pages = Pages(root, films)
        self._readers = Readers()

    def patient(self, answer: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that runs `answer` in a thread, and says so if that does not end."""

        async def endpoint(request: Request) -> Response:
            try:
                return await self._readers.answer(request.url.path, _PATIENCE, answer, request)
            except (HTTPException, ProctorError):
                raise
            except TimeoutError:
                return self._pages.refusal(f"This takes longer than {_PATIENCE:g} s to read.", 503)
            except BusyError:
                return self._pages.refusal("This is being read already, and reading it does not finish.", 503)
            except Exception as error:  # a stranger's run may be wrong in any way
                words = f"{type(error).__name__}: {clip(str(error))}"
                return self._pages.refusal(f"This run is not as Proctor writes it ({words}).", 500)

        return endpoint

    def list(self, request: Request) -> Response:
        return self._pages.list(self._runs.all(), request.query_params)

    def rows(self, request: Request) -> Response:
        return self._pages.rows(self._runs.all(), request.query_params)

    def runs(self, request: Request) -> Response:
        return runs_table(matching(self._runs.all(), request.query_params), request.path_params["kind"])

    def chart(self, request: Request) -> Response:
        return self._pages.chart(self._runs.all(), request.query_params)

    def run(self, request: Request) -> Response:
        path = request.path_params["path"]
        directory = self._directory(path)
        if directory is None:
            return self._file(path)
        summary = self._runs.summary(directory)
        if summary.state == "unreadable" or not summary.planned:
            return self._pages.problem(summary)
        return self._pages.run(summary, directory, request.query_params)

    def parts(self, request: Request) -> Response:
        summary, directory = self._readable(request)
        return self._pages.run(summary, directory, request.query_params, parts=True)

    def episodes(self, request: Request) -> Response:
        summary, directory = self._readable(request)
        return self._pages.episodes(summary, directory, request.query_params)

    def report(self, request: Request) -> Response:
        path = request.path_params["path"]
        directory = self._directory(path)
        return self._file(path) if directory is None else self._pages.report(directory, request.query_params)

    def live(self, request: Request) -> Response:
        directory = self._directory(request.path_params["path"])
        if directory is None:
            raise HTTPException(404)
        summary = self._runs.summary(directory)
        numbers = {
            "state": summary.state,
            "ended": summary.ended,
            "planned": summary.planned,
            "errors": summary.errors,
        }
        return JSONResponse({**numbers, "words": summary.words})

    def episode(self, request: Request) -> Response:
        directory = self._directory(request.path_params["path"])
        if directory is None:
            raise HTTPException(404)
        summary = self._runs.summary(directory)
        if summary.state == "unreadable" or not summary.planned:
            return self._pages.problem(summary)
        return self._pages.episode(summary, directory, request.query_params)

    def film(self, request: Request) -> Response:
        directory = self._directory(request.path_params["path"])
        if directory is None or self._films is None:
            raise HTTPException(404)
        run, place = self._pages.found(directory, request.query_params)
        now = (self._films.ask if request.method == "POST" else self._films.state)(run, place)
        return JSONResponse({"state": now.state, "words": now.words})

    def compare(self, request: Request) -> Response:
        path = request.path_params.get("path")
        wanted = request.query_params.getlist("run")
        if path is None:
            return RedirectResponse(f"/compare/?{urlencode([('run', one) for one in wanted])}", 307)
        if path:
            return self._file(path)
        directories = [self._runs.at(one) for one in wanted]
        missing = [one for one, found in zip(wanted, directories, strict=True) if found is None]
        if missing:
            raise HTTPException(404, f"There is no run {missing[0]} here.")
        found = [directory for directory in directories if directory is not None]
        return self._pages.compare([(self._runs.summary(directory), directory) for directory in found])

    def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            raise HTTPException(404)
        return static_response(name)

    def _directory(self, path: str) -> Path | None:
        """Return the run whose page is asked for; `None` if it is a file or folder inside of one."""
        if path and not path.endswith("/"):
            return None
        return self._runs.at(path.removesuffix("/"))

    def _readable(self, request: Request) -> tuple[RunSummary, Path]:
        """Return the run that a request names, if it can be read and has a plan."""
        directory = self._directory(request.path_params["path"])
        if directory is None:
            raise HTTPException(404)
        summary = self._runs.summary(directory)
        if summary.state == "unreadable" or not summary.planned:
            raise HTTPException(409, summary.problem or "This run has no plan yet.")
        return summary, directory

    def _file(self, path: str) -> Response:
        found = inside(self._root, path.removesuffix("/"))
        run = None if found is None else run_around(self._root, found)
        if found is None or run is None:
            raise HTTPException(404)
        if found.is_file():
            return file_response(found)
        if not path.endswith("/"):
            return RedirectResponse(f"/run/{quote(path, errors='surrogateescape')}/", 307)
        return self._pages.folder(found, run)

    async def refused(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        said = error.detail if isinstance(error, HTTPException) else ""
        words = "There is nothing here. It may have been moved or deleted." if said == "Not Found" else said
        return self._pages.refusal(words, status)

    async def failed(self, request: Request, error: Exception) -> Response:
        """Tell why a page cannot be made: a run that changed or broke since it was listed."""
        return self._pages.refusal(clip(str(error.__cause__ or error), 500), 409)
