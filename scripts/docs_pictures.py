"""Makes the pictures in docs/pictures from real runs: `make pictures`.

Terminals are recorded through a pseudo-terminal and drawn as SVG; pages are looked at in a headless Chromium and
kept as WebP, which Chromium itself writes. It runs in the main environment, and itself once more, as
`docs_pictures.py PAGES`, in the one that has playwright.
"""

from __future__ import annotations

import argparse
import base64
import fcntl
import io
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
COLUMNS, ROWS = 100, 40
TASKS = "--env.task=peg-insert-side-v3,door-open-v3,soccer-v3"
SETTINGS = ("--env.type=metaworld", TASKS, "--env.obs_type=state", "--eval.n_episodes=30")
THREE = (
    *("--policy.type=expert", "--env.type=metaworld", "--env.task=reach-v3,door-open-v3,peg-insert-side-v3"),
    "--eval.n_episodes=20",
)
NETWORK = "--policy.path=proctor/metaworld-mt50"

# rich's own template loads a font from the web.
_SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


@dataclass(frozen=True)
class Recording:
    """What a command wrote to a terminal, piece by piece, with the seconds since its start."""

    command: str
    pieces: list[tuple[float, bytes]]

    def until(self, share: float) -> str:
        """Return what was written in this share of the command's time."""
        end = share * self.pieces[-1][0]
        return b"".join(piece for second, piece in self.pieces if second <= end).decode(errors="replace")


def record(command: Sequence[str], cwd: Path) -> Recording:
    """Run a command in a terminal of its own."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    for name in ("COLUMNS", "LINES", "NO_COLOR", "CI"):
        environment.pop(name, None)
    start, pieces = time.monotonic(), []
    with subprocess.Popen(
        command, cwd=cwd, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            pieces.append((time.monotonic() - start, piece))
    os.close(ours)
    if process.returncode:
        text = b"".join(piece for _, piece in pieces).decode(errors="replace")
        raise SystemExit(f"{shlex.join(command)} ended with {process.returncode}:\n{text}")
    return Recording(shlex.join(["proctor", *command[1:]]), pieces)


def screen(written: str) -> list[str]:
    """Return the lines that a terminal shows, each with the colours in it, as escapes."""
    lines: list[list[tuple[str, str]]] = [[]]
    row, column, colours = 0, 0, ""
    for escape, letter, character in re.findall(r"\x1b\[([?\d;]*)([A-Za-z])|([^\x1b])", written):
        if letter == "m":
            colours = "" if escape in ("", "0") else f"{colours}\x1b[{escape}m"
        elif letter == "A":
            row = max(0, row - int(escape or 1))
        elif letter == "K":
            lines[row][0 if escape == "2" else column :] = []
        elif letter == "J":
            del lines[row + 1 :], lines[row][column:]
        elif character == "\r":
            column = 0
        elif character == "\n":
            row += 1
            lines += [[] for _ in range(row + 1 - len(lines))]
        elif character:
            line = lines[row]
            line += [(" ", "")] * (column + 1 - len(line))
            line[column] = (character, colours)
            column += 1
    return ["".join(f"\x1b[0m{colours}{letter}" for letter, colours in line) for line in lines]


def draw(name: str, command: str, written: str, place: Path) -> None:
    """Write a terminal's picture; paths are shown as on anybody's machine."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ {command}", style="bold"))
    for line in screen(written):
        text = Text.from_ansi(line)
        at = text.plain.find(f"{place}/")
        if at >= 0:
            text = text[:at] + text[at + len(f"{place}/") :]
        console.print(text, soft_wrap=True)
    svg = console.export_svg(title="proctor", code_format=_SVG, unique_id=Path(name).stem)
    (PICTURES / name).write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")


def terminals(program: str, place: Path) -> None:
    """Draw what people see while a run goes on, and when it has ended."""
    three = record([program, "eval", *THREE], place)
    draw("eval.svg", three.command, three.until(1), place)
    many = [program, "eval", NETWORK, "--env.type=metaworld", "--env.task=mt10", "--env.obs_type=state"]
    ten = record([*many, "--eval.n_episodes=20", "--output_dir=outputs/mt10"], place)
    draw("running.svg", ten.command, ten.until(0.75), place)


def runs(program: str, place: Path) -> None:
    """Make the runs that the pages show."""
    for name, policy in (("experts", "--policy.type=expert"), ("network", NETWORK)):
        _run(place, program, "eval", policy, *SETTINGS, f"--output_dir=outputs/{name}")
    _run(place, program, "film", "outputs/network", "soccer-v3:0", "soccer-v3:4", "--fps=5")
    _run(place, program, "report", "outputs/network")
    _run(place, program, "report", "outputs/experts", "outputs/network", "--output=outputs/comparison.html")


def _run(place: Path, *command: str) -> None:
    subprocess.run([*command], cwd=place, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def viewer(program: str, place: Path) -> Iterator[str]:
    """Return the address of a viewer of the runs."""
    command = [program, "view", "outputs", "--port=0"]
    with subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split(" at ")[1].split()[0]
        finally:
            process.terminate()


def photograph(pages: dict[str, str]) -> None:
    """Write pictures of pages; runs where playwright is."""
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1200, "height": 800}, color_scheme="light")
        for name, address in pages.items():
            page.goto(address)
            page.wait_for_load_state("networkidle" if address.startswith("file:") else "load")
            page.wait_for_timeout(1000)  # posters of videos come last
            png = base64.b64encode(page.screenshot()).decode()
            webp = page.evaluate(_AS_WEBP, png)
            (PICTURES / name).write_bytes(base64.b64decode(webp.partition(",")[2]))
        browser.close()


_AS_WEBP = """async png => {
  const image = new Image();
  image.src = 'data:image/png;base64,' + png;
  await image.decode();
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [image.width, image.height];
  canvas.getContext('2d').drawImage(image, 0, 0);
  return canvas.toDataURL('image/webp', 0.85);
}"""


def main() -> None:
    """Make all pictures, or those of the pages that are given as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="?", type=json.loads, help="names and addresses of pages, as JSON")
    parser.add_argument("--browser", help="an interpreter that has playwright")
    given = parser.parse_args()
    if given.pages is not None:
        photograph(given.pages)
        return
    program = str(Path(sys.executable).with_name("proctor"))
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        terminals(program, place)
        runs(program, place)
        with viewer(program, place) as address:
            pages = {
                "report.webp": f"file://{place}/outputs/network/report.html",
                "comparison.webp": f"file://{place}/outputs/comparison.html#compare",
                "viewer.webp": address,
            }
            subprocess.run([given.browser, __file__, json.dumps(pages)], check=True)
    kilobytes = sum(file.stat().st_size for file in PICTURES.iterdir()) / 1000
    sys.stdout.write(f"{len(list(PICTURES.iterdir()))} pictures in {PICTURES}, {kilobytes:.0f} kB\n")


if __name__ == "__main__":
    main()
