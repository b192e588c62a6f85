"""What a dataset calls `action` is what the simulator executed, within its bounds: playing it again proves it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import SUPPORT, flags, run_cli, tiny_tree
from recordings import origins, rows

pytest.importorskip("pyarrow")
pytest.importorskip("av")
pytest.importorskip("metaworld")

METAWORLD = {"type": "metaworld", "obs_type": "state", "episode_length": 60}
WILD = f"{SUPPORT / 'pixel_policy.py'}:Wild"
STATE = "observation.environment_state"

# Meta-World by itself, without Proctor: reads actions, prints what came of them.
_PLAY = """
import json, sys
import numpy as np
from metaworld.env_dict import ALL_V3_ENVIRONMENTS
asked = json.load(sys.stdin)
env = ALL_V3_ENVIRONMENTS[asked["task"]]()
env._set_task_called, env._partially_observable = True, False
env.__dict__.pop("sawyer_observation_space", None)
env._freeze_rand_vec, env.seeded_rand_vec = False, True
env.seed(asked["seed"])
seen, rewards = [env.reset()[0].tolist()], []
for action in asked["actions"]:
    observation, reward, *_ = env.step(np.asarray(action, np.float32))
    seen.append(observation.tolist())
    rewards.append(float(reward))
print(json.dumps({"seen": seen[:-1], "rewards": rewards}))
"""


def evaluate(output_dir: Path, policy: dict[str, str], env: dict[str, Any], *, recording: bool) -> dict[str, Any]:
    """Evaluate as a user does; returns the result."""
    tree = {
        "policy": policy,
        "env": env,
        "eval": {"n_episodes": 1, "batch_size": 1, "recording": recording},
        "output_dir": str(output_dir),
        "display": "none",
    }
    done = run_cli("eval", *flags(tree))
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads((output_dir / "eval_info.json").read_text())
    return result


def play(task: str, seed: int, actions: Any) -> dict[str, list[Any]]:
    told = json.dumps({"task": task, "seed": seed, "actions": np.asarray(actions).tolist()})
    done = subprocess.run([sys.executable, "-c", _PLAY], input=told, capture_output=True, text=True, check=True)
    found: dict[str, list[Any]] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def expert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded dataset of experts that ask for more than the arm can do."""
    place = tmp_path_factory.mktemp("expert") / "run"
    evaluate(place, {"type": "expert"}, {**METAWORLD, "task": "button-press-v3,hammer-v3"}, recording=True)
    return place / "dataset"


def test_an_expert_s_actions_are_recorded_within_the_action_space(expert: Path) -> None:
    for steps in rows(expert):
        assert np.abs(steps["action"]).max() <= 1.0
        assert np.abs(steps["policy_action"]).max() > 1.0, "this expert asks for more, or the test shows nothing"
        np.testing.assert_array_equal(steps["action"], np.clip(steps["policy_action"], -1.0, 1.0))


def test_a_training_program_sees_one_action(expert: Path) -> None:
    features = json.loads((expert / "meta" / "info.json").read_text())["features"]
    # LeRobot takes whatever begins with these for an input or a label of the policy.
    taken = [name for name in features if name.startswith(("action", "observation"))]
    assert taken == ["observation.state", STATE, "action"]
    assert "policy_action" in features


@pytest.fixture(scope="module")
def wild(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The recorded run of a policy whose actions are exact in float32 and often out of bounds, and its result."""
    place = tmp_path_factory.mktemp("wild") / "run"
    env = {**METAWORLD, "task": "reach-v3,pick-place-v3"}
    return place, evaluate(place, {"path": WILD}, env, recording=True)


@pytest.mark.slow
def test_what_was_recorded_is_the_episode_when_it_is_played_again_without_proctor(
    wild: tuple[Path, dict[str, Any]],
) -> None:
    dataset = wild[0] / "dataset"
    for origin, steps in zip(origins(dataset), rows(dataset), strict=True):
        assert np.abs(steps["policy_action"]).max() == 3.0
        for name in ("action", "policy_action"):
            played = play(origin["task"], origin["seed"], steps[name])
            np.testing.assert_array_equal(np.asarray(played["seen"], np.float32), steps[STATE], err_msg=name)
            np.testing.assert_array_equal(np.asarray(played["rewards"], np.float32), steps["next.reward"])


def test_recording_and_processes_change_no_digest(wild: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    env = {**METAWORLD, "task": "reach-v3,pick-place-v3"}
    plain = evaluate(tmp_path / "plain", {"path": WILD}, env, recording=False)
    assert [e["digest"] for e in wild[1]["per_episode"]] == [e["digest"] for e in plain["per_episode"]]


def test_a_simulator_that_takes_any_action_has_it_recorded_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "bold.py").write_text("def bold(observation):\n    return [3.0, -7.5]\n")
    tree = tiny_tree(
        tmp_path / "run",
        task="a",
        n_episodes=1,
        policy={"path": f"{tmp_path / 'bold.py'}:bold"},
        eval={"recording": True},
    )
    done = run_cli("eval", *flags(tree))
    assert done.returncode == 0, done.stderr
    (steps,) = rows(tmp_path / "run" / "dataset")
    assert {tuple(action) for action in steps["action"].tolist()} == {(3.0, -7.5)}
    assert "policy_action" not in steps
