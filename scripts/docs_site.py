"""What the site that `make docs` builds needs besides the pages in docs/: a hook of mkdocs.

README.md is its first page; the changelog and the guide for contributors are pages of it, too. A link to another
file of the repository becomes one to its home, if the file is there. What was built must ask nothing of other
machines, so that it can be read without a network.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
HOME = "https://github.com/proctor-eval/proctor/tree/main"
TAKEN_IN = {"index.md": "README.md", "changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
_LINK = re.compile(r"(\]\(|\bsrc=\")(?!https?:|#|mailto:)([^)\"#\s]*)")
_REQUEST = re.compile(
    r"<(?:script|img|iframe|video|source|link)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|(?:@import|url\()\s*[\"']?((?:https?:)?//[^\"')\s]+)"
)
_log = logging.getLogger("mkdocs.hooks.docs_site")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie outside of docs/."""
    for page, source in TAKEN_IN.items():
        text = (ROOT / source).read_text()
        files.append(File.generated(config, page, content=_LINK.sub(_from_the_root, text)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Send links that leave docs/ to the repository's home."""

    def sent(link: re.Match[str]) -> str:
        path = link[2]
        if not path.startswith("../"):
            return link[0]
        target = (ROOT / "docs" / path).resolve()
        if not target.exists():
            _log.warning("%s: there is no %s", page.file.src_uri, path)
        name = str(target.relative_to(ROOT))
        taken_in = {source: own for own, source in TAKEN_IN.items()}
        return f"{link[1]}{taken_in.get(name, f'{HOME}/{name}')}"

    return _LINK.sub(sent, markdown)


def on_post_build(config: Any) -> None:
    """Refuse a site that would ask other machines for something."""
    for file in Path(config.site_dir).rglob("*"):
        if file.suffix in (".html", ".css", ".svg"):
            for request in _REQUEST.finditer(file.read_text()):
                if not request[0].startswith('<link rel="canonical"'):
                    _log.warning("%s asks for %s", file.relative_to(config.site_dir), request[1] or request[2])


def _from_the_root(link: re.Match[str]) -> str:
    """Return a link as it must be in docs/."""
    path = link[2]
    own = path.removeprefix("docs/")
    return f"{link[1]}{own}" if own != path or not path else f"{link[1]}../{path}"
