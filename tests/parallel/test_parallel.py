"""`proctor parallel` with real processes and signals: shards die, stop and go on, the result is the serial one."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from harness import (
    SUPPORT,
    Digests,
    descendants,
    digests,
    flags,
    role,
    run_cli,
    run_tiny,
    start_cli,
    stored,
    tiny_tree,
    wait_until,
)
from proctor.comparison.pairing import read_sample
from proctor.store.run_directory import RunDirectory, Shard
from proctor.store.stored_run import StoredRun

SLOW = {"delay": 0.03}
HANG = {"mischief": "step.hang:*:2:1"}  # every shard, at its third episode
ONE_WORKER = {"batch_size": 1}
FAULTY = {"path": f"{SUPPORT / 'tiny_policies.py'}:Faulty", "kwargs": '{"how": "raise", "at": 20}'}


def parallel(directory: Path, shards: int | str | None = 3, **options: Any) -> list[str]:
    options.setdefault("eval", ONE_WORKER)
    number = [] if shards is None else [f"--num-shards={shards}"]
    return ["parallel", *number, *flags(tiny_tree(directory, **options))]


def ended(directory: Path, shards: str = "shard_*") -> int:
    """Return how many episodes the shards of a run have ended so far."""
    return sum(map(stored, directory.glob(shards)))


@pytest.fixture(scope="module")
def first_round(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run in three shards, of one episode per task; to be copied, not changed."""
    directory = tmp_path_factory.mktemp("sharded") / "run"
    done = run_cli(*parallel(directory, n_episodes=1))
    assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture
def sharded(first_round: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(first_round, tmp_path / "run"))


def shards_of(process: subprocess.Popen[str]) -> dict[int, psutil.Process]:
    found = {}
    for child in psutil.Process(process.pid).children():
        try:
            numbers = [word.partition("=")[2] for word in child.cmdline() if word.startswith("--eval.shard_id=")]
        except psutil.NoSuchProcess:
            continue
        if numbers:
            found[int(numbers[0])] = child
    return found


def story(directory: Path) -> list[tuple[Any, ...]]:
    """Return what a result says of each episode, in its order, apart from how long it took."""
    info = json.loads((directory / "eval_info.json").read_text())
    keys = (
        "task_group",
        "task_id",
        "episode_index",
        "seed",
        "success",
        "sum_reward",
        "steps",
        "digest",
        "pixel_digest",
    )
    assert info["run"]["complete"]
    return [tuple(episode[key] for key in keys) for episode in info["per_episode"]]


def test_three_shards_give_the_digests_and_the_result_of_one_process(tmp_path: Path, reference: Digests) -> None:
    done = run_cli(*parallel(tmp_path / "run", display="plain"))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert digests(tmp_path / "run") == reference
    run_tiny(tmp_path / "serial")
    assert story(tmp_path / "run") == story(tmp_path / "serial")
    assert "12 episodes of 3 tasks; policy" in done.stdout
    assert "3 workers, policy in every shard" in done.stdout
    assert str(tmp_path / "run" / "eval_info.json") in done.stdout
    assert [len(digests(tmp_path / "run" / f"shard_{k}_of_3")) for k in range(3)] == [4, 4, 4]


def test_a_shard_killed_in_mid_run_goes_on_and_costs_no_episode(tmp_path: Path, reference: Digests) -> None:
    process = start_cli(*parallel(tmp_path / "run", env=SLOW, display="plain"))
    wait_until(lambda: ended(tmp_path / "run", "shard_1_of_3") >= 1)
    victim = shards_of(process)[1]
    victim.kill()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert digests(tmp_path / "run") == reference
    assert "shard_1_of_3 was killed by SIGKILL (out of memory, or by hand): starting it again" in out


@pytest.mark.slow
@pytest.mark.parametrize("early", [False, True], ids=["mid_run", "before_its_first_line"])
def test_a_stopped_shard_is_noticed_and_goes_on(tmp_path: Path, reference: Digests, early: bool) -> None:
    limits = {"respond": 1.0}
    process = start_cli(*parallel(tmp_path / "run", 2, env=SLOW, limits=limits, display="plain"))
    if not early:
        wait_until(lambda: ended(tmp_path / "run", "shard_1_of_2") >= 1)
    victim = wait_until(lambda: shards_of(process).get(1))
    victim.suspend()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert digests(tmp_path / "run") == reference
    assert "shard_1_of_2 was stopped for longer than 1 s (--limits.respond): starting it again" in out


