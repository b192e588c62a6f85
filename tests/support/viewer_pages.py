"""The viewer without a server, and its pages as a browser reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import html5lib
from starlette.testclient import TestClient

from proctor.machine.addresses import Hosts
from proctor.viewer.app import make_app

HTML = "{http://www.w3.org/1999/xhtml}"
HOSTILE = """"><script>alert(1)</script>'&<img src=x onerror=alert(2)>"""


def viewing(root: Path) -> TestClient:
    return TestClient(make_app(root, Hosts("127.0.0.1", 8642)), "http://127.0.0.1:8642")


def read(client: TestClient, path: str, status: int = 200) -> Any:
    """Return a page as a browser reads it; fails if it is not valid."""
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    return html5lib.HTMLParser(strict=True).parse(answer.text)


def text(element: Any) -> str:
    return " ".join(" ".join(element.itertext()).split())


def snapshot(root: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(file): (file.lstat().st_mtime_ns, file.lstat().st_ino, file.read_bytes() if file.is_file() else b"")
        for file in sorted(root.rglob("*"))
    }
