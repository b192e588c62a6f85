"""A policy that fails ends the run at once; a host that dies is started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import crossed
from harness import SUPPORT, Digests, digests, flags, run_cli, run_tiny, tiny_tree
from proctor.errors import PolicyError, UsageError
from tiny_policies import Faulty, aside

FAULTY = f"{SUPPORT / 'tiny_policies.py'}:Faulty"

FAULTS = {
    "raise": "raised ValueError: I cannot see",
    "nan": "returned an action with NaN or infinity",
    "shape": "returned actions of shape (1, 3); a chunk has shape (steps, 2)",
    "text": "numbers are needed",
}


@pytest.mark.parametrize(("how", "placement"), crossed([*FAULTS], ["central", "worker"]))
def test_a_faulty_answer_ends_the_run_with_status_1_and_keeps_what_finished(
    tmp_path: Path, how: str, placement: str
) -> None:
    policy = {"path": FAULTY, "placement": placement, "kwargs": {"how": how, "at": 150}}
    tree = tiny_tree(tmp_path / "run", n_episodes=20, policy=policy, eval={"batch_size": 1})
    done = run_cli("eval", *flags(tree))
    assert done.returncode == 1, done.stderr
    assert FAULTS[how] in done.stderr
    assert "(task " in done.stderr
    assert "Traceback" not in done.stderr
    assert "--resume" in done.stderr
    assert 0 < len(digests(tmp_path / "run")) < 60
    assert (tmp_path / "run" / "eval_info.json").exists()


ENDINGS = {"exit": "SystemExit: 0", "interrupt": "KeyboardInterrupt", "stop": "GeneratorExit"}


@pytest.mark.parametrize(("how", "placement"), crossed([*ENDINGS], ["central", "worker", "inline", "live"]))
def test_a_policy_that_wants_to_end_the_process_ends_the_run_at_once_wherever_it_runs(
    tmp_path: Path, how: str, placement: str
) -> None:
    from proctor.policies.python import PlainPolicy

    evaluation = run_tiny(
        tmp_path / "run",
        live=PlainPolicy(Faulty(how)) if placement == "live" else None,
        policy={
            "path": FAULTY,
            "kwargs": {"how": how},
            "placement": placement if placement in ("central", "worker") else "auto",
        },
        eval={"use_async_envs": placement != "inline"},
    )
    assert isinstance(evaluation.error, PolicyError)
    assert f"the policy raised {ENDINGS[how]}" in str(evaluation.error)
    assert "tiny_policies.py" in str(evaluation.error)  # where in the user's own code
    assert "policy_session.py" not in str(evaluation.error)
    assert all(record.status == "finished" for record in evaluation.records)


def test_the_users_own_last_lines_are_printed(tmp_path: Path) -> None:
    policy = {"path": FAULTY, "kwargs": {"how": "raise"}}
    done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", policy=policy)))
    assert done.returncode == 1
    assert 'raise ValueError("I cannot see")' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("use_async_envs", [True, False])
def test_a_simulator_that_wants_to_end_the_process_fails_its_episode_only(
    tmp_path: Path, use_async_envs: bool, reference: Digests
) -> None:
    evaluation = run_tiny(
        tmp_path / "run",
        env={"mischief": "step.sysexit!:a:1:1"},
        eval={"use_async_envs": use_async_envs},
    )
    assert evaluation.error is None
    assert digests(evaluation) == reference


def test_the_message_names_task_episode_and_step(tmp_path: Path) -> None:
    policy = {"path": FAULTY, "kwargs": {"how": "nan", "at": 3}}
    evaluation = run_tiny(tmp_path / "run", task="b", policy=policy, eval={"batch_size": 1})
    assert isinstance(evaluation.error, PolicyError)
    assert "(task b, episode 0, step 2)" in str(evaluation.error)


def test_a_live_policy_that_fails_ends_the_run_too(tmp_path: Path) -> None:
    from proctor.policies.python import PlainPolicy

    evaluation = run_tiny(tmp_path / "run", live=PlainPolicy(Faulty("raise")))
    assert isinstance(evaluation.error, PolicyError)
    assert "I cannot see" in str(evaluation.error)


def test_a_host_that_is_killed_costs_no_episode(tmp_path: Path) -> None:
    undisturbed = run_tiny(tmp_path / "calm", policy={"path": FAULTY, "kwargs": {"how": "kill", "at": 10**9}})
    policy = {"path": FAULTY, "kwargs": {"how": "kill", "at": 40, "once": aside(tmp_path / "marker")}}
    evaluation = run_tiny(tmp_path / "run", policy=policy)
    assert evaluation.error is None
    assert (tmp_path / "marker").exists()
    assert digests(evaluation) == digests(undisturbed)
    assert max(record.attempts for record in evaluation.records) == 2


def test_a_policy_that_does_not_load_is_refused_before_any_simulator_starts(tmp_path: Path) -> None:
    source = tmp_path / "bad.py"
    source.write_text("import a_module_that_is_not_there\n")
    tree = tiny_tree(tmp_path / "run", policy={"path": f"{source}:Name"})
    done = run_cli("eval", *flags(tree))
    assert done.returncode == 2
    assert "a_module_that_is_not_there" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "run").glob("logs/worker-*"))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("observation_keys=('observation.depth',)", "looks at observation.depth, which tiny does not give"),
        ("action_size=7", "returns actions of 7 numbers, tiny takes 2"),
    ],
)
def test_a_policy_that_does_not_fit_is_refused(tmp_path: Path, spec: str, words: str) -> None:
    source = tmp_path / "misfit.py"
    source.write_text(
        "import proctor\n"
        "class Misfit(proctor.Policy):\n"
        f"    spec = proctor.PolicySpec({spec})\n"
        "    def act(self, windows, memories, generators): raise AssertionError\n"
    )
    with pytest.raises(UsageError, match="the policy") as caught:
        run_tiny(tmp_path / "run", policy={"path": f"{source}:Misfit"})
    assert words in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_another_policy_in_the_same_directory_is_refused(tmp_path: Path, reference: Digests) -> None:
    assert digests(run_tiny(tmp_path / "run")) == reference
    with pytest.raises(UsageError, match=r"policy\.fingerprint"):
        run_tiny(tmp_path / "run", policy={"path": f"{SUPPORT / 'tiny_policies.py'}:plain"})
    assert digests(tmp_path / "run") == reference
