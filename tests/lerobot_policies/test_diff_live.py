"""LeRobot's own loop beside ours: a planted fault is named in the words of docs/pitfalls.md, and no other."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import metaworld
import pytest
import torch
from gymnasium.envs.mujoco.mujoco_env import MujocoEnv
from lerobot.scripts.lerobot_eval import eval_policy_all
from safetensors.torch import load_file, save_file

from lerobot_checkpoints import SIDE, demonstrations, save_act, save_diffusion
from made_runs import make_run
from planted_harness import PITFALLS, Sound
from proctor.benchmarks.metaworld import models, quick_env
from proctor.diff.findings import LiveDiff
from proctor.diff.harness import OtherSide
from proctor.diff.live import LiveQuestion, OurSide
from proctor.diff.sources import read_result
from proctor.policies.protocol import Policy
from proctor.store.run_directory import RunDirectory
from proctor.types import Episode

STEPS = 4
"""One more than the tests' policy executes of a chunk."""

BRIEF = 2
"""Enough for what shows at once."""

PAGE = Path(__file__).parents[2] / "docs" / "pitfalls.md"


def said_on_the_page() -> dict[str, list[str]]:
    """Return what docs/pitfalls.md says that `diff` prints, by its headings."""
    found = re.findall(r"^## \d+\. (.+?)\n.*?```text\n(.*?)```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return {heading: text.strip().splitlines() for heading, text in found}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("checkpoints")
    makers: dict[str, Callable[[Path], Any]] = {
        "act": lambda place: save_act(place, 2, chunk_size=8, n_action_steps=3),
        "single": lambda place: save_act(place, 2, chunk_size=8, n_action_steps=1),
        "ensemble": lambda place: save_act(place, 2, chunk_size=8, n_action_steps=1, temporal_ensemble_coeff=0.01),
        "diffusion": lambda place: save_diffusion(place, 1, n_action_steps=4, num_train_timesteps=3),
        "pressing": pressing,
    }

    @functools.cache
    def get(kind: str) -> Path:
        makers[kind](folder / kind)
        return folder / kind

    return get


def pressing(place: Path) -> None:
    """Save a policy that moves straight down, whatever it sees: it presses a handle, and then too far."""
    save_act(place, 1, chunk_size=8, n_action_steps=3)
    (file,) = place.glob("policy_postprocessor*.safetensors")
    tensors = load_file(file)
    tensors |= {"action.mean": torch.tensor([0.0, 0.0, -1.0, 0.0]), "action.std": torch.full((4,), 1e-6)}
    save_file(tensors, file)


def settings(checkpoint: Path, task: str, steps: int) -> dict[str, Any]:
    env = {"type": "metaworld", "task": task, "observation_height": SIDE, "observation_width": SIDE}
    policy = {"path": str(checkpoint), "type": "lerobot", "device": "cpu"}
    return {"policy": policy, "env": {**env, "episode_length": steps}, "eval": {"n_episodes": 1}}


@pytest.fixture(scope="module")
def ours(checkpoints: Callable[[str], Path]) -> Callable[[str, str, int], tuple[OurSide, dict[str, Any]]]:
    @functools.cache
    def policy(kind: str) -> Policy:
        return OurSide(settings(checkpoints(kind), "reach-v3", STEPS)).policy.policy

    def get(kind: str, task: str, steps: int) -> tuple[OurSide, dict[str, Any]]:
        tree = settings(checkpoints(kind), task, steps)
        return OurSide(tree, policy(kind)), tree

    return get


def diff(ours: Any, harness: type[Sound], kind: str, task: str, seed: int, steps: int) -> LiveDiff:
    side, tree = ours(kind, task, steps)
    (chosen,) = side.tasks
    question = LiveQuestion(
        json.loads(json.dumps(tree)), Episode(chosen, 0, seed), steps=0, seeds=(seed, seed + 1)
    )
    found: LiveDiff = side.compare(OtherSide(harness(tree), harness.__name__), question)
    return found


@pytest.fixture(scope="module", autouse=True)
def simulators_are_quick() -> Any:
    """Spare both sides what takes most of their time, and is the same on both.

    LeRobot has Meta-World draw fifty tasks for each environment, always the same; and a shadow has 4096 x 4096
    pixels, on a picture of 64 x 64.
    """
    demonstrations()  # which other tests train on, too, with all their shadows
    begin, compiled = MujocoEnv._initialize_simulation, models.compiled_model

    def theirs(env: Any) -> Any:
        model, data = begin(env)
        model.vis.quality.shadowsize = 256
        return model, data

    def ours(xml: Path) -> Any:
        model = compiled(xml)
        model.vis.quality.shadowsize = 256
        return model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metaworld, "MT1", functools.cache(metaworld.MT1))
        patch.setattr(MujocoEnv, "_initialize_simulation", theirs)
        patch.setattr(quick_env, "compiled_model", ours)
        yield


