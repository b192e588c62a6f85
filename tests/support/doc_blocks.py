"""The blocks of README and docs: which there are, and how they are run as a reader would run them.

A page is a story: its blocks run in order, in a folder of its own, and what one leaves the next finds. A block
with the name of a file above it (`my_policy.py`:) or in its first line (# my_policy.py) is that file. What a block
needs and a reader has already, or why it is not run, stands in HTML comments right above it, which nobody sees on
the rendered page:

    <!-- not run: REASON -->     counted and printed, with its reason
    <!-- slow -->                takes more than a few seconds: a slow proof
    <!-- with: FLAGS -->         flags that hold in its commands that evaluate, so that it is done in seconds
    <!-- before: CODE -->        run before it, in the block's language
    <!-- until: WORDS -->        what serves, or else all of it, is ended with Ctrl-C once it prints this
    <!-- needs: PROGRAM -->      it is left out where this program is not installed
    <!-- exits: N -->            the exit status that it ends with
    <!-- prints -->              it prints what the block of text below it shows; "…" stands for what may differ
    <!-- prints among others --> the same, beside what is not shown
    <!-- prints one of -->       the same, of one of the paragraphs that are shown
    <!-- after: CODE -->         run after it, whatever it did
    <!-- quoted: FOLDER -->      it is part of a file in this folder of the repository
    <!-- tested by: FILE -->     a test that takes it from the page
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRINTS = ("prints", "prints among others", "prints one of")
NOTES = (
    *("not run", "slow", "with", "before", "after", "until", "exits", *PRINTS, "needs"),
    *("quoted", "tested by"),
)
RUNNABLE = ("sh", "bash", "shell", "console", "python")
_SERVES = re.compile(r"proctor (?:view|serve)\b")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENTS = re.compile(r"(?:<!--(?:(?!-->).)*-->\s*)+\Z", re.DOTALL)
_NOTE = re.compile(r"<!--\s*([a-z ]+?)(?::\s*((?:(?!-->).)*?))?\s*-->", re.DOTALL)
_NAMED_ABOVE = re.compile(r"`([\w/.-]+\.(?:py|yaml|sh))`:\s*\Z")
_NAMED_WITHIN = re.compile(r"# ([\w-]+\.(?:py|yaml))\n")
_INSTALLS = re.compile(r"(?:sudo )?(?:apt-get|pip3?|\S*/pip|make|python3?(?:\.\d+)? -m (?:venv|pip))\b")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page.

    Attributes:
        page: the page's path in the repository.
        line: of its fence.
        notes: what its comments say, by their kinds.
        file: the name of the file that it is, if it is one.
        shown: the block of text right below it, which shows what is printed.
    """

    page: str
    line: int
    language: str
    text: str
    notes: dict[str, str] = field(default_factory=dict)
    file: str | None = None
    shown: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def why_not(self) -> str | None:
        """Why no test runs it; None: one does."""
        if "not run" in self.notes:
            return self.notes["not run"]
        if self.language != "python" and not self.lines:
            return "it installs packages, or is a target of make"
        return None

    @property
    def lines(self) -> list[str]:
        """Its shell commands without those that would change the machine."""
        commands = self.text.replace("\\\n", " ").splitlines()
        kept = [line for line in commands if not _INSTALLS.match(line)]
        return [] if all(not line.strip() or line.startswith("#") for line in kept) else kept

    @property
    def endless(self) -> list[str]:
        """Its commands that are ended with Ctrl-C."""
        if "until" not in self.notes:
            return []
        return [line for line in self.lines if _SERVES.match(line)] or self.lines


@cache
def pages() -> tuple[str, ...]:
    """Return the pages whose blocks are run."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return tuple(str(path.relative_to(ROOT)) for path in found if "template" not in path.name)


@cache
def blocks_of(page: str) -> tuple[Block, ...]:
    """Return the blocks of a page, in their order."""
    return tuple(_blocks(page, (ROOT / page).read_text()))


def _blocks(page: str, text: str) -> Iterator[Block]:
    fences = list(_FENCE.finditer(text))
    for i, fence in enumerate(fences):
        above = text[: fence.start()]
        comments = _COMMENTS.search(above)
        notes = {kind: words or "" for kind, words in _NOTE.findall(comments[0])} if comments else {}
        prose = above[: comments.start()] if comments else above
        named = _NAMED_ABOVE.search(prose) or _NAMED_WITHIN.match(fence[2])
        below = fences[i + 1] if i + 1 < len(fences) else None
        follows = below and below[1] == "text" and not text[fence.end() : below.start()].strip()
        yield Block(
            page,
            above.count("\n") + 1,
            fence[1],
            fence[2],
            notes,
            named[1] if named and fence[1] in ("python", "yaml") else None,
            below[2] if below and follows else None,
        )


def count() -> str:
    """Return in words how many blocks there are, how many run, and why the others do not."""
    every = [block for page in pages() for block in blocks_of(page) if block.language in RUNNABLE]
    left = Counter(block.why_not for block in every if block.why_not)
    elsewhere = sum("tested by" in block.notes for block in every)
    quoted = sum("quoted" in block.notes for block in every)
    files = sum(block.file is not None for block in every)
    slow = sum("slow" in block.notes and not block.why_not for block in every)
    run = len(every) - left.total()
    words = (
        f"{len(every)} shell and Python blocks on {len(pages())} pages: {run} run ({slow} of them among the slow "
        f"proofs, {elsewhere} by tests of their own; {files} are files that others use, {quoted} are quoted from "
        f"files that are tested), {left.total()} do not:"
    )
    return "\n".join([words, *(f"  {number:3} {reason}" for reason, number in left.most_common())])


def commands_in(block: Block) -> list[list[str]]:
    """Return the words of every `proctor ...` in a shell block, without `proctor` itself."""
    found = []
    for line in block.text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        command: list[str] = []
        for word in [*lexer, ";"]:
            if word and set(word) <= set("();<>|&"):
                while command and re.match(r"\w+=", command[0]):
                    del command[0]
                if command and Path(command[0]).name == "proctor":
                    found.append(command[1:])
                command = ["redirected"] if ">" in word or "<" in word else []
            else:
                command.append(word)
    return found
