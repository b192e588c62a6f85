"""The viewer films an episode for its own pages on this machine, and for nobody else."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psutil
import pytest
from starlette.testclient import TestClient

from harness import SUPPORT, flags, lay_out, run_cli, run_tiny, tiny_tree, wait_until
from proctor.machine.addresses import Hosts
from proctor.results import ScoredRun
from proctor.store.bundles import write_bundle
from proctor.store.lock import RunLock
from proctor.store.stored_run import StoredRun
from proctor.viewer.app import make_app
from proctor.viewer.films import Films, why_not
from viewers import Viewer, viewer

pytest.importorskip("av")

EPISODE = "group=a&task=0&episode=1"
OWN = "http://127.0.0.1:8642"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The tiny benchmark as one that comes with an installed package."""
    site = tmp_path_factory.mktemp("site")
    lay_out(site, "tiny-benchmark", "[proctor.benchmarks]\ntiny-installed = tiny:Tiny\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(SUPPORT), os.environ.get("PYTHONPATH", "")]))
        yield


@pytest.fixture(scope="module")
def made(installed: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("made") / "run"
    env = {"type": "tiny-installed", "max_steps": 12}
    done = run_cli("eval", *flags(tiny_tree(run, task="a,b", n_episodes=2, env=env)))
    assert done.returncode == 0, done.stderr
    return run


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "runs" / "run")
    return tmp_path / "runs"


def request(shown: Viewer, method: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", shown.port, timeout=60)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def token_in(page: bytes) -> str:
    found = re.search(rb'data-token="([^"]+)"', page)
    assert found is not None
    return found[1].decode()


def test_a_page_of_the_viewer_has_an_episode_filmed_and_shows_it(root: Path) -> None:
    with viewer(str(root)) as shown:
        _, _, page = shown.get(f"/episode/run/?{EPISODE}")
        assert b"Film this episode" in page
        assert json.loads(shown.get(f"/film/run/?{EPISODE}")[2])["state"] == "none"
        headers = {"Origin": f"http://127.0.0.1:{shown.port}", "X-Proctor-Token": token_in(page)}
        status, said = request(shown, "POST", f"/film/run/?{EPISODE}", headers)
        assert (status, json.loads(said)["state"] in ("waiting", "filming")) == (200, True)
        again = json.loads(request(shown, "POST", f"/film/run/?{EPISODE}", headers)[1])
        assert again["state"] in ("waiting", "filming", "done")

        def ended() -> Any:
            now = json.loads(shown.get(f"/film/run/?{EPISODE}")[2])
            return now if now["state"] in ("done", "failed") else None

        assert wait_until(ended)["state"] == "done"
        _, _, page = shown.get(f"/episode/run/?{EPISODE}")
        assert b"<video" in page
        assert b"observation.state 0" in page
        assert b"Film this episode" not in page
    assert [video.name for video in root.glob("run/videos/*/*.mp4")] == ["eval_episode_1.mp4"]
    (record,) = [one for one in ScoredRun.open(root / "run").records if one.video_path]
    assert (record.task, record.episode_index) == ("a", 1)


@pytest.mark.parametrize(
    ("headers", "status", "words"),
    [
        ({}, 403, "the viewer's own pages alone"),
        ({"Origin": "OWN"}, 403, "Load it again"),
        ({"X-Proctor-Token": "TOKEN"}, 403, "the viewer's own pages alone"),
        ({"Origin": "OWN", "X-Proctor-Token": "guess"}, 403, "Load it again"),
        ({"Origin": "http://evil.example", "X-Proctor-Token": "TOKEN"}, 403, "own pages alone"),
        ({"Origin": "null", "X-Proctor-Token": "TOKEN"}, 403, "own pages alone"),
        ({"Origin": "https://127.0.0.1:PORT", "X-Proctor-Token": "TOKEN"}, 403, "own pages alone"),
        ({"Origin": "http://127.0.0.1:1", "X-Proctor-Token": "TOKEN"}, 403, "own pages alone"),
        ({"Origin": "OWN", "X-Proctor-Token": "TOKEN", "Sec-Fetch-Site": "cross-site"}, 403, "own pages alone"),
        ({"Origin": "OWN", "X-Proctor-Token": "TOKEN", "Host": "evil.example"}, 421, "not known under that name"),
    ],
)
def test_nobody_else_can_ask_for_a_film(
    refusing: tuple[TestClient, str, Path], headers: dict[str, str], status: int, words: str
) -> None:
    client, token, root = refusing
    sent = {
        name: value.replace("OWN", OWN).replace("TOKEN", token).replace("PORT", "8642")
        for name, value in headers.items()
    }
    answer = client.post(f"/film/run/?{EPISODE}", headers=sent)
    assert (answer.status_code, len(answer.text.splitlines())) == (status, 1), answer.text
    assert words in answer.text
    assert client.get(f"/film/run/?{EPISODE}").json()["state"] == "none"
    assert not list(root.glob("run/videos"))


def test_nobody_on_another_machine_can_ask_for_a_film(refusing: tuple[TestClient, str, Path]) -> None:
    client, token, root = refusing
    elsewhere = TestClient(client.app, OWN, client=("192.168.0.7", 5000))
    answer = elsewhere.post(f"/film/run/?{EPISODE}", headers={"Origin": OWN, "X-Proctor-Token": token})
    assert (answer.status_code, "on the machine alone" in answer.text) == (403, True)
    assert not list(root.glob("run/videos"))


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> tuple[TestClient, str, Path]:
    """A viewer whose token is known, over a run that nobody gets a film of."""
    root = tmp_path_factory.mktemp("refusing")
    run_tiny(root / "run", task="a", n_episodes=2, env={"max_steps": 12})
    films = Films()
    return (
        TestClient(make_app(root, Hosts("127.0.0.1", 8642), films), OWN, client=("127.0.0.1", 5000)),
        films.token,
        root,
    )


@pytest.mark.parametrize(
    "path",
    [
        "/film/run/?group=a&task=0&episode=99",
        "/film/run/?group=a;touch%20x&task=0&episode=1",
        "/film/run/?group=../..&task=0&episode=1",
        "/film/run/?group=a&task=0&episode=1%3B%20reboot",
        "/film/run/",
        "/film/../run/?group=a&task=0&episode=1",
        "/film/%2e%2e/%2e%2e/etc/?group=a&task=0&episode=1",
        "/film/nothing/?group=a&task=0&episode=1",
    ],
)
def test_what_names_no_episode_of_a_run_here_films_nothing(
    refusing: tuple[TestClient, str, Path], path: str
) -> None:
    client, token, root = refusing
    assert client.post(path, headers={"Origin": OWN, "X-Proctor-Token": token}).status_code in (404, 405)
    assert not list(root.glob("run/videos"))


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST"])
def test_nothing_but_films_can_be_asked_for_with_more_than_a_read(
    refusing: tuple[TestClient, str, Path], method: str
) -> None:
    client, token, _ = refusing
    path = "/run/run/" if method == "POST" else f"/film/run/?{EPISODE}"
    assert client.request(method, path, headers={"Origin": OWN, "X-Proctor-Token": token}).status_code == 405


def test_a_viewer_for_others_films_for_nobody(root: Path) -> None:
    with viewer(str(root), "--host=0.0.0.0") as shown:
        _, _, page = shown.get(f"/episode/run/?{EPISODE}")
        assert b"data-token" not in page
        headers = {"Origin": f"http://127.0.0.1:{shown.port}", "X-Proctor-Token": ""}
        status, said = request(shown, "POST", f"/film/run/?{EPISODE}", headers)
        assert (status, "on the machine alone" in said) == (403, True)


def test_code_and_programs_that_a_run_names_are_not_run(tmp_path: Path) -> None:
    run_tiny(tmp_path / "run", task="a", n_episodes=2)
    assert "code that the run names" in why_not(ScoredRun.open(tmp_path / "run"), 0)
    with viewer(str(tmp_path)) as shown:
        _, _, page = shown.get("/episode/run/?group=a&task=0&episode=0")
        assert b"code that the run names" in page
        assert b"data-token" not in page
        assert b"proctor film" in page, "the command that does it"


def test_an_interpreter_that_a_run_names_is_not_started(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proctor.viewer.films.check_names_no_code", lambda run, given: None)
    config = root / "run" / "config.yaml"
    config.write_text(config.read_text().replace("  python: null\n", f"  python: {root}/evil\n"))
    assert "interpreter that the run names" in why_not(ScoredRun.open(root / "run"), 0)


def test_a_bundle_and_an_episode_without_actions_have_no_button(tmp_path: Path) -> None:
    run_tiny(tmp_path / "run", task="a", n_episodes=1, eval={"store_actions": False})
    assert "no stored actions" in why_not(ScoredRun.open(tmp_path / "run"), 0)
    run_tiny(tmp_path / "kept", task="a", n_episodes=1)
    write_bundle(StoredRun.open(tmp_path / "kept"), tmp_path / "b.proctor")
    with viewer(str(tmp_path / "b.proctor")) as shown:
        _, _, page = shown.get("/episode/?group=a&task=0&episode=0")
        assert b"A bundle has no place for videos" in page


def test_a_film_that_fails_says_why_and_one_under_way_ends_with_the_viewer(root: Path) -> None:
    with viewer(str(root)) as shown:
        token = token_in(shown.get(f"/episode/run/?{EPISODE}")[2])
        headers = {"Origin": f"http://127.0.0.1:{shown.port}", "X-Proctor-Token": token}
        with RunLock(root / "run"):
            assert request(shown, "POST", f"/film/run/?{EPISODE}", headers)[0] == 200
            now = wait_until(lambda: _failed(shown))
        assert "is being written by process" in now["words"]
        config = root / "run" / "config.yaml"
        config.write_text(config.read_text().replace("delay: 0.0", "delay: 5.0"))
        assert request(shown, "POST", f"/film/run/?{EPISODE}", headers)[0] == 200
        wait_until(lambda: list((root / "run").glob(".film-*")))
        children = psutil.Process(shown.process.pid).children(recursive=True)
        assert children
        shown.process.send_signal(signal.SIGTERM)
        shown.process.wait(60)
        wait_until(lambda: not any(child.is_running() and child.status() != "zombie" for child in children))


def _failed(shown: Viewer) -> Any:
    now = json.loads(shown.get(f"/film/run/?{EPISODE}")[2])
    return now if now["state"] == "failed" else None


def test_an_origin_is_known_by_its_host_and_port() -> None:
    hosts = Hosts("127.0.0.1", 8642)
    assert hosts.sent("http://127.0.0.1:8642")
    assert hosts.sent("http://localhost:8642")
    for other in (
        "",
        "null",
        "https://localhost:8642",
        "http://localhost",
        "http://localhost:8642.evil",
        "localhost:8642",
    ):
        assert not hosts.sent(other)
