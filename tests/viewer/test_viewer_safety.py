"""Nothing outside of the folder of runs is shown, to nobody who was not meant."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from httpx2 import Response
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from made_runs import make_run
from proctor.machine.addresses import Hosts
from proctor.viewer.app import make_app
from proctor.viewer.files import inside
from proctor.viewer.guard import POLICY

SECRET = "nobody may read this"
ADDRESS = "http://127.0.0.1:8642"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run, secrets around it, and links that lead to them."""
    place = tmp_path_factory.mktemp("place")
    root = place / "root"
    run = make_run(root / "run", {"a": [True, False]}, videos=True)
    for secret in (place / "secret.txt", root / "secret.txt", root / "other" / "secret.json", run / ".env.txt"):
        secret.parent.mkdir(exist_ok=True)
        secret.write_text(SECRET)
    make_run(place / "elsewhere", {"a": [True]})
    (place / "elsewhere" / "secret.txt").write_text(SECRET)
    (run / "out.txt").symlink_to(place / "secret.txt")
    (run / "up").symlink_to(place)
    (root / "linked").symlink_to(place / "elsewhere")
    (run / "hidden.txt").symlink_to(run / ".env.txt")
    (run / "beside.txt").symlink_to(root / "secret.txt")
    (run / "loop").symlink_to(run / "loop")
    (run / "page.html").write_text("<script>alert(1)</script>")
    (run / "page.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    (run / "logs").mkdir()
    (run / "logs" / "worker-0.log").write_text("hello <b>\n")
    os.mkfifo(run / "pipe.txt")
    return root


@pytest.fixture(scope="module")
def client(root: Path) -> TestClient:
    return TestClient(make_app(root, Hosts("127.0.0.1", 8642)), ADDRESS, follow_redirects=False)


PREFIXES = ("/run/", "/report/", "/compare/", "/live/", "/static/", "/")


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt", "run/../../secret.txt", "run/../secret.txt", "%2e%2e/secret.txt",
        "run/%2e%2e/%2e%2e/secret.txt", "..%2fsecret.txt", "%252e%252e/secret.txt",
        "run/..%5c..%5csecret.txt", "/etc/passwd",
        "//etc/passwd", "%2fetc/passwd",
        "run/out.txt", "run/up/secret.txt", "run/up/", "linked/", "linked/secret.txt",
        "run/.env.txt", "run/hidden.txt",
        "run/beside.txt", "run/loop", "run/pipe.txt", "secret.txt", "other/secret.json",
        "run/page.html", "run/page.svg",
        "run/videos/%00.mp4", "run%00/", "run/config.yaml/", "run/config.yaml/x", "x" * 5000, "run//config.yaml",
        "%ff%fe/", "run/./config.yaml",
    ],
)  # fmt: skip
def test_no_path_leads_out(client: TestClient, prefix: str, path: str) -> None:
    # Sent as it is: a client would tidy it up.
    answer = ask(client, prefix + path)
    assert answer.status_code in (404, 307) or path == "run/config.yaml/", (path, answer.status_code)
    assert SECRET not in answer.text
    assert "root:" not in answer.text
    assert "alert(1)" not in answer.text


def ask(client: TestClient, path: str) -> Response:
    """Ask for exactly this path, past all tidying."""
    headers = [(b"host", b"127.0.0.1:8642")]
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "root_path": "",
        "path": unquote(path), "raw_path": path.encode(), "query_string": b"", "headers": headers,
    }  # fmt: skip
    said: list[Any] = []

    async def receive() -> dict[str, Any]:
        return await asyncio.Future()  # nothing more comes

    async def send(message: Any) -> None:
        said.append(message)

    asyncio.run(client.app(scope, receive, send))  # type: ignore[arg-type]
    start, *parts = said
    body = b"".join(part.get("body", b"") for part in parts)
    return Response(start["status"], headers=start["headers"], content=body)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(
        st.one_of(
            st.sampled_from(["..", ".", "", "run", "up", "linked", "secret.txt", "out.txt", "root", "/", "\0"]),
            st.text(max_size=5),
        ),
        max_size=8,
    ),
    encode=st.booleans(),
)
def test_whatever_is_asked_for_lies_inside(root: Path, client: TestClient, parts: list[str], encode: bool) -> None:
    path = "/".join(parts)
    found = inside(root, path)
    if found is not None:
        assert found.is_relative_to(root.resolve())
        assert found.exists()
    asked = quote(path, safe="" if encode else "/", errors="surrogatepass")
    answer = ask(client, f"/run/{asked}")
    assert answer.status_code in (200, 307, 404)
    assert SECRET not in answer.text


