"""Evaluation from Python: scripts, threads, running event loops, training loops, Ctrl-C."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import proctor
from harness import SUPPORT, Digests
from proctor.errors import PolicyError, UsageError
from tiny_policies import Thoughtful, plain

TINY = f"{SUPPORT / 'tiny.py'}:Tiny"


def evaluate_tiny(policy: Any, directory: Path, **options: Any) -> proctor.EvalResult:
    options = {"task": ["a", "b", "c"], "n_episodes": 4, "workers": 2, "display": "none", **options}
    return proctor.evaluate(policy, benchmark=TINY, output_dir=directory, **options)


def test_a_result_iterates_episodes_in_plan_order_and_gives_rates_with_intervals(tmp_path: Path) -> None:
    result = evaluate_tiny(plain, tmp_path / "run")
    assert [(record.episode_index, record.task) for record in result] == [(i, t) for i in range(4) for t in "abc"]
    assert len(result) == 12
    assert result.complete
    rate = result.success_rate
    assert rate.episodes == 12
    assert rate.successes == sum(bool(record.success) for record in result)
    assert 0 <= rate.low <= rate.successes / 12 <= rate.high <= 1
    assert sum(r.successes for r in result.per_task().values()) == rate.successes
    assert list(result.per_group()) == ["a", "b", "c"]
    assert result.rate_if_errors_failed == rate
    assert json.loads((result.path / "eval_info.json").read_text()) == json.loads(json.dumps(result.info))


def test_a_result_turns_into_a_pandas_frame(tmp_path: Path) -> None:
    frame = evaluate_tiny(plain, tmp_path / "run").to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == 12
    assert {"task", "episode_index", "seed", "success", "steps", "digest", "pixel_digest"} <= set(frame.columns)


def test_it_works_in_a_plain_script_without_a_main_guard(tmp_path: Path, reference: Digests) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(SUPPORT)!r})\n"
        "import proctor\n"
        "from tiny_policies import Thoughtful\n"
        f"result = proctor.evaluate(Thoughtful(), benchmark={TINY!r}, task='a,b,c', n_episodes=4, workers=2,\n"
        f"                          output_dir={str(tmp_path / 'run')!r}, display='none')\n"
        "print(*['+'.join(record.digests) for record in result])\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {f"{physics}+{pixels}" for physics, pixels in reference.values()}


def test_it_works_in_a_thread_and_inside_a_running_event_loop(tmp_path: Path, reference: Digests) -> None:
    found: list[tuple[str | None, str | None]] = []

    async def notebook() -> None:
        found.extend(record.digests for record in evaluate_tiny(Thoughtful(), tmp_path / "loop"))

    def thread() -> None:
        found.extend(record.digests for record in evaluate_tiny(Thoughtful(), tmp_path / "thread"))

    asyncio.run(notebook())
    other = threading.Thread(target=thread)
    other.start()
    other.join()
    assert len(found) == 24
    assert set(found) == set(reference.values())


def test_a_training_loop_may_evaluate_the_same_object_again_and_again(tmp_path: Path) -> None:
    class Learner:
        gain = 0.0

        def act(self, observation: dict[str, Any]) -> list[float]:
            return [self.gain, 0.0]

    learner, sums = Learner(), []
    for epoch in range(3):
        learner.gain = float(epoch)
        result = evaluate_tiny(learner, tmp_path / f"epoch-{epoch}", n_episodes=1)
        sums.append(sum(record.sum_reward or 0.0 for record in result))
    assert len(set(sums)) == 3


def test_a_live_policy_without_a_fingerprint_does_not_resume_by_accident(tmp_path: Path) -> None:
    evaluate_tiny(plain, tmp_path / "run", n_episodes=1)
    with pytest.raises(UsageError, match=r"policy\.fingerprint"):
        evaluate_tiny(lambda observation: [0.0, 0.0], tmp_path / "run", n_episodes=2)


def test_an_object_that_has_changed_is_not_taken_for_what_it_was(tmp_path: Path) -> None:
    class Learner(Thoughtful):
        @property
        def spec(self) -> proctor.PolicySpec:
            return dataclasses.replace(super().spec, fingerprint=None)

    learner = Learner()
    evaluate_tiny(learner, tmp_path / "run", n_episodes=1)
    with pytest.raises(UsageError, match="give it one"):
        evaluate_tiny(learner, tmp_path / "run", n_episodes=1)


def test_a_live_policy_with_a_fingerprint_resumes(tmp_path: Path) -> None:
    evaluate_tiny(Thoughtful(), tmp_path / "run", n_episodes=1)
    assert len(evaluate_tiny(Thoughtful(), tmp_path / "run", n_episodes=2)) == 6


def test_a_failing_policy_raises_here_with_its_own_cause(tmp_path: Path) -> None:
    def bad(observation: dict[str, Any]) -> list[float]:
        raise ZeroDivisionError("by design")

    with pytest.raises(PolicyError, match="by design") as caught:
        evaluate_tiny(bad, tmp_path / "run")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_ctrl_c_ends_an_evaluation_whose_live_policy_hangs(tmp_path: Path) -> None:
    script = (
        "import os, signal, threading, time\n"
        "import proctor\n"
        "def hang(observation):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(3600)\n"
        "try:\n"
        f"    proctor.evaluate(hang, benchmark={TINY!r}, task='a', n_episodes=1, display='none',\n"
        f"                     output_dir={str(tmp_path / 'run')!r}, settings={{'eval': {{'stop_grace': 0}}}})\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "interrupted", done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_arguments_raise_with_the_nearest_right_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'expert'"):
        proctor.evaluate("expret", task="reach-v3", output_dir=tmp_path / "run")
    with pytest.raises(UsageError, match=r"^unknown setting env\.obs_typ\. Did you mean 'env\.obs_type'\?$"):
        proctor.evaluate("expert", task="reach-v3", env={"obs_typ": "state"}, output_dir=tmp_path / "run")
    with pytest.raises(UsageError, match=r"^task=reach-v2: unknown. Did you mean 'reach-v3'\?"):
        proctor.evaluate("expert", task="reach-v2", output_dir=tmp_path / "run")
    with pytest.raises(UsageError, match="no policy"):
        proctor.evaluate(object(), task="reach-v3", output_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_ctrl_c_raises_keyboard_interrupt_after_storing_what_finished(tmp_path: Path) -> None:
    script = (
        "import os, signal, threading\n"
        "import proctor\n"
        "from proctor.events import Watcher\n"
        "import proctor.api as api\n"
        "class Stop(Watcher):\n"
        "    def episode(self, record): os.kill(os.getpid(), signal.SIGINT)\n"
        "api.make_display = lambda console, display: Stop()\n"
        "try:\n"
        f"    proctor.evaluate(lambda o: [0.0, 0.0], benchmark={TINY!r}, task='a', n_episodes=50, workers=1,\n"
        f"                     output_dir={str(tmp_path / 'run')!r}, env={{'delay': 0.001}})\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "interrupted", done.stderr
    info = json.loads((tmp_path / "run" / "eval_info.json").read_text())
    assert 1 <= len(info["per_episode"]) < 50
