"""`proctor init` writes files that run as they are, by the commands that it prints."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from harness import run_cli
from proctor.cli.init import commands


def test_the_policy_runs_by_the_command_that_is_printed(tmp_path: Path) -> None:
    done = run_cli("init", "policy", "grasp", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written, command = done.stdout.splitlines()
    assert written == "written: grasp.py"
    assert shlex.split(command) == commands("policy", Path("grasp.py"))[0]
    ran = run_cli(*shlex.split(command)[1:], "--output_dir=run", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    info = json.loads((tmp_path / "run" / "eval_info.json").read_text())
    assert info["overall"]["n_episodes"] == 2


def test_the_benchmark_keeps_its_contract_and_can_be_solved(tmp_path: Path) -> None:
    done = run_cli("init", "benchmark", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    check, evaluation = (shlex.split(line) for line in done.stdout.splitlines()[1:])
    checked = run_cli(*check[1:], cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout
    assert "keeps its contract" in checked.stdout
    ran = run_cli(*evaluation[1:], "--min_success=1", "--env.wind=0", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "my_policy.py").write_text("mine")
    done = run_cli("init", "policy", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "proctor: my_policy.py is there already, and is left as it is. Name another file.\n"
    assert (tmp_path / "my_policy.py").read_text() == "mine"


def test_mistakes_are_told_in_a_line(tmp_path: Path) -> None:
    for arguments, words in (
        ([], "say policy or benchmark"),
        (["polcy"], "Did you mean 'policy'?"),
        (["policy", "a.py", "b.py"], "one file at a time"),
        (["policy", "nowhere/a.py"], "there is no directory"),
    ):
        done = run_cli("init", *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())