def test_a_redirect_stays_here(client: TestClient) -> None:
    answer = ask(client, "/run/run")
    assert (answer.status_code, answer.headers["location"]) == (307, "/run/run/")
    for path in ("//evil.example", "///evil.example/run", "/run//evil.example"):
        assert "evil" not in ask(client, path).headers.get("location", "")


@pytest.mark.parametrize(
    ("header", "known"),
    [
        ("127.0.0.1:8642", True), ("localhost:8642", True), ("LOCALHOST:8642", True), ("[::1]:8642", True),
        ("evil.example:8642", False), ("127.0.0.1:80", False), ("127.0.0.1", False),
        ("localhost", False), ("", False),
        ("127.0.0.1:8642.evil.example", False), ("localhost:8642@evil.example", False),
        ("[::1]", False), ("::1:8642", False),
        ("[::1:8642", False), ("[localhost]:8642", False), ("localhost.:8642", False), ("10.0.0.1:8642", False),
    ],
)  # fmt: skip
def test_only_its_own_names_are_answered(client: TestClient, header: str, known: bool) -> None:
    answer = client.get("/", headers={"host": header})
    assert answer.status_code == (200 if known else 421)
    assert ("run" in answer.text) or not known
    if not known:
        assert "/run/" not in answer.text


def test_who_listens_everywhere_is_known_by_every_number_and_no_stranger_s_name() -> None:
    hosts = Hosts("0.0.0.0", 9000)
    assert hosts.knows("10.1.2.3:9000")
    assert hosts.knows("[fe80::1]:9000")
    assert hosts.knows(f"{os.uname().nodename}:9000")
    assert not hosts.knows("evil.example:9000")
    assert not hosts.knows("10.1.2.3:9001")
    assert Hosts("robot.lab", 9000).knows("robot.lab:9000")
    assert not Hosts("robot.lab", 9000).knows("10.1.2.3:9000")
    assert Hosts("127.0.0.1", 80).knows("localhost")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "FOO"])
def test_it_can_only_be_read(client: TestClient, method: str) -> None:
    answer = client.request(method, "/")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/rows",
        "/run/run/",
        "/live/run/",
        "/nothing",
        "/static/viewer.js",
        "/run/run/config.yaml",
        "/compare/",
    ],
)
def test_every_answer_says_what_a_browser_may_do(client: TestClient, path: str) -> None:
    answer = client.get(path, headers={"origin": "http://evil.example"})
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert not [name for name in answer.headers if name.startswith("access-control")]
    head = client.head(path)
    assert (head.status_code, head.content) == (answer.status_code, b"")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/run/run/config.yaml", "text/plain; charset=utf-8"),
        ("/run/run/run.sqlite", "application/vnd.sqlite3"),
        ("/run/run/logs/worker-0.log", "text/plain; charset=utf-8"),
        ("/run/run/videos/a_0/eval_episode_0.mp4", "video/mp4"),
        ("/compare/run/videos/a_0/eval_episode_0.mp4", "video/mp4"),
        ("/report/run/videos/a_0/eval_episode_0.mp4", "video/mp4"),
        ("/static/page.css", "text/css; charset=utf-8"),
        ("/static/run.js", "text/javascript; charset=utf-8"),
        ("/live/run/", "application/json"),
        ("/run/run/logs/", "text/html; charset=utf-8"),
    ],
)
def test_files_have_their_kind(client: TestClient, path: str, kind: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
