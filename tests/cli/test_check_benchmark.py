"""`proctor check-benchmark` as a user meets it."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import pytest

from harness import SUPPORT, run_cli, start_cli, wait_until
from proctor.cli.main import run

SOUND = f"{SUPPORT}/sound_benchmark.py:Sound"


def test_a_fault_is_a_line_with_what_differs_and_what_to_do() -> None:
    done = run_cli("check-benchmark", f"{SUPPORT}/broken_benchmarks.py:GivesFloat32", "--steps=4", "--tasks=a")
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    (fault,) = (number for number, line in enumerate(lines) if line.startswith("✗"))
    assert "observation.state is float32(3,), the spec says float64(3,)" in lines[fault]
    assert lines[fault + 1].startswith("→ observe() returns exactly the keys")
    assert lines[-1].endswith("does not keep its contract: 18 passed, 1 failed, 2 skipped.")


def test_json_is_all_there_is_on_stdout() -> None:
    done = run_cli("check-benchmark", SOUND, "--steps", "4", "--episodes=2", "--env.max_steps=9", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["ok"]) == (0, True), done.stdout
    assert {check["state"] for check in told["checks"]} == {"passed", "skipped"}
    assert {"name", "state", "text", "remedy"} == told["checks"][0].keys()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name a benchmark"),
        (["metawrld"], "Did you mean 'metaworld'?"),
        (["metaworld", "--tasks=reach-v2"], "--tasks=reach-v2: unknown. Did you mean 'reach-v3'?"),
        (["metaworld", "--env.obs_tipe=state"], "Did you mean '--env.obs_type'?"),
        (["metaworld", "--stops=3"], "unknown flag --stops. Did you mean '--steps'?"),
        (["metaworld", "--eval.n_episodes=3"], "unknown flag --eval"),
        (["gym", "metaworld"], "'metaworld': expected --name=value. See: proctor check-benchmark --help"),
        ([f"{SUPPORT / 'tiny.py'}:Tiny", "--tasks=a,b"], "--tasks=a,b: no task has a name without --env.task."),
        ([SOUND, "--env=x"], "--env=x: 'env' is a section"),
        ([SOUND, "--policy=x"], "--policy=x: 'policy' is a section"),
        ([SOUND, "--steps=many"], "--steps=many: must be a whole number"),
        ([SOUND, "--env.python=/nowhere/python"], "--env.python=/nowhere/python"),
    ],
)
def test_what_cannot_be_checked_is_one_line_and_status_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check-benchmark", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert len(err.splitlines()) == 1


def test_help_and_the_list_of_commands_know_it() -> None:
    assert "--episodes" in run_cli("check-benchmark", "--help").stdout
    told = run_cli("--help").stdout
    assert "check-benchmark" in told
    assert re.search("^ *list ", told, re.MULTILINE)


@pytest.mark.parametrize("pause", [0.0, 0.005, 0.02])
def test_ctrl_c_twice_leaves_no_folder(tmp_path: Path, pause: float) -> None:
    process = start_cli("check-benchmark", SOUND, "--steps=100000", extra_env={"TMPDIR": str(tmp_path)})
    wait_until(lambda: list(tmp_path.glob("proctor-check-*/*")))  # a player has its log
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(pause)
    _, told = process.communicate()
    assert (process.returncode, told) == (130, "proctor: interrupted\n")
    assert list(tmp_path.iterdir()) == []
