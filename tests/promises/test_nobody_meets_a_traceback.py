"""Whatever a user types, names or puts in the way: one message that says what is wrong, and never a traceback.

Every command is walked with every bad input; a new command, by being one, is walked too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import SUPPORT
from proctor.cli.main import COMMANDS, run
from proctor.engine.process import STEADY
from stepwise_trainer import make_dataset

TINY = f"{SUPPORT / 'tiny.py'}:Tiny"
PYTHON = f"{SUPPORT / 'tiny_policies.py'}:Thoughtful"
EVAL = (f"--policy.path={PYTHON}", f"--env.type={TINY}", "--env.task=a", "--eval.n_episodes=1", "--display=none")

BAD_PATHS = {
    "missing": "nowhere/at/all",
    "a file": "file",
    "below a file": "file/below",
    "long": "x" * 300,
    "longer": "x/" * 3000,
    "a circle": "circle",
    "no text": "caf\udce9",
    "a device": "/dev/zero",
    "nobody's home": "~nobody_at_all/x",
    "two lines": "a\nb",
    "a link to nothing": "dangling",
    "a pipe": "pipe",
}

PATH_FORMS: dict[str, Callable[[str], list[str]]] = {
    "given": lambda path: [path, path],
    "resume": lambda path: [f"--resume={path}"],
    "config": lambda path: [f"--config_path={path}"],
    "output": lambda path: ["empty", f"--output={path}"],
    "output_dir": lambda path: ["empty", f"--output_dir={path}"],
    "policy": lambda path: [f"--policy.path={path}", f"--env.type={TINY}"],
    "benchmark": lambda path: [f"--policy.type=zero --env.type={path}.py:X"],
    "prompts": lambda path: [
        "--policy.type=zero", "--env.type=metaworld", "--env.task=reach-v3", f"--env.prompts={path}",
    ],
}  # fmt: skip

BAD_FILES = {
    "syntax.py": ("def (\n", "SyntaxError: invalid syntax"),
    "exits.py": ("import sys\nsys.exit(3)\n", "it called sys.exit(3)"),
    "leaves.py": ("class Out(BaseException):\n    pass\nraise Out('boo')\n", "Out: boo"),
    "deep.py": ("def f():\n    f()\nf()\n", "RecursionError: maximum recursion depth exceeded"),
    "lacks.py": ("import torchx_is_not_there\n", "ModuleNotFoundError: No module named 'torchx_is_not_there'"),
    "zero.py": ("x = '\0'\n", "source code"),
    "latin.py": ("x = '\udce9'\n", "SyntaxError"),
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with all kinds of things in the way."""
    monkeypatch.chdir(tmp_path)
    for name, value in STEADY.items():
        monkeypatch.setenv(name, value)  # a command that must run in such a process would start it over
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "dangling").symlink_to("nothing")
    os.mkfifo(tmp_path / "pipe")
    for name, (text, _) in BAD_FILES.items():
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must fail as a user's mistake, and return its message."""
    status, (_, message) = run(arguments), capsys.readouterr()
    if arguments[0] == "check-benchmark" and status == 1:
        return ""  # a policy that cannot be loaded is a check that fails
    assert status == 2, (arguments, message)
    assert "Traceback" not in message
    assert "unforeseen" not in message, message
    assert message.rpartition("proctor: ")[2].strip(), message
    assert len(message) < 3_000
    return message