@pytest.mark.parametrize("pitfall", PITFALLS)
def test_a_planted_pitfall_is_named_as_the_page_says(pitfall: str, ours: Any) -> None:
    kind, task, seed, steps = ("act", "reach-v3", 1000, STEPS)
    if "picture" in pitfall.lower() or "state" in pitfall or "prompt" in pitfall or "exchanged" in pitfall:
        steps = BRIEF
    if pitfall == "Success counts at the last step alone":
        kind, task, seed, steps = "pressing", "handle-press-v3", 1017, 16
    found = diff(ours, PITFALLS[pitfall], kind, task, seed, steps)
    assert [str(one) for one in found.differences] == said_on_the_page()[pitfall]


def test_the_page_has_the_pitfalls_that_are_planted_and_at_least_twenty() -> None:
    assert list(said_on_the_page()) == list(PITFALLS)
    assert len(PITFALLS) >= 20


EXECUTED = {"act": 3, "single": 1, "ensemble": 1, "diffusion": 4, "pressing": 3}
"""How many actions of a chunk each of these policies executes."""

CLEAN = [
    ("act", "reach-v3", 1000, STEPS), ("single", "push-v3", 4, 5), ("ensemble", "reach-v3", 1004, 5),
    ("diffusion", "push-v3", 8, 9), ("act", "pick-place-v3", 1002, 7), ("single", "hammer-v3", 1000, BRIEF),
    ("ensemble", "sweep-v3", 6, BRIEF), ("diffusion", "assembly-v3", 9, 5),
    ("pressing", "handle-press-v3", 1000, 7), ("act", "door-open-v3", 3, 7), ("act", "reach-v3", 7, BRIEF),
    ("act", "push-v3", 1000, 7), ("act", "drawer-close-v3", 1001, BRIEF), ("act", "window-open-v3", 0, BRIEF),
    ("act", "button-press-v3", 12, BRIEF), ("single", "reach-v3", 1003, BRIEF),
    ("single", "basketball-v3", 5, BRIEF), ("ensemble", "soccer-v3", 1000, BRIEF),
    ("diffusion", "reach-v3", 1005, BRIEF), ("diffusion", "lever-pull-v3", 1000, BRIEF),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "task", "seed", "steps"), CLEAN)
def test_where_nothing_is_wrong_nothing_is_named(kind: str, task: str, seed: int, steps: int, ours: Any) -> None:
    found = diff(ours, Sound, kind, task, seed, steps)
    assert [(str(one), one.values) for one in found.differences] == []
    assert (found.steps, found.ended, list(found.notes)) == (steps, "truncated", [])


def test_every_policy_of_the_clean_pairs_goes_past_two_of_its_chunks_somewhere() -> None:
    assert len(CLEAN) == len({case[:3] for case in CLEAN}) == 20
    for kind, executed in EXECUTED.items():
        assert any(case[0] == kind and case[3] > 2 * executed for case in CLEAN), kind
    assert sum(steps > EXECUTED[kind] for kind, _, _, steps in CLEAN) >= 12


def test_the_command_names_what_lerobot_itself_does_otherwise(
    checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    """Its environment knows one size of pictures, and draws the goal of the episode before."""
    run = make_run(tmp_path / "run", {"reach-v3": [False]}, max_steps=2)
    RunDirectory(run).write_config(settings(checkpoints("act"), "reach-v3", 2))
    command = [sys.executable, "-m", "proctor", "diff", str(run), "--live"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr
    assert "beside LeRobot 0." in done.stdout
    assert "first difference: step 0, observation.image: 480 x 480 pixels where ours has 64 x 64" in done.stdout
    assert "such as a goal marker" in done.stdout
    assert "also: step 2, ending: its step limit is above ours of 2" in done.stdout


def test_what_lerobots_evaluation_writes_is_read(ours: Any, tmp_path: Path) -> None:
    side, tree = ours("act", "reach-v3", BRIEF)
    (task,) = side.tasks
    lerobots = Sound(tree)
    lerobots.load_policy(task)
    env = lerobots.make_env(task)
    with torch.no_grad():
        info = eval_policy_all(
            envs={"reach-v3": {0: env}},
            policy=lerobots.policy,
            env_preprocessor=lerobots.env_preprocessor,
            env_postprocessor=lerobots.env_postprocessor,
            preprocessor=lerobots.preprocessor,
            postprocessor=lerobots.postprocessor,
            n_episodes=2,
            start_seed=1000,
        )
    env.close()
    (tmp_path / "eval_info.json").write_text(json.dumps(info, indent=2))  # as `lerobot-eval` does
    with read_result(tmp_path) as found:
        assert found.kind == "LeRobot's eval_info.json"
        (read,) = found.tasks
        assert (read.name, read.group, read.task_id, read.rate) == ("reach-v3", "reach-v3", 0, (0, 2))
        assert all(one.sum_reward is not None and one.sum_reward > 0 for one in read.episodes.values())
