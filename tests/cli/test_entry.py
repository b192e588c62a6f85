"""The first and the last lines of the program: streams and signals, in real processes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import SUPPORT, flags, start_cli, tiny_tree, without_rights
from proctor.cli.main import COMMANDS
from proctor.cli.run import after_run
from proctor.errors import RunError
from proctor.plan import make_plan
from proctor.results import Evaluation, ScoredRun

PROGRAM = [sys.executable, "-m", "proctor"]
PRESS = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"


def run(*arguments: str, folder: Path | None = None, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run `proctor` as a shell would, with bytes as they come."""
    environment = {**os.environ, **options.pop("env", {})}
    if folder is not None:  # whose modules are found before those installed
        environment["PYTHONPATH"] = os.pathsep.join([str(folder), environment.get("PYTHONPATH", "")])
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run([*PROGRAM, *arguments], env=environment, timeout=120, check=False, **options)


def shell(script: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `proctor` in a line of shell."""
    line = script.replace("proctor ", f"{sys.executable} -m proctor ")
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=120, check=False, **options
    )


# Ctrl-C


@pytest.mark.parametrize("module", ["rich", "numpy"])
def test_ctrl_c_while_modules_are_imported_is_one_line(tmp_path: Path, module: str) -> None:
    (tmp_path / module).mkdir()
    (tmp_path / module / "__init__.py").write_text(f"{PRESS}raise ImportError('half of it')")
    done = run("eval", "--help", folder=tmp_path)
    assert (done.returncode, done.stderr) == (130, b"proctor: interrupted\n")


def test_ctrl_c_that_a_package_turns_into_another_error_is_still_one(tmp_path: Path) -> None:
    (tmp_path / "turner.py").write_text(
        f"try:\n    {PRESS.replace(chr(10), ';')}\nexcept BaseException:\n    1 / 0\n"
    )
    done = run("check-benchmark", f"{tmp_path}/turner.py:X")
    assert (done.returncode, done.stderr) == (130, b"proctor: interrupted\n")


def benchmark(tmp_path: Path, lines: str) -> list[str]:
    """Return flags of a short run whose benchmark's file, which the command itself imports, does more."""
    (tmp_path / "mine.py").write_text(
        f"import sys\nsys.path.append({str(SUPPORT)!r})\nfrom tiny import Tiny\n{lines}"
    )
    tree = tiny_tree(tmp_path / "run", task="a", n_episodes=1, eval={"batch_size": 1})
    tree["env"]["type"] = f"{tmp_path}/mine.py:Tiny"
    return flags(tree)


def test_ctrl_c_while_the_report_is_written_says_that_the_run_is_stored(tmp_path: Path) -> None:
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    (stubs / "jinja2.py").write_text(PRESS)  # only the report needs it
    done = run("eval", *benchmark(tmp_path, ""), folder=stubs)
    assert done.returncode == 130, done.stderr
    assert (
        done.stderr
        == f"proctor: interrupted after the last episode; the run is stored in {tmp_path}/run\n".encode()
    )
    assert (tmp_path / "run" / "eval_info.json").exists()


def test_ctrl_c_while_the_report_of_a_stopped_run_is_written_says_how_it_goes_on(tmp_path: Path) -> None:
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    (stubs / "jinja2.py").write_text(PRESS)
    in_worker = "if 'proctor.engine.worker' in sys.modules and 'proctor.cli.main' not in sys.modules:\n"
    first = f"{in_worker}    import os, signal; os.kill(os.getppid(), signal.SIGINT)\n"
    placed = "--policy.placement=worker"  # otherwise workers start before the run does
    done = run("eval", *benchmark(tmp_path, first), "--eval.n_episodes=3", placed, folder=stubs)
    assert done.returncode == 130, done.stderr
    to_go = f"interrupted with 2 episodes to go. To go on: proctor eval --resume={tmp_path}/run\n"
    assert done.stderr.endswith(f"proctor: {to_go}".encode())


def test_ctrl_c_after_a_run_that_never_began_does_not_speak_of_a_last_episode(tmp_path: Path) -> None:
    run = ScoredRun.empty(tmp_path / "run", make_plan([], 1, 0))
    words = {
        (signal.SIGINT, None): "interrupted before the first episode; nothing was stored",
        (None, RunError("the disk is full")): "interrupted after the run had ended: the disk is full",
    }
    for (stopped_by, error), told in words.items():
        evaluation = Evaluation(run, {}, stopped_by, error)
        with pytest.raises(KeyboardInterrupt, match=told), after_run(evaluation, "proctor eval --resume=run"):
            raise KeyboardInterrupt


def test_ctrl_c_while_trackers_finish_says_that_the_run_is_stored(tmp_path: Path) -> None:
    tracker = tmp_path / "tracker.py"
    tracker.write_text(
        "import os, signal, time\nimport proctor\n"
        "class Slow(proctor.Tracker):\n"
        "    def start(self, *arguments, **named): pass\n"
        "    def log(self, *arguments, **named): pass\n"
        "    def conclude(self, *arguments, **named):\n"
        "        os.kill(os.getppid(), signal.SIGINT)\n"
        "        time.sleep(60)\n"
    )
    done = run("eval", *benchmark(tmp_path, ""), f"--report_to={tracker}:Slow")
    assert done.returncode == 130, done.stderr
    assert done.stderr.startswith(b"proctor: interrupted after the last episode"), done.stderr
    assert done.stderr.count(b"\n") == 1


def test_ctrl_c_while_the_interpreter_shuts_down_is_one_line(tmp_path: Path) -> None:
    late = "import atexit, os, signal\natexit.register(os.kill, os.getpid(), signal.SIGINT)\n"
    only_here = f"if 'proctor.cli.main' in sys.modules:\n    {late.replace(chr(10), ';')}\n"
    done = run("eval", *benchmark(tmp_path, only_here))
    assert (done.returncode, done.stderr) == (130, b"proctor: interrupted\n")


def test_a_second_ctrl_c_ends_what_does_not_end_by_itself(tmp_path: Path) -> None:
    slow = "try:\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(1)\nfinally:\n    time.sleep(600)\n"
    (tmp_path / "slow.py").write_text(f"import os, signal, sys, time\nprint('here', flush=True)\n{slow}")
    process = start_cli("check-benchmark", f"{tmp_path}/slow.py:X")
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    while process.poll() is None:  # the first press is its own; each of ours may come before it
        process.send_signal(signal.SIGINT)
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
    _, told = process.communicate()
    assert (process.returncode, told) == (130, "proctor: interrupted\n")


def test_ctrl_c_is_ignored_where_whoever_starts_it_says_so() -> None:
    done = run("list", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert done.returncode == 0


# Streams


@pytest.mark.parametrize("command", ["list", "--help", "doctor --json", "eval --help"])
@pytest.mark.parametrize("end", [">&-", ">&- 2>&-", "<&- >&-", "| head -c0", "2> /dev/full"])
def test_output_that_nobody_takes_does_not_end_a_command(command: str, end: str) -> None:
    if command != "list" and end not in (">&-", "| head -c0"):
        pytest.skip("the same for every command")
    done = shell(f"proctor {command} {end}; exit ${{PIPESTATUS[0]}}")
    assert done.stderr == ""
    assert done.returncode == (1 if command == "doctor --json" and done.returncode else 0)


def test_output_that_is_lost_is_told() -> None:
    done = shell("proctor list > /dev/full")
    assert done.stderr == "proctor: what was printed is lost: No space left on device\n"
    assert done.returncode == 1


def test_a_run_whose_output_is_closed_is_stored_whole(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", task="a", n_episodes=2, eval={"batch_size": 1}, display="plain")
    line = " ".join(["proctor eval", *flags(tree), "<&- >&- 2>&-"])
    assert shell(line).returncode == 0
    assert (tmp_path / "run" / "eval_info.json").exists()
    assert b"episodes" not in (tmp_path / "run" / "run.sqlite").read_bytes()[:16]


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "ascii:strict", "utf-16"])
def test_an_encoding_that_lacks_characters_spells_them(encoding: str) -> None:
    done = run("list", env={"PYTHONIOENCODING": encoding})
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode(encoding.partition(":")[0])
    assert "metaworld" in text
    assert "gym         proctor" in text


def test_a_run_of_a_task_that_a_terminal_cannot_show_ends_well(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", task="größe→2", n_episodes=1, eval={"batch_size": 1}, display="plain")
    done = run("eval", *flags(tree), env={"PYTHONIOENCODING": "latin-1"})
    assert done.returncode == 0, done.stderr
    assert "größe->2".encode("latin-1") in done.stdout


# Surroundings


@pytest.mark.parametrize("command", COMMANDS)
def test_a_deleted_working_directory_is_named(tmp_path: Path, command: str) -> None:
    from proctor.cli import main

    gone = tmp_path / "gone"
    gone.mkdir()
    before = Path.cwd()
    os.chdir(gone)
    try:
        gone.rmdir()
        assert main.run([command, "x"]) == 2
    finally:
        os.chdir(before)


def test_a_deleted_working_directory_is_told_in_one_line() -> None:
    done = shell("cd $(mktemp -d) && rmdir $PWD && proctor list")
    assert done.returncode == 2
    assert done.stderr == (
        "proctor: the current directory is gone: there is no such file or folder. Change to another: cd ~\n"
    )


@pytest.mark.parametrize("files", [10, 20, 40])
def test_too_few_open_files_are_told_with_what_to_do(files: int) -> None:
    done = run("list", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
    assert done.returncode == 2
    told = f"proctor: only {files} files may be open at once here, and Proctor needs 64. Run: ulimit -n 1024\n"
    assert done.stderr.decode() == told


def test_the_fewest_open_files_that_are_allowed_do_for_a_run(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", task="a", n_episodes=2, eval={"batch_size": 1})
    done = run("eval", *flags(tree), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
    assert done.returncode == 0, done.stderr


def test_a_package_that_is_missing_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise ModuleNotFoundError(\"No module named 'rich'\", name='rich')")
    done = run("list", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(b"proctor: cannot start: No module named 'rich'")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["merge", "{}/shut/run"],
        ["compare", "{}/shut", "{}/shut"],
        ["report", "{}/shut"],
        ["report", "{}/open", "--output={}/shut/r.html"],
        ["view", "{}/shut/inner"],
        ["eval", "--resume={}/shut/run"],
        ["eval", "--config_path={}/shut/c.yaml"],
        ["eval", "--policy.path={}/shut/p.py:X", "--env.type=" + f"{SUPPORT}/tiny.py:Tiny"],
        ["check-benchmark", "{}/shut/p.py:X"],
        ["eval", "--policy.type=zero", f"--env.type={SUPPORT}/tiny.py:Tiny", "--output_dir={}/shut/out"],
        ["eval", "--policy.type=zero", f"--env.type={SUPPORT}/tiny.py:Tiny", "--output_dir={}/readonly"],
        ["merge", "{}/open", "--output_dir={}/shut/out"],
    ],
    ids=lambda arguments: " ".join(arguments)[:60],
)
def test_what_may_not_be_touched_is_told_in_one_line(tmp_path: Path, arguments: list[str]) -> None:
    for name, mode in (("shut", 0), ("open", 0o755), ("readonly", 0o555)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    done = run(*[argument.replace("{}", str(tmp_path)) for argument in arguments], preexec_fn=without_rights)
    told = done.stderr.decode()
    assert done.returncode == 2, told
    assert told.startswith("proctor: ")
    assert told.count("\n") == 1
    assert "permission denied" in told.lower() or "holds no run" in told, told
