"""What travels to a plain openpi server, and what a run against one says about itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import flags, run_cli, run_tiny, tiny_tree
from proctor.errors import IdentityError
from servers import answering, chunk, openpi


class Recorder:
    """An openpi server that keeps what it is sent."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.numbers: list[int] = []

    def __call__(self, message: dict[str, Any], number: int) -> bytes:
        self.messages.append(message)
        self.numbers.append(number)
        return chunk()


def one_episode(tmp_path: Path, **policy: Any) -> Recorder:
    recorder = Recorder()
    with answering(openpi(recorder)) as url:
        evaluation = run_tiny(
            tmp_path / "run",
            task="a",
            n_episodes=1,
            policy={"path": url, **policy},
            eval={"batch_size": 1},
        )
    assert evaluation.error is None
    return recorder


def test_by_default_all_that_the_benchmark_offers_is_sent_under_its_own_names(tmp_path: Path) -> None:
    message = one_episode(tmp_path).messages[0]
    assert message.keys() == {"observation.state", "observation.image", "prompt"}
    assert message["prompt"] == "do a"
    assert message["observation.state"].dtype == np.float64
    assert message["observation.image"].shape == (8, 6, 3)
    assert message["observation.image"].dtype == np.uint8


def test_keys_choose_what_is_sent_and_name_it_also_inside_a_map(tmp_path: Path) -> None:
    keys = {"observation.state": "observation/state", "observation.image": "images:cam_high"}
    message = one_episode(tmp_path, keys=keys, prompt_key="instruction", image_size=4).messages[0]
    assert message.keys() == {"observation/state", "images", "instruction"}
    assert message["images"]["cam_high"].shape == (4, 4, 3)
    assert (message["images"]["cam_high"][:, 3] == 0).all()  # padded: the picture is taller than wide
    only = one_episode(tmp_path / "second", keys={"observation.state": "s"}).messages[0]
    assert only.keys() == {"s", "prompt"}


def test_the_whole_chunk_is_executed_unless_told_otherwise(tmp_path: Path) -> None:
    whole, half = one_episode(tmp_path), one_episode(tmp_path / "second", n_action_steps=1)
    assert len(half.messages) in (2 * len(whole.messages), 2 * len(whole.messages) - 1)


def test_every_episode_has_a_connection_of_its_own(tmp_path: Path) -> None:
    recorder = Recorder()
    with answering(openpi(recorder)) as url:
        run_tiny(tmp_path / "run", task="a", n_episodes=3, policy={"path": url}, eval={"batch_size": 1})
    assert recorder.numbers.count(0) == 3


def test_a_run_against_a_server_that_cannot_be_seeded_says_that_it_is_not_reproducible(tmp_path: Path) -> None:
    with answering(openpi(Recorder())) as url:
        tree = tiny_tree(tmp_path / "run", policy={"path": url}, display="plain")
        done = run_cli("eval", *flags(tree))
    assert done.returncode == 0, done.stderr
    said = f"the policy server at {url} cannot be seeded: this run is not reproducible."
    assert said in done.stdout + done.stderr
    assert "not reproducible: the same command may give other episodes." in done.stdout
    assert json.loads((tmp_path / "run" / "eval_info.json").read_text())["run"]["reproducible"] is False


def test_a_local_run_does_not_say_so(tmp_path: Path) -> None:
    done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", task="a", n_episodes=1, display="plain")))
    assert "results:" in done.stdout
    assert "reproducible" not in done.stdout


def test_such_a_run_can_be_resumed_but_not_with_another_server_or_other_keys(tmp_path: Path) -> None:
    def run(n_episodes: int, metadata: dict[str, Any], port: int = 0, **policy: Any) -> str:
        with answering(openpi(Recorder(), metadata), port) as url:
            settings = {"path": url, **policy}
            evaluation = run_tiny(tmp_path / "run", task="a", n_episodes=n_episodes, policy=settings)
            assert len(evaluation.records) == n_episodes
        return url

    port = int(run(2, {"model": "one"}).rpartition(":")[2])
    run(3, {"model": "one"}, port)
    with pytest.raises(IdentityError, match=r"policy\.fingerprint"):
        run(4, {"model": "two"}, port)
    with pytest.raises(IdentityError, match=r"policy\.fingerprint"):
        run(4, {"model": "one"}, port, n_action_steps=1)
    run(4, {"model": "one"}, port, timeout=77.0)