@pytest.mark.slow
def test_a_shard_that_ends_an_episode_before_each_death_is_never_given_up_and_told_of_once(
    tmp_path: Path, reference: Digests
) -> None:
    # Four deaths of one shard, one more than would be allowed in a row.
    mischief = " ".join(f"step.regicide!:b:{index}:2" for index in range(4))
    done = run_cli(*parallel(tmp_path / "run", env={**SLOW, "mischief": mischief}, display="json"))
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "run") == reference
    told = [json.loads(line) for line in done.stdout.splitlines()]
    deaths = [event for event in told if "shard_1_of_3 was killed by SIGKILL" in event.get("message", "")]
    assert len(deaths) == 4
    # Whoever watches sees one run: every episode once, and one rate over the whole plan.
    episodes = [event for event in told if event["event"] == "episode"]
    assert {(event["digest"], event["pixel_digest"]) for event in episodes} == set(reference.values())
    assert len(episodes) == len(reference)
    last = [event for event in told if event["event"] == "progress"][-1]
    assert (last["ended"], last["total"], last["rate"]["episodes"]) == (12, 12, 12)


@pytest.mark.slow
def test_a_shard_that_always_dies_is_given_up_and_the_others_finish(tmp_path: Path, reference: Digests) -> None:
    arguments = parallel(tmp_path / "run", env={"mischief": "step.regicide:b:*:2"}, display="plain")
    done = run_cli(*arguments)
    assert done.returncode == 1, done.stderr
    complaint, resume = done.stderr.strip().splitlines()
    assert "shard_1_of_3 was killed by SIGKILL" in complaint
    assert "3 times without an episode ending in between" in complaint
    assert resume == f"To go on: proctor parallel --resume={tmp_path / 'run'} --num-shards=3"
    assert done.stdout.count("starting it again") == 2
    kept = digests(tmp_path / "run")
    assert kept == {key: digest for key, digest in reference.items() if key[0] != "b"}
    healed = run_cli(*resume.split()[4:], "--env.mischief=", "--display=none")
    assert healed.returncode == 0, healed.stderr
    assert digests(tmp_path / "run") == reference


@pytest.mark.slow
def test_a_shard_that_has_lost_its_policy_is_started_again_but_not_for_ever(tmp_path: Path) -> None:
    policy = {"path": FAULTY["path"], "kwargs": '{"how": "kill", "at": 2}', "placement": "central"}
    twice = {"batch_size": 1, "max_attempts": 2}
    done = run_cli(*parallel(tmp_path / "run", 2, task="a", policy=policy, eval=twice, display="plain"))
    assert done.returncode == 1, done.stderr
    for shard in ("shard_0_of_2", "shard_1_of_2"):
        assert done.stdout.count(f"{shard} ended: the policy's process was killed by SIGKILL") == 2
        assert done.stdout.count(f"{shard} ended") == 2
    assert done.stdout.count("starting it again, it goes on from where it was") == 2
    assert "times without an episode ending in between" in done.stderr


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_signal_keeps_what_finished_and_the_same_command_goes_on(
    tmp_path: Path, reference: Digests, number: signal.Signals, status: int
) -> None:
    arguments = parallel(tmp_path / "run", env=SLOW, display="plain", eval={"batch_size": 1, "stop_grace": 60})
    process = start_cli(*arguments, process_group=0)
    seen = wait_until(lambda: ended(tmp_path / "run") >= 2 and ended(tmp_path / "run"))
    family = descendants(process.pid)
    os.killpg(process.pid, number)  # as a terminal does: it must not reach the shards twice
    out, err = process.communicate(timeout=60)
    assert process.returncode == status, err
    assert f"To go on: proctor parallel --resume={tmp_path / 'run'} --num-shards=3" in err
    assert "Traceback" not in err
    assert out.count("stopping") == 1
    assert not psutil.wait_procs(family, timeout=20)[1]
    before = digests(tmp_path / "run")
    assert seen < len(before) < 12  # those in flight were allowed to finish
    assert before.items() <= reference.items()
    again = run_cli(*parallel(tmp_path / "run"))
    assert again.returncode == 0, again.stderr
    assert digests(tmp_path / "run") == reference