@pytest.mark.parametrize("form", PATH_FORMS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_that_cannot_be_used(capsys: pytest.CaptureFixture[str], command: str, form: str) -> None:
    for path in BAD_PATHS.values():
        told(capsys, command, *PATH_FORMS[form](path))


@pytest.mark.parametrize(
    "path", ["file", "file/below", "x" * 300, "x/" * 3000, "circle", "/dev/zero", "/proc/x", "pipe"]
)
@pytest.mark.parametrize("command", ["eval", "parallel"])
def test_an_output_directory_that_cannot_be_one(
    capsys: pytest.CaptureFixture[str], command: str, path: str
) -> None:
    assert "output_dir" in told(capsys, command, *EVAL, f"--output_dir={path}")


@pytest.mark.parametrize(
    "path", ["file", "file/below", "x" * 300, "x/" * 3000, "circle", "/dev/zero", "/proc/x", "pipe"]
)
@pytest.mark.parametrize("flag", ["output_dir", "dataset.root", "resume"])
def test_a_training_where_none_can_be(
    capsys: pytest.CaptureFixture[str], place: Path, flag: str, path: str
) -> None:
    make_dataset(place / "demonstrations")
    given = {"policy.type": "compact", "dataset.root": "demonstrations", flag: path}
    message = told(capsys, "train", *(f"--{name}={text}" for name, text in given.items()))
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (["merge", "--output-dir=", "empty"], "--output_dir"),
        (["merge", "--output_dir", " ", "empty"], "--output_dir"),
        (["merge", ""], "DIR"),
        (["report", "--output=", "empty"], "--output"),
        (["report", ""], "DIR"),
        (["compare", "empty", ""], "A B"),
        (["view", ""], "ROOT"),
        (["view", "empty", "--host="], "--host"),
        (["serve", f"--policy.path={PYTHON}", f"--env.type={TINY}", "--host="], "--host"),
    ],
    ids=" ".join,
)
def test_an_empty_path_or_host_is_not_taken_for_this_folder_or_any_host(
    capsys: pytest.CaptureFixture[str], place: Path, line: list[str], name: str
) -> None:
    before = sorted(place.iterdir())
    words = f"{name} is empty: give a value, or leave it out. See: proctor {line[0]} --help"
    assert told(capsys, *line) == f"proctor: {words}\n"
    assert sorted(place.iterdir()) == before


@pytest.mark.parametrize("file", BAD_FILES)
def test_a_users_file_that_cannot_be_imported_is_told_with_its_line(
    capsys: pytest.CaptureFixture[str], file: str
) -> None:
    _, words = BAD_FILES[file]
    for arguments in (
        ["eval", *EVAL, f"--policy.path={file}:X", "--output_dir=run"],
        ["eval", *EVAL, f"--env.type={file}:X"],
        ["eval", *EVAL, f"--report_to={file}:X"],
        ["check-benchmark", f"{file}:X"],
        ["serve", *EVAL[1:2], f"--policy.path={file}:X"],
    ):
        message = told(capsys, *arguments)
        assert words in message
        assert f"{file}, line " in message or file in ("zero.py", "latin.py")


VALUES = {
    "--seed=18446744073709551616": "must be at most 4,294,967,295",
    "--seed=9223372036854775807": "must be at most 4,294,967,295",
    "--seed=4294967295 --eval.n_episodes=2": "Use --seed=4294967294 or less",
    f"--seed={'9' * 5000}": "--seed=9999",
    "--eval.n_episodes=1000000000": "must be at most 1,000,000",
    "--eval.n_episodes=600000 --env.task=a,b": "a run has at most 1,000,000. Ask for 500,000 or fewer",
    "--eval.num_shards=1000000000": "must be at most 1,000,000",
    "--eval.batch_size=1000000000": "must be at most 10,000",
    "--eval.video_fps=99999999999999999999": "at most 2**63 - 1",
    "--policy.kwargs={a: [99999999999999999999]}": "at most 2**63 - 1",
    "--eval.stop_grace=nan": "must be at least 0",
    "--a" + ".a" * 5000 + "=1": "no setting has so many dots",
    "--env.task=a\0b": "",
    "--env.task=,": "a task's name is empty",
    "--env.task=a,,b": "a task's name is empty",
    "--output_dir=": "--output_dir= is empty: name a path, or leave it out.",
    "--resume=": "--resume= is empty: name a path, or leave it out.",
}


@pytest.mark.parametrize("flags", VALUES, ids=lambda flags: flags[:40])
def test_a_value_that_is_beyond_all_bounds(capsys: pytest.CaptureFixture[str], flags: str) -> None:
    words = VALUES[flags]
    begun = time.monotonic()
    if words:
        assert words in told(capsys, "eval", *EVAL, *flags.split(" --")[:1], *_rest(flags))
    assert time.monotonic() - begun < 30  # a limit against hanging, not a measurement


def _rest(flags: str) -> list[str]:
    return [f"--{flag}" for flag in flags.split(" --")[1:]]


def test_a_million_shards_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "must be from 1 to 512, or auto" in told(capsys, "parallel", *EVAL, "--num-shards=1000000")


