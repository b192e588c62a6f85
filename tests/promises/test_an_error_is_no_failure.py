"""Promise: what the infrastructure breaks is not counted against the policy, and is never hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from outside import Scene, digests, result

SLOW = pytest.mark.slow


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "deed", ["raise", "kill", pytest.param("segfault", marks=SLOW), pytest.param("exit", marks=SLOW), "nan"]
)
def test_an_episode_that_cannot_be_run_is_outside_the_rate_and_shown(tmp_path: Path, deed: str) -> None:
    sound, broken = Scene(tmp_path / "sound"), Scene(tmp_path / "broken")
    assert sound.eval().returncode == 0
    where = "reset.nan:a:2:0" if deed == "nan" else f"step.{deed}:a:2:1"
    done = broken.eval(
        f"--env.mischief={where}", "--eval.max_attempts=2", f"--env.scratch={tmp_path}", "--display=plain"
    )
    assert done.returncode == 3, done.stderr
    assert "1 episode could not be run" in done.stdout
    told, reference = result(broken.run), result(sound.run)
    others = {key: digest for key, digest in digests(sound.run).items() if key != ("a", 2)}
    assert digests(broken.run) == others
    assert told["overall"]["n_episodes"] == 11
    assert told["errors"]["n_errors"] == 1
    successes = [episode["success"] for episode in reference["per_episode"]]
    lost = next(e["success"] for e in reference["per_episode"] if (e["task"], e["episode_index"]) == ("a", 2))
    assert told["overall"]["pc_success"] == pytest.approx(100 * (sum(successes) - lost) / 11)
    # Once it can be run, it is, and the run is the sound one.
    assert broken.eval().returncode == 0
    assert digests(broken.run) == digests(sound.run)
