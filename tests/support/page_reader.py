"""Somebody who does what a page of the docs says, block by block: `doc_blocks.py` says what the blocks are."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from types import TracebackType

from doc_blocks import PRINTS, ROOT, Block
from harness import lay_out, without_rights

BREEZE = ROOT / "examples" / "proctor-breeze"
HOME = "/home/me"
"""Where a reader works, as pages show it."""

EVALUATING = "eval|verify|eval-parallel|parallel|record|train|autotune|eval-autotune|serve"


class BlockFailed(AssertionError):
    """A block of a page did not do what the page says."""


class Reader:
    """Somebody who does what a page says, block by block, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tmp").mkdir(parents=True)
        (folder / "bin").mkdir()
        program = folder / "bin" / "proctor"
        # Flags of the note "with" come last, where they hold.
        program.write_text(
            f'#!/bin/sh\ncase "$1" in {EVALUATING}) set -- "$@" $PROCTOR_DOC_FLAGS ;; esac\n'
            f'exec "{sys.executable}" -m proctor "$@"\n'
        )
        program.chmod(0o755)
        for name in ("src", "tests", "examples", "benchmarks"):
            (folder / name).symlink_to(ROOT / name)
        install_breeze(folder / "installed")
        self._python: subprocess.Popen[str] | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if self._python is not None:
            self._python.communicate(timeout=60)

    def do(self, block: Block) -> None:
        """Run a block, or write the file that it is. Raises `BlockFailed`."""
        if shutil.which(block.notes.get("needs", "sh")) is None:
            return
        if block.file is not None:
            path = self.folder / block.file.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif "quoted" in block.notes:
            self._check_quoted(block)
        elif block.language == "python":
            self._do_python(block)
        else:
            self._do_shell(block)

    def _here(self, text: str) -> str:
        return re.sub(r"(?<![\w.])/tmp/", f"{self.folder}/tmp/", text)

    def _environment(self, block: Block) -> dict[str, str]:
        path = f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        flags = {"PROCTOR_DOC_FLAGS": block.notes.get("with", "")}
        packages = (self.folder / "installed", BREEZE / "src", os.environ.get("PYTHONPATH"))
        where = {"PATH": path, "PYTHONPATH": ":".join(str(each) for each in packages if each)}
        return {**os.environ, **where, "COLUMNS": "120", **flags}

    def _do_shell(self, block: Block) -> None:
        before = block.notes.get("before", "")
        if before:
            self._shell(Block(block.page, block.line, "sh", before), before, 0)
        ended = block.endless
        told = "".join(self._do_until(block, self._here(line)) for line in ended)
        lines = [line for line in block.lines if line not in ended]
        try:
            status = 0 if ended else int(block.notes.get("exits", 0))
            printed = told + self._shell(block, "\n".join(lines), status)
        finally:
            if "after" in block.notes:
                self._shell(Block(block.page, block.line, "sh", ""), block.notes["after"], 0)
        if {*PRINTS} & {*block.notes}:
            self._check_printed(block, printed)
        for header in _table_headers(block.shown or ""):
            if header not in _table_headers(printed):
                raise BlockFailed(f"{block}: the page shows a table with the columns {header}:\n{printed}")

    def _shell(self, block: Block, script: str, status: int) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self._here(script)],
            cwd=self.folder,
            env=self._environment(block),
            preexec_fn=without_rights,  # no reader is root
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1500 if "slow" in block.notes else 280,
        )
        if done.returncode != status:
            raise BlockFailed(f"{block}: exit status {done.returncode}\n{script}\n{done.stdout}")
        return done.stdout

    def _check_printed(self, block: Block, printed: str) -> None:
        """Compare what was printed with what the page shows, wherever the reader's folder is."""
        shown = (block.shown or "").rstrip("\n")
        texts = shown.split("\n\n") if "prints one of" in block.notes else [shown]
        pattern = "|".join(".*".join(re.escape(part) for part in text.split("…")) for text in texts)
        there = printed.replace(f"{self.folder}/tmp/", "/tmp/").replace(str(self.folder), HOME).rstrip("\n")
        if "prints" not in block.notes:
            pattern = rf"(?:.*\n)*?(?:{pattern})(?:\n.*)*"
        if not shown or not re.fullmatch(pattern, there):
            raise BlockFailed(f"{block}: the page shows\n{shown}\nand this is printed:\n{there}")

    def _do_until(self, block: Block, line: str) -> str:
        printed = ""
        with subprocess.Popen(
            ["bash", "-c", f"exec {line}"],
            cwd=self.folder,
            env={**self._environment(block), "BROWSER": "true"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            for each in process.stdout:
                printed += each
                if block.notes["until"] in each:
                    process.send_signal(signal.SIGINT)
                    printed += process.stdout.read()
                    if process.wait(timeout=60) == 130:
                        return printed
        raise BlockFailed(f"{block}: '{line}' ended with {process.returncode}\n{printed}")

    def _do_python(self, block: Block) -> None:
        if self._python is None:
            self._python = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("block_session.py"))],
                cwd=self.folder,
                env=self._environment(block),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        for code in filter(None, (block.notes.get("before"), block.text)):
            self._python.stdin.write(json.dumps({"code": self._here(code), "name": str(block)}) + "\n")
            self._python.stdin.flush()
            answer = json.loads(self._python.stdout.readline() or '{"error": "Python ended"}')
            if "error" in answer:
                raise BlockFailed(f"{block}: {answer['error']}")
        if block.shown is not None and not answer["printed"].endswith(block.shown):
            raise BlockFailed(f"{block}: the page shows\n{block.shown}\nand this is printed:\n{answer['printed']}")

    def _check_quoted(self, block: Block) -> None:
        files = [file for file in (ROOT / block.notes["quoted"]).rglob("*") if file.suffix in (".py", ".toml")]
        if not any(block.text.strip("\n") in file.read_text() for file in files):
            raise BlockFailed(f"{block}: no file in {block.notes['quoted']} has these lines")


def install_breeze(site: Path) -> None:
    """Leave in a folder of the path what pip leaves of the example package."""
    project = tomllib.loads((BREEZE / "pyproject.toml").read_text())["project"]
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in points.items())
        for group, points in project["entry-points"].items()
    ]
    lay_out(site, "proctor_breeze", "\n".join(groups), project["version"])


def _table_headers(text: str) -> list[list[str]]:
    """Return the column names of every table that was printed."""
    rows = [line for line in text.splitlines() if line.startswith("┃")]
    return [[cell.strip() for cell in row.strip("┃").split("┃")] for row in rows]