@pytest.mark.slow
def test_a_second_ctrl_c_is_immediate_even_if_a_worker_hangs(tmp_path: Path) -> None:
    hung = {"batch_size": 1, "stop_grace": 3600}
    tree = parallel(tmp_path / "run", env={"mischief": "step.hang:c:*:1"}, eval=hung, display="plain")
    process = start_cli(*tree)
    wait_until(lambda: ended(tmp_path / "run") >= 1)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    wait_until(lambda: "stopping" in process.stdout.readline())  # type: ignore[union-attr]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130


@pytest.mark.slow
def test_two_signals_at_once_stop_and_start_nothing_again(tmp_path: Path) -> None:
    """A batch system may send one beside the terminal's: the launcher finds both at one look."""
    hung = {"batch_size": 1, "stop_grace": 3600}
    process = start_cli(*parallel(tmp_path / "run", env=HANG, eval=hung))
    wait_until(lambda: ended(tmp_path / "run") >= 1)
    process.send_signal(signal.SIGSTOP)  # so that it cannot look in between
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (130, 143), err


def test_a_stop_before_the_first_episode_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        f"import time, pathlib\npathlib.Path({str(tmp_path / 'loading')!r}).touch()\ntime.sleep(600)\n"
    )
    # Another file's policy, so that it loads in a host and not while the flags are read.
    tree = parallel(tmp_path / "run", policy={"path": f"{tmp_path / 'slow.py'}:act"})
    process = start_cli(*tree)
    wait_until((tmp_path / "loading").exists)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "nothing was stored" in err
    assert not list((tmp_path / "run").glob("shard_*"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_while_the_shards_start_is_a_stop(tmp_path: Path, number: signal.Signals) -> None:
    run, loading = tmp_path / "run", tmp_path / "loading"
    (tmp_path / "slow.py").write_text(
        f"import time, pathlib\nif list(pathlib.Path({str(run)!r}).glob('shard_*')):\n"
        f"    pathlib.Path({str(loading)!r}).touch()\n    time.sleep(600)\n"
        "def act(observation):\n    return [0.0, 0.0]\n"
    )
    process = start_cli(*parallel(run, 2, policy={"path": f"{tmp_path / 'slow.py'}:act", "placement": "central"}))
    wait_until(loading.exists)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    assert "stopped before its next episode. To go on: proctor parallel --resume=" in err
    assert "missing" not in err


def test_a_shard_that_had_no_time_to_begin_is_left_out_of_the_merge(tmp_path: Path) -> None:
    run_tiny(tmp_path, eval={"batch_size": 1, "shard_id": 1, "num_shards": 2})
    begun = RunDirectory(tmp_path, Shard(1, 2))
    identity = begun.stored_identity()
    assert identity is not None
    RunDirectory(tmp_path, Shard(0, 2)).begin(identity)
    done = run_cli("merge", str(tmp_path))
    assert done.returncode == 3, done.stderr
    assert "6 episodes missing" in done.stderr
    assert stored(tmp_path) == 6
    assert "reproducible" not in done.stdout + done.stderr


@pytest.mark.slow
def test_a_killed_launcher_takes_everything_along_and_nothing_finished_is_lost(
    tmp_path: Path, reference: Digests
) -> None:
    process = start_cli(*parallel(tmp_path / "run", env=HANG))
    wait_until(lambda: ended(tmp_path / "run") == 6)
    family = descendants(process.pid)
    assert sorted(map(role, family)).count("worker") == sorted(map(role, family)).count("host") == 3
    process.kill()
    process.communicate()
    assert not psutil.wait_procs(family, timeout=20)[1]
    assert ended(tmp_path / "run") == 6
    again = run_cli(*parallel(tmp_path / "run"))
    assert again.returncode == 0, again.stderr
    assert digests(tmp_path / "run") == reference


def test_the_same_command_again_starts_no_shard_and_says_the_same(sharded: Path) -> None:
    plain = run_cli(*parallel(sharded, n_episodes=1, display="plain"))
    assert plain.returncode == 0, plain.stderr
    assert "│ a    │" in plain.stdout
    *told, result = map(json.loads, run_cli(*parallel(sharded, n_episodes=1, display="json")).stdout.splitlines())
    (start,) = [event for event in told if event["event"] == "start"]
    assert (start["finished_before"], start["workers"]) == (3, 0)
    assert (result["event"], result["status"], result["complete"]) == ("result", 0, True)


@pytest.mark.slow
def test_more_episodes_extend_the_shards_and_auto_keeps_their_number(sharded: Path, reference: Digests) -> None:
    done = run_cli(*parallel(sharded, "auto"))
    assert done.returncode == 0, done.stderr
    assert sorted(place.name for place in sharded.glob("shard_*")) == [f"shard_{k}_of_3" for k in range(3)]
    assert digests(sharded) == reference


def test_another_number_of_shards_in_the_same_directory_is_refused_in_one_line(sharded: Path) -> None:
    done = run_cli(*parallel(sharded, 2, n_episodes=1))
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert "shard_0_of_3, shard_1_of_3, shard_2_of_3" in line
    assert f"proctor merge {sharded}" in line


def test_other_settings_in_the_same_directory_are_refused_once(sharded: Path) -> None:
    done = run_cli(*parallel(sharded, n_episodes=1, seed=5))
    assert done.returncode == 2
    assert done.stderr.count("seed: the run has 1000, this command gives 5") == 1


@pytest.mark.slow
def test_fewer_episodes_than_were_planned_are_refused_in_one_line(sharded: Path) -> None:
    assert run_cli(*parallel(sharded, n_episodes=2)).returncode == 0
    done = run_cli(*parallel(sharded, n_episodes=1))
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert "was planned with 2 episodes per task, this command asks for 1" in line


_TWO_GPUS = """#!/bin/sh
# Two GPUs; the first has more in use each time that it is asked for.
case "$1" in
  --query-gpu=*) echo x >> {counter}
    echo "0, GPU-a, H200, 1000, $(wc -l < {counter}), 1.0"; echo "1, GPU-b, H200, 1000, 0, 1.0";;
esac
"""

_WHERE = """
import os, pathlib
(pathlib.Path(__file__).parent / ("sees-" + os.environ.get("CUDA_VISIBLE_DEVICES", "all"))).touch()

def act(observation):
    return [0.3, 0.1]
"""


@pytest.mark.slow  # how it is chosen is in test_setup.py
def test_a_policy_on_two_gpus_gets_a_shard_on_each(tmp_path: Path) -> None:
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(_TWO_GPUS.format(counter=tmp_path / "counter"))
    smi.chmod(0o755)
    (tmp_path / "where.py").write_text(_WHERE)
    policy = {"path": f"{tmp_path / 'where.py'}:act", "placement": "central"}
    path = {"PATH": f"{smi.parent}{os.pathsep}{os.environ['PATH']}"}
    done = run_cli(*parallel(tmp_path / "run", None, n_episodes=1, policy=policy), extra_env=path)
    assert done.returncode == 0, done.stderr
    assert sorted(place.name for place in (tmp_path / "run").glob("shard_*")) == ["shard_0_of_2", "shard_1_of_2"]
    # The launcher's own copy, which only settles, sees all.
    assert sorted(place.name for place in tmp_path.glob("sees-*")) == ["sees-0", "sees-1", "sees-all"]


def test_the_merged_run_keeps_the_users_settings_and_can_be_finished_by_one_process(sharded: Path) -> None:
    config = yaml.safe_load((sharded / "config.yaml").read_text())
    assert config["eval"]["num_shards"] == 1
    assert config["eval"]["video"] == "none"
    done = run_cli("eval", f"--resume={sharded}", "--eval.n_episodes=2", "--display=none")
    assert done.returncode == 0, done.stderr
    assert len(digests(sharded)) == 6


def test_a_run_of_one_process_is_not_run_again_in_shards(tmp_path: Path) -> None:
    run_tiny(tmp_path / "run", n_episodes=1)
    done = run_cli(*parallel(tmp_path / "run"))
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert f"proctor eval --resume={tmp_path / 'run'}" in line


@pytest.mark.slow  # how it is chosen is in test_setup.py
def test_without_a_number_a_machine_without_gpus_has_one_shard_that_uses_all_cores(
    tmp_path: Path, reference: Digests
) -> None:
    done = run_cli(
        *parallel(tmp_path / "run", None, eval={"batch_size": 0}, display="plain"),
        extra_env={"PATH": "/nowhere"},
    )
    assert done.returncode == 0, done.stderr
    assert "one process uses all cores" in done.stdout
    assert not list((tmp_path / "run").glob("shard_*"))
    assert digests(tmp_path / "run") == reference
    # Not the share of the machine that a shard was given.
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["eval"]["batch_size"] == 0


@pytest.mark.slow
def test_auto_asks_autotune_and_runs_what_it_finds(tmp_path: Path, reference: Digests) -> None:
    done = run_cli(*parallel(tmp_path / "run", "auto", eval={"batch_size": 0}), extra_env={"PATH": "/nowhere"})
    assert done.returncode == 0, done.stderr
    (found,) = re.findall(r"(\d+) shard with \d+ workers?; the same .*--eval.batch_size=(\d+)", done.stderr)
    assert found[0] == "1"
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert config["eval"]["batch_size"] == int(found[1])
    assert digests(tmp_path / "run") == reference


def test_settings_of_one_shard_are_not_split_again(tmp_path: Path) -> None:
    run_tiny(tmp_path, n_episodes=1, eval={"batch_size": 1, "shard_id": 1, "num_shards": 2})
    shard = tmp_path / "shard_1_of_2"
    resumed = run_cli("parallel", f"--resume={shard}")
    assert resumed.returncode == 2
    assert (
        f"{shard} is one shard of 2. Go on with all of them: proctor parallel --resume={tmp_path}"
        in resumed.stderr
    )
    copied = run_cli("parallel", f"--config_path={shard / 'config.yaml'}", "--output_dir=other")
    assert copied.returncode == 2
    assert "leave eval.shard_id and eval.num_shards out of the file" in copied.stderr


@pytest.mark.slow
def test_episodes_that_cannot_be_run_are_errors_and_no_death(tmp_path: Path) -> None:
    once, error = {"batch_size": 1, "max_attempts": 1}, {"mischief": "step.raise:b:2:1"}
    done = run_cli(*parallel(tmp_path / "run", env=error, eval=once, display="plain"))
    assert done.returncode == 3, done.stderr
    assert "shard_1_of_3: b episode 2: attempt 1 of 1 failed, given up" in done.stdout
    assert "starting it again" not in done.stdout
    assert f"proctor parallel --resume={tmp_path / 'run'}" in done.stderr


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--eval.n_episode=3"], "Did you mean '--eval.n_episodes'?"),
        (["--num-shards=many"], "--num-shards=many: must be a whole number or auto."),
        (["--num-shards"], "--num-shards needs a value: --num-shards=..."),
        (["--num-shard=2"], "Did you mean '--num-shards'? See: proctor parallel --help"),
        (["--num-shards=0"], "must be from 1 to 512, or auto"),
        (["--render-device=gpus"], "Did you mean 'gpu'?"),
        (["--eval.num_shards=2"], "--eval.num_shards=2: proctor parallel makes the shards itself"),
        (["--eval.shard_id=1", "--eval.stop_when=ci<=0.1"], "--eval.shard_id=1: proctor parallel makes"),
        (["--eval.use_async_envs=false"], "use proctor eval"),
        (["--cluster.address=auto"], "leave --cluster.address out"),
        (["--policy.path=nowhere.py:Name"], "there is no file"),
        ([f"--policy.path={SUPPORT / 'tiny_policies.py'}:Renamed"], "which tiny does not give"),
    ],
)
def test_a_mistake_is_told_once_and_leaves_nothing_behind(tmp_path: Path, extra: list[str], words: str) -> None:
    named = tuple(flag.partition("=")[0] + "=" for flag in extra)
    done = run_cli(*(flag for flag in parallel(tmp_path / "run") if not flag.startswith(named)), *extra)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    # What only the policy can tell comes when the plan has been said.
    told = done.stdout.splitlines()
    assert all("episodes of 3 tasks; policy" in line for line in told)
    assert not list(tmp_path.iterdir())


