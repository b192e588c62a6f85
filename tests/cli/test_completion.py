"""Tab in real shells, in a terminal of their own: what is typed becomes what it should."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from harness import run_cli
from proctor.cli.completion import answer
from proctor.cli.main import COMMANDS
from proctor.config.registry import load_object

SECONDS = 60.0


class Shell:
    """A shell on a terminal, with completion for the `proctor` of this interpreter."""

    def __init__(self, name: str, folder: Path) -> None:
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        program = bin_folder / "proctor"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m proctor "$@"\n')
        program.chmod(0o755)
        echo = bin_folder / "typed"
        echo.write_text('#!/bin/sh\nfor word; do printf "<%s>" "$word"; done; echo "<end>"\n')
        echo.chmod(0o755)
        script = folder / f"proctor.{name}"
        script.write_text(run_cli("completion", name).stdout)
        path = shutil.which(name)
        assert path is not None
        commands = {
            "bash": [path, "--norc", "--noprofile", "-i"],
            "zsh": [path, "-f", "-i"],
        }
        self.terminal, theirs = pty.openpty()
        environment = {
            **os.environ,
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "TERM": "dumb",
            "HOME": str(folder),
            "PS1": "$ ",
            "COLUMNS": "200",
        }
        self.process = subprocess.Popen(
            commands[name],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: __import__("fcntl").ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        if name == "zsh":
            self.run("autoload -U compinit && compinit -D -u; bindkey '^I' expand-or-complete")
        self.run(f"source {shlex.quote(str(script))}")

    def run(self, line: str) -> str:
        """Type a line, wait until it has run, and return what was printed."""
        self._type(f"{line}; typed ready\r")
        return self._read_until("<ready><end>")

    def completed(self, line: str) -> str:
        """Return what a line has become after Tab, as one text: its words in angle brackets.

        What follows Tab waits in the terminal until the shell has its answer. Ctrl-A goes to the line's start.
        """
        self._type(f"{line}\t\x01typed \r")
        text = self._read_until("<end>")
        return text[text.rindex("<proctor>") :].partition("<end>")[0]

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)

    def _type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def _read_until(self, end: str) -> str:
        text = ""
        while end not in text:
            ready, _, _ = select.select([self.terminal], [], [], SECONDS)
            assert ready, f"waited in vain for {end} in {text!r}"
            text += os.read(self.terminal, 65536).decode(errors="replace")
        return text


@pytest.fixture(params=["bash", "zsh"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    if shutil.which(request.param) is None:
        pytest.skip(f"there is no {request.param} here")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "an expert").mkdir()
    (tmp_path / "runs" / "other").mkdir()
    found = Shell(request.param, tmp_path)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("typed", "becomes"),
    [
        ("proctor autot", "<proctor><autotune>"),
        ("proctor eval --env.type=metaw", "<proctor><eval><--env.type=metaworld>"),
        ("proctor eval --output_d", "<proctor><eval><--output_dir=>"),
        ("proctor eval --output_dir=runs/oth", "<proctor><eval><--output_dir=runs/other/>"),
        ("proctor compare runs/an", "<proctor><compare><runs/an expert/>"),
        ("proctor compare --fail-if=not", "<proctor><compare><--fail-if=not-better>"),
    ],
)
def test_tab_completes(shell: Shell, typed: str, becomes: str) -> None:
    assert shell.completed(typed) == becomes


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish here")
def test_fish_offers_words_with_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "proctor").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m proctor "$@"\n')
    (tmp_path / "proctor").chmod(0o755)
    (tmp_path / "proctor.fish").write_text(run_cli("completion", "fish").stdout)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    for line, becomes in (("proctor autot", "autotune\t"), ("proctor show --csv=r", "--csv=rates")):
        script = f"source {tmp_path / 'proctor.fish'}; complete -C {shlex.quote(line)}"
        command = ["fish", "--no-config", "-c", script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
        assert done.stdout.startswith(becomes), done.stderr


def offered(line: str) -> list[str]:
    """Return what may stand at the end of a line."""
    return [candidate.token for candidate in answer(line)]


def test_every_command_is_offered() -> None:
    assert offered("proctor ") == list(COMMANDS)
    assert offered("FOO=1 .venv/bin/proctor cert") == []
    assert offered("cd x && proctor parall") == ["parallel"]


@pytest.mark.parametrize(
    ("line", "among"),
    [
        ("proctor eval --", "--policy."),
        ("proctor eval --env.type=metaworld --env.ob", "--env.obs_type="),
        ("proctor eval --env.type=metaworld --env.task=reach-v3,rea", "--env.task=reach-v3,reach-wall-v3"),
        ("proctor eval --env.type=metaworld --env.obs_type=pix", "--env.obs_type=pixels_agent_pos"),
        ("proctor eval --policy.path=x.py:Y --policy.kw", "--policy.kwargs="),
        ("proctor eval --display ", "json"),
        ("proctor eval --eval.use_async_envs=f", "--eval.use_async_envs=false"),
        ("proctor eval --report_to=wandb,ten", "--report_to=wandb,tensorboard"),
        ("proctor parallel --num_s", "--num-shards="),
        ("proctor show --csv=r", "--csv=rates"),
        ("proctor list benchmarks m", "metaworld"),
        ("proctor check-benchmark metaw", "metaworld"),
        ("proctor init b", "benchmark"),
        ("proctor train --policy.task_w", "--policy.task_width="),
    ],
)
def test_flags_and_values_come_from_the_settings(line: str, among: str) -> None:
    assert among in offered(line)


def test_every_flag_in_a_commands_help_is_offered() -> None:
    for name in ("eval", "show", "compare", "film", "train"):
        page = io.StringIO()
        load_object(COMMANDS[name][0]).show_help(Console(file=page, width=200))
        for flag in re.findall(r"^(--[a-z][\w.-]*\w)(?= {2})", page.getvalue(), re.MULTILINE):
            kind = re.search(r"--env\.|--policy\.", flag)
            if not kind and flag != "--dataset":  # those of one benchmark or policy are offered where it is named
                assert any(each.rstrip("=") == flag for each in offered(f"proctor {name} {flag}")), (name, flag)


def test_files_are_offered_where_paths_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "one").mkdir(parents=True)
    for line in ("proctor show ru", "proctor film ru", "proctor eval --resume ru"):
        assert offered(line) == ["runs/"]
    assert offered("proctor eval --policy.path=runs/") == ["--policy.path=runs/one/"]
    assert offered("proctor compare --tasks=ru") == []
