"""`proctor doctor` as a user meets it: on a machine that is ready, and on ones that are not."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest
import rich

import proctor
from harness import run_cli
from proctor.benchmarks.rendering import find_renderer
from proctor.errors import NoPicturesError
from proctor.installation import install_command

NO_GL = {"MUJOCO_GL": "nonsense"}
"""Most tests need no picture, and the trial is over sooner."""


def ahead(folder: Path) -> dict[str, str]:
    """Return a PYTHONPATH on which a folder comes first."""
    return {"PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


def findings(text: str) -> dict[str, dict[str, Any]]:
    """Return what --json told, by name."""
    return {finding["name"]: finding for finding in json.loads(text)["findings"]}


@pytest.mark.gl
def test_a_machine_that_is_ready_is_told_so_on_one_screen() -> None:
    try:
        renderer = find_renderer()
    except NoPicturesError as error:
        pytest.skip(str(error))
    done = run_cli("doctor", extra_env={"COLUMNS": "80"})
    assert done.returncode == 0, done.stdout
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("Ready")
    assert len(lines) <= 36
    assert max(map(len, lines)) <= 80
    assert f"Proctor uses {renderer.backend}" in done.stdout
    assert renderer.name in done.stdout


def test_a_gl_that_cannot_work_is_in_the_way_and_the_last_line_says_what_to_do() -> None:
    done = run_cli("doctor", extra_env=NO_GL)
    assert done.returncode == 1
    assert "invalid value for environment variable MUJOCO_GL: nonsense" in done.stdout
    assert done.stdout.splitlines()[-1] == "Not ready. First: unset MUJOCO_GL"


def test_json_is_all_there_is_on_stdout_and_agrees_with_the_exit_status() -> None:
    done = run_cli("doctor", "--json", extra_env=NO_GL)
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert (told["ready"], told["first_step"]) == (False, "unset MUJOCO_GL")
    in_the_way = [f["name"] for f in told["findings"] if f["needed"] and f["state"] in ("absent", "broken")]
    assert in_the_way == ["pictures"]
    assert findings(done.stdout)["version"]["text"] == proctor.__version__


@pytest.mark.gl
def test_json_of_a_machine_that_is_ready_says_so() -> None:
    done = run_cli("doctor", "--json")
    told = json.loads(done.stdout)
    assert told["ready"] is (done.returncode == 0)
    assert told["ready"] is (told["first_step"] is None)
    assert told["ready"] is (findings(done.stdout)["pictures"]["state"] == "ok")


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ("--jsno", "Did you mean '--json'?"),
        ("--json=yes", "--json takes no value. See:"),
        ("stray", "unexpected 'stray'"),
    ],
)
def test_a_typo_is_a_usage_error_with_a_hint(argument: str, hint: str) -> None:
    done = run_cli("doctor", argument)
    assert done.returncode == 2
    assert done.stdout == ""
    assert hint in done.stderr
    assert "proctor doctor --help" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_help_tells_what_it_does_and_looks_at_nothing() -> None:
    done = run_cli("doctor", "--help")
    assert done.returncode == 0
    assert "--json" in done.stdout
    assert "Ready" not in done.stdout
    assert "doctor" in run_cli("--help").stdout


def test_a_broken_package_is_a_line_with_the_command_that_mends_it(tmp_path: Path) -> None:
    (tmp_path / "metaworld.py").write_text("raise RuntimeError('half\\nupgraded')")
    (tmp_path / "av.py").write_text("import os; os.abort()")
    done = run_cli("doctor", extra_env={**NO_GL, **ahead(tmp_path)})
    assert done.returncode == 1
    assert "RuntimeError: half upgraded" in done.stdout
    assert "its import was killed by SIGABRT" in done.stdout
    assert "→ pip install --force-reinstall --no-deps av==" in done.stdout
    assert done.stdout.splitlines()[-1].startswith(
        "Not ready. First: pip install --force-reinstall --no-deps metaworld=="
    )


def test_what_breaks_with_another_package_points_to_that_one(tmp_path: Path) -> None:
    (tmp_path / "mujoco.py").write_text("raise OSError('libmujoco.so: cannot open shared object file')")
    done = run_cli("doctor", "--json", extra_env=ahead(tmp_path))
    assert done.returncode == 1
    found = findings(done.stdout)
    assert "libmujoco.so" in found["mujoco"]["text"]
    assert found["metaworld"]["text"] == "cannot be imported without mujoco"
    remedies = {found[name]["remedy"] for name in ("mujoco", "metaworld", "pictures")}
    assert remedies == {json.loads(done.stdout)["first_step"]}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("module", ["numpy", "pydantic", "yaml", "msgpack"])
def test_the_doctor_speaks_where_proctors_own_core_is_broken(tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text("raise ImportError('wrong ELF class')")
    done = run_cli("doctor", "--json", extra_env={**NO_GL, **ahead(tmp_path)})
    assert done.returncode == 1, done.stderr
    broken = findings(done.stdout)["pyyaml" if module == "yaml" else module]
    assert broken["state"] == "broken"
    assert "wrong ELF class" in broken["text"]


def test_an_interpreter_that_has_only_what_the_screen_needs_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    venv.create(tmp_path / "bare", with_pip=False)
    kept = tmp_path / "kept"
    kept.mkdir()
    for name in ("rich", "pygments", "markdown_it", "mdurl"):
        (kept / name).symlink_to(Path(rich.__file__).parents[1] / name)
    env = {**os.environ, **NO_GL, "PYTHONPATH": f"{kept}{os.pathsep}{Path(proctor.__file__).parents[1]}"}
    command = [str(tmp_path / "bare" / "bin" / "python"), "-m", "proctor", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 1, done.stderr
    found = findings(done.stdout)
    assert json.loads(done.stdout)["first_step"] == "pip install 'msgpack>=1.0.5'"
    assert found["rich"]["state"] == "ok"
    assert (found["mujoco"]["state"], found["mujoco"]["remedy"]) == ("absent", install_command("metaworld"))
    assert found["pictures"]["remedy"] == install_command("metaworld")
    assert found["av"]["remedy"] == install_command("video")


def test_few_descriptors_are_a_warning_with_ulimit() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    done = run_cli(
        "doctor",
        "--json",
        extra_env=NO_GL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard)),
    )
    few = findings(done.stdout)["open files"]
    assert few["state"] == "note"
    assert few["text"].startswith("64 allowed")
    assert few["remedy"].startswith("ulimit -n ")
    assert json.loads(done.stdout)["first_step"] == "unset MUJOCO_GL"


def test_gpus_of_the_driver_are_told(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '0, GPU-aa, NVIDIA H200, 143360, 10240, 570.1'\n")
    tool.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = run_cli("doctor", extra_env={**NO_GL, "PATH": path, "CUDA_VISIBLE_DEVICES": "0"})
    assert "NVIDIA H200, 130.0 of 140.0 GiB free" in done.stdout


def test_a_terminal_without_unicode_gets_plain_marks() -> None:
    done = run_cli("doctor", extra_env={**NO_GL, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 1, done.stderr
    assert done.stdout.isascii()
    assert "x pictures" in done.stdout
    assert done.stdout.splitlines()[-1] == "Not ready. First: unset MUJOCO_GL"