def test_a_policy_error_ends_all_shards_and_is_not_tried_again(tmp_path: Path) -> None:
    done = run_cli(*parallel(tmp_path / "run", n_episodes=40, policy=FAULTY, env=SLOW, display="plain"))
    assert done.returncode == 1, done.stderr
    assert "the policy raised ValueError: I cannot see (task " in done.stderr
    assert re.search(rf"The traceback is in .*{tmp_path / 'run'}/shard_\d_of_3/logs", done.stderr)
    assert "starting it again" not in done.stdout
    assert done.stdout.count("stopping the others") == 1
    assert any("I cannot see" in log.read_text() for log in (tmp_path / "run").glob("shard_*/logs/*.log"))


def test_a_shard_that_cannot_begin_ends_all_with_its_own_complaint(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "shard_2_of_3").write_text("in the way")
    done = run_cli(*parallel(tmp_path / "run", env=SLOW))
    assert done.returncode == 2
    assert "shard_2_of_3" in done.stderr
    assert "is a file" in done.stderr


@pytest.mark.slow
def test_a_second_launcher_on_the_same_directory_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    process = start_cli(*parallel(tmp_path / "run", 2, env=HANG))
    wait_until(lambda: ended(tmp_path / "run") >= 1)
    second = run_cli(*parallel(tmp_path / "run", 2, env=HANG))
    assert second.returncode == 2
    assert f"process {process.pid} on " in second.stderr
    family = descendants(process.pid)
    process.kill()
    process.communicate()
    assert not psutil.wait_procs(family, timeout=20)[1]


