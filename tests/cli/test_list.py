"""`proctor list`: what there is, from which package, and its tasks; without opening anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import proctor
from harness import lay_out, run_cli
from proctor.cli.main import run


def listed(*arguments: str, site: Path | None = None) -> dict[str, dict[str, dict[str, Any]]]:
    """Return what --json tells, by kind and name."""
    done = run_cli("list", *arguments, "--json", extra_env=ahead(site) if site else None)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return {kind: {entry["name"]: entry for entry in entries} for kind, entries in told.items()}


def ahead(folder: Path) -> dict[str, str]:
    return {"PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


def test_everything_is_a_line_with_its_package() -> None:
    done = run_cli("list")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    (line,) = (line for line in lines if line.startswith("metaworld "))
    assert f"proctor-eval {proctor.__version__}" in line
    assert "50 in 6 groups" in line
    assert all(any(row.startswith(name) for row in lines) for name in ("expert", "random", "lerobot", "remote"))


def test_one_benchmark_shows_its_settings_groups_and_every_task() -> None:
    done = run_cli("list", "benchmarks", "metaworld")
    (row,) = (line for line in done.stdout.splitlines() if line.startswith("reach-v3 "))
    assert row.split()[1:] == ["easy,", "mt10,", "mt50", "500", "move", "the", "gripper", "to", "the", "goal"]
    assert "--env.obs_type" in done.stdout
    (benchmark,) = listed("metaworld")["benchmarks"].values()
    assert len(benchmark["tasks"]) == 50
    assert len(benchmark["groups"]["easy"]) == 28
    assert {"name": "reach-v3", "prompt": "move the gripper to the goal", "max_steps": 500} in benchmark["tasks"]


def test_it_imports_no_simulator_and_no_model() -> None:
    code = (
        "import sys; from proctor.cli.list import list_command; list_command([]); list_command(['metaworld'])\n"
        "heavy = {'metaworld', 'mujoco', 'gymnasium', 'torch', 'lerobot', 'OpenGL', 'websockets', 'av'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["metawrld"], "there is no benchmark or policy 'metawrld'. Did you mean 'metaworld'?"),
        (["benchmarks", "expert"], "there is no benchmark 'expert'."),
        (["policies", "exprt"], "there is no policy 'exprt'. Did you mean 'expert'?"),
        (["benchmark"], "Did you mean 'benchmarks'?"),
        (["--jsn"], "unknown flag --jsn. Did you mean '--json'?"),
        (["a", "b"], "'b': one name at most"),
    ],
)
def test_a_wrong_word_is_one_line_with_a_hint(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["list", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert len(err.splitlines()) == 1


def test_plugins_are_shown_with_their_troubles_and_break_nothing(tmp_path: Path) -> None:
    (tmp_path / "their_benchmarks.py").write_text(
        "import proctor\n"
        "print('hello from a package')\n"
        "class Base(proctor.Benchmark):\n"
        "    spec = None\n"
        "    def make_simulator(self, task): ...\n"
        "    def tasks(self): return [proctor.Task('g', i, f't{i}', f'do {i}', 9) for i in range(3)]\n"
        "class Fine(Base):\n"
        "    '''Three tasks.'''\n"
        "class Absent(Base):\n"
        "    def check_installed(self): raise proctor.UsageError('needs x. Run: pip install x')\n"
        "class Opens(Base):\n"
        "    opens_to_tell = True\n"
        "    def tasks(self): raise AssertionError('a simulator was opened')\n"
        "class Raises(Base):\n"
        "    def tasks(self): raise ValueError('no\\ntasks')\n"
        "def function(): ...\n"
    )
    (tmp_path / "leaves.py").write_text("raise SystemExit('bye')")
    names = {"fine": "Fine", "absent": "Absent", "opens": "Opens", "raises": "Raises", "function": "function"}
    lines = [f"{name} = their_benchmarks:{target}" for name, target in names.items()]
    lines += [
        "leaves = leaves:X",
        "gone = no_such_module_there:X",
        "metaworld = their_benchmarks:Fine",
        "odd = odd",
    ]
    lay_out(tmp_path, "theirs", "\n".join(["[proctor.benchmarks]", *lines]))
    lay_out(tmp_path, "rival", "[proctor.benchmarks]\ntwice = a:B\n[proctor.policies]\nnone = a:B\n")
    lay_out(tmp_path, "rival2", "[proctor.benchmarks]\ntwice = c:D\n")
    found = listed(site=tmp_path)
    theirs = found["benchmarks"]
    assert (theirs["fine"]["package"], theirs["fine"]["version"], theirs["fine"]["state"]) == (
        "theirs",
        "1.0",
        "ready",
    )
    assert theirs["fine"]["groups"] == {"g": ["t0", "t1", "t2"]}
    assert theirs["fine"]["about"] == "Three tasks."
    assert (theirs["absent"]["state"], theirs["absent"]["reason"]) == ("absent", "needs x. Run: pip install x")
    assert (theirs["opens"]["state"], theirs["opens"]["groups"]) == ("ready", None)
    for name, reason in {
        "raises": "ValueError: no tasks",
        "function": "is no proctor.Benchmark",
        "leaves": "SystemExit: bye",
        "gone": "there is no module 'no_such_module_there'",
        "odd": "is not module:Class",
        "twice": "another package has this name too; use --env.type=",
        "metaworld": "Proctor has its own of this name; use --env.type=their_benchmarks:Fine",
    }.items():
        assert theirs[name]["state"] == "broken"
        assert reason in theirs[name]["reason"], name
    assert found["policies"]["none"]["state"] == "broken"
    assert found["policies"]["random"]["state"] == "ready"
    shown = run_cli("list", "benchmarks", extra_env=ahead(tmp_path)).stdout
    assert "broken: ValueError: no tasks" in shown
    assert "not installed: needs x. Run: pip install x" in shown
