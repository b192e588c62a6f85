"""`proctor eval` as a user meets it: help, mistakes, results, a second run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from harness import Digests, digests, flags, run_cli, tiny_tree
from proctor.store.stored_run import StoredRun

METAWORLD = ["--policy.type=expert", "--env.type=metaworld", "--env.task=reach-v3"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--polcy.type=expert", *METAWORLD[1:]], "no policy"),
        ([*METAWORLD, "--eval.n_episode=3"], "Did you mean '--eval.n_episodes'?"),
        ([*METAWORLD, "--n-episodes=3"], "Did you mean '--eval.n_episodes'?"),
        ([*METAWORLD, "--eval.n_episodes=many"], "--eval.n_episodes=many: must be a whole number"),
        ([*METAWORLD, "--eval.n_episodes=0"], "must be at least 1"),
        ([*METAWORLD, "--env.obs_type=pixel"], "Did you mean 'pixels'?"),
        ([*METAWORLD[:2], "--env.task=reech-v3"], "Did you mean 'reach-v3'?"),
        ([*METAWORLD[:2], "--env.task=reach-v3,reach-v3"], "names 'reach-v3' twice"),
        ([*METAWORLD[:2], "--env.task=reach-v3,"], "--env.task: a task's name is empty"),
        ([*METAWORLD[:2]], "--env.task is missing"),
        ([METAWORLD[0], "--env.type=metaword", METAWORLD[2]], "Did you mean 'metaworld'?"),
        ([*METAWORLD[1:], "--policy.path=nowhere.py:Name", "--policy.type=python"], "there is no file"),
        ([*METAWORLD, "--config_path=nowhere.yaml"], "there is no such file"),
        ([*METAWORLD, "--resume=nowhere"], "there is no such run directory"),
        ([*METAWORLD, "stray"], "expected --name=value"),
        ([*METAWORLD, "--"], "'--': expected --name=value"),
        ([*METAWORLD, "--seed"], "--seed needs a value"),
    ],
)
def test_a_mistake_gets_one_line_and_status_2_before_anything_starts(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    done = run_cli("eval", *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_flag_that_is_given_two_values_is_told_once(tmp_path: Path) -> None:
    done = run_cli("eval", *METAWORLD[:2], "--env.task=nothing", "--seed=1", "--seed=2", "--seed=2", cwd=tmp_path)
    assert done.stderr.count("--seed is given twice: 2 holds, 1 does not") == 1


def test_flags_of_lerobots_without_effect_are_one_note_on_the_terminal_and_in_the_run(tmp_path: Path) -> None:
    given = ["--env.fps=80", "--env.render_mode=rgb_array", "--seed=null", "--eval.n_episodes=1"]
    done = run_cli("eval", *METAWORLD, *given, "--output_dir=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    note = "LeRobot settings with no effect here: env.fps: metaworld makes 80 steps a second; env.render_mode:"
    assert " ".join(done.stdout.split()).count(note) == 1
    assert [one for one in StoredRun(tmp_path / "run").notes if one.message.startswith(note)]


def test_help_names_every_setting_and_its_default() -> None:
    done = run_cli("eval", "--help")
    assert done.returncode == 0
    for flag in ("--policy.placement", "--env.max_parallel_tasks", "--eval.batch_size", "--limits.step", "--seed"):
        assert flag in done.stdout
    assert "[1000]" in done.stdout
    assert "--env.camera_name" in done.stdout


def test_commands_that_are_not_there_get_the_nearest_one() -> None:
    assert "Did you mean 'eval'?" in run_cli("evla").stderr
    assert run_cli("evla").returncode == 2
    assert run_cli("--version").stdout.startswith("proctor 0.")


def test_two_commands_have_a_second_name() -> None:
    for name in ("parallel", "autotune"):
        assert run_cli(f"eval-{name}", "--help").stdout == run_cli(name, "--help").stdout
    assert "Did you mean 'eval-parallel'?" in run_cli("eval-paralel").stderr


def test_the_result_is_a_table_with_intervals_and_the_path_of_the_file(tmp_path: Path) -> None:
    done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", display="plain")))
    assert done.returncode == 0, done.stderr
    assert "12 episodes of 3 tasks; policy" in done.stdout
    assert "2 workers, policy" in done.stdout
    info = json.loads((tmp_path / "run" / "eval_info.json").read_text())
    low, high = (100 * info["intervals"]["overall"][end] for end in ("low", "high"))
    assert f"{low:.1f}–{high:.1f}" in done.stdout
    assert str(tmp_path / "run" / "eval_info.json") in done.stdout
    assert "start-up" in done.stdout


def test_of_many_tasks_the_average_is_told_for_these_and_for_others(tmp_path: Path) -> None:
    done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", task="a,b,c,d,e", n_episodes=1, display="plain")))
    assert done.returncode == 0, done.stderr
    macro = json.loads((tmp_path / "run" / "eval_info.json").read_text())["intervals"]["macro"]
    assert f"Average over 5 tasks: {100 * macro['value']:.1f} %" in done.stdout
    assert f"{100 * macro['clustered']['high']:.1f} for others of their kind" in done.stdout


def test_a_second_run_of_the_same_command_runs_nothing_and_says_the_same(tmp_path: Path) -> None:
    arguments = ["eval", *flags(tiny_tree(tmp_path / "run", display="plain"))]
    first, second = run_cli(*arguments), run_cli(*arguments)
    assert first.returncode == second.returncode == 0
    table = [line for line in first.stdout.splitlines() if "│" in line]
    assert table
    assert table == [line for line in second.stdout.splitlines() if "│" in line]
    assert not list((tmp_path / "run" / "logs").glob("worker-*"))


def test_flags_yaml_and_resume_lead_to_the_same_run(tmp_path: Path, reference: Digests) -> None:
    tree = tiny_tree(tmp_path / "run", n_episodes=1)
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(tree))
    assert run_cli("eval", f"--config_path={tmp_path / 'settings.yaml'}").returncode == 0
    assert len(digests(tmp_path / "run")) == 3
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    done = run_cli("eval", f"--resume={moved}", "--eval.n_episodes", "4", "eval.batch-size=3", "--display=none")
    assert done.returncode == 0, done.stderr
    assert digests(moved) == reference


def test_the_stored_config_starts_a_run_of_its_own(tmp_path: Path, reference: Digests) -> None:
    assert run_cli("eval", *flags(tiny_tree(tmp_path / "run"))).returncode == 0
    config = tmp_path / "run" / "config.yaml"
    done = run_cli("eval", f"--config_path={config}", f"--output_dir={tmp_path / 'other'}", "--display=none")
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "other") == reference


def test_the_default_directory_is_lerobots(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", n_episodes=1, job_name="my job", display="plain")
    del tree["output_dir"]
    done = run_cli("eval", *flags(tree), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (info,) = tmp_path.glob("outputs/eval/????-??-??/??-??-??_my_job/eval_info.json")
    assert str(info) in done.stdout


def test_a_run_whose_reader_has_gone_ends_as_any_other(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", display="plain", env={"mischief": "step.kill!:*:*:1"})
    quoted = " ".join(f"'{flag}'" for flag in flags(tree))
    command = f"{sys.executable} -m proctor eval {quoted} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout.split() == ["0"], done.stderr
    assert len(digests(tmp_path / "run")) == 12
    assert (tmp_path / "run" / "eval_info.json").exists()


def test_output_into_a_closed_pipe_is_no_error(tmp_path: Path) -> None:

    command = f"{sys.executable} -m proctor eval --help | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert done.stdout.splitlines()[0] == "Evaluate a policy on a benchmark."