@pytest.mark.slow
def test_the_default_directory_is_made_once_for_all_shards(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", n_episodes=1, job_name="mine")
    del tree["output_dir"]
    done = run_cli("parallel", "--num-shards=2", *flags(tree), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (info,) = tmp_path.glob("outputs/eval/????-??-??/??-??-??_mine/eval_info.json")
    assert str(info) in done.stdout


def test_help_names_the_launchers_flags_and_evals() -> None:
    done = run_cli("parallel", "--help")
    assert done.returncode == 0
    for flag in ("--num-shards", "--render-device", "--eval.batch_size", "--policy.path"):
        assert flag in done.stdout
    assert "One process is normally better" in done.stdout
    assert "parallel" in run_cli("--help").stdout


def test_a_rule_over_the_shards_stops_where_one_process_would(tmp_path: Path) -> None:
    rule = {"batch_size": 1, "stop_when": "ci<=0.15"}
    alone = run_tiny(tmp_path / "alone", n_episodes=60, eval=rule)
    done = run_cli(*parallel(tmp_path / "run", 3, n_episodes=60, eval=rule, display="plain"))
    assert done.returncode == 0, done.stderr
    infos = [json.loads((tmp_path / name / "eval_info.json").read_text()) for name in ("alone", "run")]
    assert infos[0]["run"]["stopped"]["episodes"] < 180
    assert infos[1]["run"]["stopped"] == infos[0]["run"]["stopped"]
    assert infos[1]["overall"] | _TIMES == infos[0]["overall"] | _TIMES
    kept = stored(tmp_path / "run")
    assert len(alone.plan) <= kept < 180, "the shards were ended"
    shards = map(StoredRun, (tmp_path / "run").glob("shard_*"))
    endings = [session.ending for shard in shards for session in shard.sessions]
    assert set(endings) <= {None, "a stopping rule over all shards was satisfied"}
    assert any(endings)
    results = [json.loads(file.read_text()) for file in (tmp_path / "run").glob("shard_*/shard_*.json")]
    assert {result["run"]["ending"] for result in results} <= {*endings, None}
    assert "stopping" not in done.stdout
    # What the shards did beyond the stop counts for nobody who looks at the run.
    first, second = (read_sample(tmp_path / name) for name in ("alone", "run"))
    assert (second.ended, second.planned, second.rate()) == (first.ended, first.planned, first.rate())
    new = {"path": f"{SUPPORT / 'tiny_policies.py'}:Constant", "kwargs": {"push": 1.0}}
    stops = []
    for rival in ("alone", "run"):
        better = run_tiny(
            tmp_path / f"against_{rival}",
            n_episodes=60,
            policy=new,
            eval={"batch_size": 1, "until_better_than": str(tmp_path / rival)},
        )
        stops.append((len(better.plan), {**(better.run.stopped or {}), "rule": ""}))
    assert stops[0] == stops[1]
    # What is known is enough: again, nothing runs.
    again = run_cli(*parallel(tmp_path / "run", 3, n_episodes=60, eval=rule))
    assert again.returncode == 0, again.stderr
    assert stored(tmp_path / "run") == kept
    rest = run_cli(*parallel(tmp_path / "run", 3, n_episodes=60, eval={**rule, "stop_when": "none"}))
    assert rest.returncode == 0, rest.stderr
    assert json.loads((tmp_path / "run" / "eval_info.json").read_text())["run"]["stopped"] is None
    assert stored(tmp_path / "run") == 180


_TIMES = {"eval_s": 0.0, "eval_ep_s": 0.0}
