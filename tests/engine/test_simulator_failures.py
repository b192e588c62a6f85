"""A simulator that raises, dies, hangs or returns NaN costs no episode; if it always does, it is an error."""

from __future__ import annotations

import re
from pathlib import Path

import psutil
import pytest

from harness import Digests, digests, flags, run_cli, run_tiny, tiny_tree
from proctor.engine import retries
from proctor.errors import RunError
from proctor.store.episodes import EpisodeTable

LIMITS = {"step": 3.0, "reset": 3.0, "build": 3.0, "draw": 3.0}
"""Only of runs in which something hangs: a busy machine may take as long."""

DEEDS = {
    "step.raise": "step raised RuntimeError: the simulator fell over",
    "step.kill": "the worker was killed by SIGKILL (out of memory, or by hand) during step",
    "step.segfault": "the worker was killed by SIGSEGV during step",
    "step.exit": "the worker exited with status 7 during step",
    "step.hang": "step took longer than 3 s (--limits.step)",
    "reset.raise": "reset raised RuntimeError: the simulator fell over",
    "reset.hang": "reset took longer than 3 s (--limits.reset)",
    "observe.hang": "draw took longer than 3 s (--limits.draw)",
    "observe.nan": "the simulator gave NaN or infinity in 'observation.state'",
}


def limits_for(deed: str) -> dict[str, float]:
    return LIMITS if deed.endswith("hang") else {}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("deed", DEEDS)
def test_what_goes_wrong_once_costs_no_episode(tmp_path: Path, reference: Digests, deed: str) -> None:
    step = "0" if deed.startswith(("reset", "observe")) else "1"
    evaluation = run_tiny(tmp_path / "run", env={"mischief": f"{deed}!:b:2:{step}"}, limits=limits_for(deed))
    assert digests(evaluation) == reference
    assert {record.key: record.attempts for record in evaluation.records if record.attempts > 1} == {
        ("b", 0, 2): 2
    }
    with EpisodeTable(tmp_path / "run" / "run.sqlite", read_only=True) as table:
        ((reason,),) = table._db.execute("SELECT reason FROM attempts").fetchall()
    assert DEEDS[deed] in reason


@pytest.mark.sampled(1)
@pytest.mark.parametrize("deed", ["build.raise", "build.kill", "build.hang"])
def test_a_simulator_that_cannot_be_built_at_first_costs_no_episode(
    tmp_path: Path, reference: Digests, deed: str
) -> None:
    evaluation = run_tiny(tmp_path / "run", env={"mischief": f"{deed}!:c:*:*"}, limits=limits_for(deed))
    assert digests(evaluation) == reference


def test_what_always_goes_wrong_is_an_error_beside_the_rate_and_the_command_exits_with_3(
    tmp_path: Path, reference: Digests
) -> None:
    mischief = {"mischief": "step.kill:b:2:1"}
    tree = tiny_tree(tmp_path / "run", env=mischief, eval={"max_attempts": 2}, display="plain")
    done = run_cli("eval", *flags(tree))
    assert done.returncode == 3, done.stderr
    found = digests(tmp_path / "run")
    assert found.pop(("b", 0, 2)) == (None, None)  # type: ignore[call-overload]
    assert found == {key: digest for key, digest in reference.items() if key != ("b", 0, 2)}
    assert "1 episode could not be run, not counted in the rates" in done.stdout
    assert "b episode 2: the worker was killed by SIGKILL" in done.stdout
    assert "--resume" in done.stderr


def test_errors_are_tried_again_by_the_next_run_and_nothing_else_is(tmp_path: Path, reference: Digests) -> None:
    first = run_tiny(tmp_path / "run", env={"mischief": "step.raise:a:1:1"}, eval={"max_attempts": 1})
    assert [record.key for record in first.records if record.status == "error"] == [("a", 0, 1)]
    seconds = {record.key: record.seconds for record in first.records}
    second = run_tiny(tmp_path / "run")
    assert digests(second) == reference
    again = [record.key for record in second.records if record.seconds != seconds[record.key]]
    assert again == [("a", 0, 1)]


def test_a_run_in_which_nothing_works_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "HOPELESS", 5)  # the real one is in tests/reference
    evaluation = run_tiny(
        tmp_path / "run", n_episodes=50, env={"mischief": "build.raise:*:*:*"}, eval={"max_attempts": 20}
    )
    assert isinstance(evaluation.error, RunError)
    found = re.search(r"(\d+) attempts failed and not one episode ended", str(evaluation.error))
    assert found is not None
    assert int(found[1]) >= retries.HOPELESS
    assert "build raised RuntimeError: the simulator fell over" in str(evaluation.error)


def test_what_a_simulator_started_ends_with_its_worker(tmp_path: Path, reference: Digests) -> None:
    evaluation = run_tiny(tmp_path / "run", env={"mischief": "step.orphan!:a:0:1 step.raise!:a:0:2"})
    assert digests(evaluation) == reference
    assert [process for process in psutil.process_iter() if _writes_below(process.pid, tmp_path)] == []


def _writes_below(pid: int, place: Path) -> bool:
    """Whether a process, whoever its parent is now, has its output in one of a run's logs."""
    try:
        return Path(f"/proc/{pid}/fd/1").readlink().is_relative_to(place)
    except OSError:
        return False


def test_chatter_goes_to_a_log_and_not_to_the_terminal(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", n_episodes=1, env={"mischief": "step.print:a:0:1"}, display="plain")
    done = run_cli("eval", *flags(tree))
    assert done.returncode == 0, done.stderr
    assert "says hello" not in done.stdout + done.stderr
    assert any("says hello" in log.read_text() for log in (tmp_path / "run" / "logs").iterdir())


@pytest.mark.parametrize("deed", ["step.raise", "observe.nan"])
def test_in_this_process_too_a_simulator_is_tried_again(tmp_path: Path, reference: Digests, deed: str) -> None:
    step = "0" if deed.startswith("observe") else "1"
    evaluation = run_tiny(
        tmp_path / "run", env={"mischief": f"{deed}!:b:2:{step}"}, eval={"use_async_envs": False}
    )
    assert digests(evaluation) == reference