@pytest.mark.parametrize("command", ["view .", f"serve --policy.path={PYTHON} --env.type={TINY}"], ids=str.split)
@pytest.mark.parametrize(
    ("flag", "words"),
    [
        (f"--port={'9' * 5000}", "--port=999"),
        ("--port=65536", "65"),
        ("--port=-1", "--port=-1"),
        ("--port=٣", "--port="),
        ("--host=a..b", "there is no such host. Check --host."),
        (f"--host={'x' * 300}", "there is no such host. Check --host."),
        ("--host=\udce9", "there is no such host. Check --host."),
        ("--host=192.0.2.1", "this machine has no such address. Check --host."),
    ],
    ids=lambda value: value[:12],
)
def test_an_address_that_cannot_be_listened_on(
    capsys: pytest.CaptureFixture[str], command: str, flag: str, words: str
) -> None:
    assert words in told(capsys, *command.split(), flag)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("seed: yes", "--seed=true: must be a number; YAML reads yes and no as true and false."),
        ("eval: {n_episodes: on}", "--eval.n_episodes=true: must be a number"),
        ("limits: {step: no}", "--limits.step=false: must be a number"),
        ('output_dir: "a\\0b"', "zero byte"),
        ("env: {type: [1]}", "--env.type=[1]"),
        ("policy: 3", "'policy' is a section"),
    ],
)
def test_settings_in_yaml_that_mean_something_else(
    capsys: pytest.CaptureFixture[str], place: Path, settings: str, words: str
) -> None:
    (place / "c.yaml").write_text(settings)
    flags = [flag for flag in EVAL if flag.partition(".")[0][2:] not in settings]
    assert words in told(capsys, "eval", *flags, "--config_path=c.yaml")


def test_two_misspelled_tasks_are_both_named(capsys: pytest.CaptureFixture[str]) -> None:
    message = told(
        capsys, "eval", "--policy.type=zero", "--env.type=metaworld", "--env.task=raech-v3,push-v3,psuh-v3"
    )
    assert "--env.task=raech-v3: unknown. Did you mean 'reach-v3'?" in message
    assert "--env.task=psuh-v3: unknown. Did you mean 'push-v3'?" in message


def test_a_policys_file_without_a_name_is_told_to_add_one(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    (place / "mine.py").write_text("def act(observation): return [0, 0]\n")
    message = told(capsys, "eval", "--policy.path=mine.py", f"--env.type={TINY}")
    assert "Add the name of the policy in it: --policy.path=mine.py:NAME" in message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("    def __init__(self, settings): pass", "its __init__ must call super().__init__(settings)."),
        ("    def __init__(self, settings): 1 / 0", "the benchmark cannot be made: ZeroDivisionError"),
        (
            "    def __init__(self, settings): raise SystemExit",
            "the benchmark cannot be made: it called sys.exit()",
        ),
        ("    def tasks(self): return [self.x for _ in 'ab']", "could not be asked for its tasks and spaces"),
    ],
)
def test_a_benchmark_that_fails_when_it_is_made(
    capsys: pytest.CaptureFixture[str], place: Path, body: str, words: str
) -> None:
    (place / "mine.py").write_text(
        f"import sys\nsys.path.append({str(SUPPORT)!r})\nimport tiny\nclass B(tiny.Tiny):\n{body}\n"
    )
    assert words in told(capsys, "eval", *EVAL, "--env.type=mine.py:B", "--output_dir=run")
    assert words in told(capsys, "serve", EVAL[0], "--env.type=mine.py:B", "--env.task=a")


def test_a_policy_that_leaves_when_it_is_made(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    (place / "mine.py").write_text("import sys\nclass P:\n    def __init__(self): sys.exit('no weights')\n")
    message = told(capsys, "serve", "--policy.path=mine.py:P", f"--env.type={TINY}")
    assert "the policy could not be loaded: it called sys.exit('no weights')" in message
    assert "mine.py, line 3, in __init__" in message


@pytest.mark.parametrize("placement", ["central", "worker"])
def test_an_exception_is_no_policy(capsys: pytest.CaptureFixture[str], place: Path, placement: str) -> None:
    (place / "odd.py").write_text("class Odd(Exception):\n    pass\n")
    flags = ["--policy.path=odd.py:Odd", f"--policy.placement={placement}", "--output_dir=run"]
    assert "odd.py:Odd is no policy" in told(capsys, "eval", *EVAL, *flags)
