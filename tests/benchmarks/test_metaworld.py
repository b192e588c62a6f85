"""Meta-World itself: seeding, drawing only on a look, LeRobot's view, and the experts on all fifty tasks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import proctor
from harness import SUPPORT, Digests, digests, flags, role, run_cli, start_cli
from harness import descendants as family_of
from proctor.benchmarks.metaworld.benchmark import MetaWorldSettings, one_hot_tasks
from proctor.benchmarks.metaworld.tasks import MT50
from proctor.benchmarks.rendering import Renderer

PIXELS, WILD = (f"{SUPPORT / 'pixel_policy.py'}:{name}" for name in ("Pixels", "Wild"))
SMALL = {"observation_height": 48, "observation_width": 64, "episode_length": 50}

# What an episode's physics come to, in a process of its own: argument 1 is how the environment is built.
_ROLLOUT = """
import hashlib, sys
import numpy as np
route, *plan = sys.argv[1:]

def direct(name):
    from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
    from proctor.types import NO_LOOK, Episode
    benchmark = MetaWorld(MetaWorldSettings(type="metaworld", task=name, obs_type="state"))
    simulator = benchmark.make_simulator(benchmark.tasks()[0])
    keys = frozenset(benchmark.spec.features)
    def play(seed):
        simulator.reset(Episode(benchmark.tasks()[0], 0, seed), keys)
        yield simulator.observe()["observation.environment_state"]
        reach = 1 if route == "direct" else 4
        actions = np.random.default_rng(seed).uniform(-reach, reach, (40, 4)).astype(np.float32)
        for action in benchmark.spec.executed(actions) if route == "clipped" else actions:
            outcome = simulator.step(action, keys)
            yield simulator.observe()["observation.environment_state"]
            # Some rewards are computed in the action's own float32, or not, as it was clipped here or there.
            yield np.float64(outcome.reward) if route == "direct" else np.array(outcome[1:4])
    return play

def official(name):
    import metaworld
    mt1 = metaworld.MT1(name, seed=42)
    env = mt1.train_classes[name]()
    env.set_task(mt1.train_tasks[0])
    env.reset()
    env._freeze_rand_vec, env.seeded_rand_vec = False, True
    def play(seed):
        env.seed(seed)
        yield env.reset()[0]
        for action in np.random.default_rng(seed).uniform(-1, 1, (40, 4)).astype(np.float32):
            observation, reward, *_ = env.step(action)
            yield observation
            yield np.float64(reward)
    return play

built = {}
for entry in plan:
    name, seed = entry.split(":")
    if name not in built:
        built[name] = (official if route == "official" else direct)(name)
    digest = hashlib.sha256(b"".join(np.asarray(part).tobytes() for part in built[name](int(seed))))
    print(entry, digest.hexdigest())
"""


def rollouts(route: str, *plan: str) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", _ROLLOUT, route, *plan], capture_output=True, text=True, check=True
    )
    return dict(line.split() for line in done.stdout.splitlines())


def test_an_episode_is_the_same_in_a_fresh_process_and_after_others_in_a_reused_one() -> None:
    plan = ["door-open-v3:3", "assembly-v3:7", "door-open-v3:3", "peg-insert-side-v3:1", "door-open-v3:4"]
    reused = rollouts("direct", *plan)
    fresh: dict[str, str] = {}
    for entry in reused:
        fresh |= rollouts("direct", entry)
    assert reused == fresh
    assert len(set(reused.values())) == 4


def test_building_directly_equals_meta_worlds_own_way_bit_for_bit() -> None:
    plan = ["reach-v3:5", "door-unlock-v3:5", "stick-pull-v3:5", "box-close-v3:5"]
    assert rollouts("direct", *plan) == rollouts("official", *plan)


def test_an_action_that_is_clipped_beforehand_moves_the_same() -> None:
    plan = ["reach-v3:5", "dial-turn-v3:5", "pick-place-wall-v3:5", "box-close-v3:5"]
    assert rollouts("clipped", *plan) == rollouts("beyond", *plan)


@pytest.mark.slow
def test_an_action_that_is_clipped_beforehand_moves_the_same_on_all_fifty_tasks() -> None:
    plan = [f"{task}:{seed}" for task in MT50 for seed in (0, 9)]
    assert rollouts("clipped", *plan) == rollouts("beyond", *plan)


def test_one_hot_vectors_follow_meta_worlds_own_order() -> None:
    from metaworld.env_dict import MT10_V3, MT50_V3

    assert one_hot_tasks(MetaWorldSettings(type="metaworld", task="mt10")) == tuple(MT10_V3)
    assert one_hot_tasks(MetaWorldSettings(type="metaworld", task="reach-v3")) == tuple(MT50_V3)


@pytest.mark.slow
def test_building_directly_equals_meta_worlds_own_way_on_all_fifty_tasks() -> None:
    plan = [f"{task}:{seed}" for task in MT50 for seed in (0, 9)]
    assert rollouts("direct", *plan) == rollouts("official", *plan)


@pytest.mark.slow  # two of them are in tests/reference
def test_one_command_evaluates_all_fifty_tasks_and_the_experts_solve_them(tmp_path: Path) -> None:
    result = proctor.evaluate(
        "expert", task="mt50", n_episodes=1, seed=0, output_dir=tmp_path / "run", display="none"
    )
    assert result.complete
    assert not result.errors
    assert result.success_rate.episodes == 50
    assert result.success_rate.successes >= 48
    assert [record.task for record in result] == list(MT50)


def _draw_in_a_process(renderer: Renderer, script: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, **renderer.env}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


_VIEW = """
import hashlib
import numpy as np
def show(image): print(hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest(), image.std() > 10)
"""

_OURS = (
    _VIEW
    + """
from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.types import IMAGE, NO_LOOK, Episode
benchmark = MetaWorld(MetaWorldSettings(type="metaworld", task="door-open-v3", obs_type="pixels"))
simulator = benchmark.make_simulator(benchmark.tasks()[0])
look = frozenset({IMAGE})
simulator.reset(Episode(benchmark.tasks()[0], 0, 3), look)
show(simulator.observe()[IMAGE])
for _ in range(20):
    simulator.step(np.full(4, 0.5, np.float32), NO_LOOK)
simulator.step(np.full(4, 0.5, np.float32), look)
show(simulator.observe()[IMAGE])
"""
)

_LEROBOTS = (
    _VIEW
    + """
import metaworld
mt1 = metaworld.MT1("door-open-v3", seed=42)
env = mt1.train_classes["door-open-v3"](render_mode="rgb_array", camera_name="corner2")
env.set_task(mt1.train_tasks[0])
env.model.cam_pos[2] = [0.75, 0.075, 0.7]
env.reset()
env._freeze_rand_vec, env.seeded_rand_vec = False, True
env.seed(3)
env.reset()
show(np.flip(env.render(), (0, 1)))
for _ in range(21):
    env.step(np.full(4, 0.5, np.float32))
    env.render()
show(np.flip(env.render(), (0, 1)))
"""
)


@pytest.mark.gl
def test_the_image_is_lerobots_and_the_same_whether_steps_before_were_drawn_or_not(renderer: Renderer) -> None:
    ours = _draw_in_a_process(renderer, _OURS)
    assert ours == _draw_in_a_process(renderer, _LEROBOTS)
    assert ours[1::2] == ["True", "True"]


_COUNT = """
import mujoco
import numpy as np
from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.types import IMAGE, NO_LOOK, Episode
small = {"observation_height": 32, "observation_width": 32}
benchmark = MetaWorld(MetaWorldSettings(type="metaworld", task="reach-v3", **small))
task = benchmark.tasks()[0]
simulator = benchmark.make_simulator(task)
drawings = []
original = mujoco.mjr_render
mujoco.mjr_render = lambda *parts: drawings.append(1) or original(*parts)
look = frozenset(benchmark.spec.features)
simulator.reset(Episode(task, 0, 1), look)
print(len(drawings))
for _ in range(5):
    simulator.step(np.zeros(4, np.float32), NO_LOOK)
print(len(drawings))
simulator.step(np.zeros(4, np.float32), look)
seen = simulator.observe()[IMAGE]
print(len(drawings))
print(simulator.render() is seen, len(drawings))
"""


@pytest.mark.gl
def test_drawing_happens_on_a_look_only_and_a_filmed_look_is_drawn_once(renderer: Renderer) -> None:
    assert _draw_in_a_process(renderer, _COUNT) == ["0", "0", "1", "True", "1"]


def metaworld_flags(directory: Path, **changes: Any) -> list[str]:
    tree: dict[str, Any] = {
        "policy": {"path": changes.pop("policy", PIXELS), "placement": changes.pop("placement", "central")},
        "env": {
            "type": "metaworld",
            "task": changes.pop("task", "reach-v3,door-open-v3"),
            **SMALL,
            **changes.pop("env", {}),
        },
        "eval": {"n_episodes": changes.pop("n_episodes", 2), **changes},
        "output_dir": str(directory),
        "display": "none",
    }
    return flags(tree)


def evaluate_pixels(directory: Path, **changes: Any) -> Digests:
    done = run_cli("eval", *metaworld_flags(directory, **changes))
    assert done.returncode == 0, done.stderr
    return digests(directory)


@pytest.mark.slow
@pytest.mark.gl
def test_pixels_are_the_same_however_they_are_run(renderer: Renderer, tmp_path: Path) -> None:
    one = evaluate_pixels(tmp_path / "one", batch_size=1)
    assert len(set(one.values())) == 4
    assert evaluate_pixels(tmp_path / "five", batch_size=5) == one
    assert evaluate_pixels(tmp_path / "worker", batch_size=2, placement="worker") == one
    assert evaluate_pixels(tmp_path / "inline", use_async_envs=False) == one
    size = {"visualization_width": 80, "visualization_height": 60}
    assert evaluate_pixels(tmp_path / "video", max_episodes_rendered=1, video_fps=5, env=size) == one
    assert len(list((tmp_path / "video" / "videos").glob("*/*.mp4"))) == 2


@pytest.mark.slow
@pytest.mark.gl
def test_physics_do_not_depend_on_the_size_of_the_images(renderer: Renderer, tmp_path: Path) -> None:
    """With a policy that is shown pictures and minds none."""
    found = {}
    for side in (64, 96):
        size = {"observation_height": side, "observation_width": side, "episode_length": 12}
        run = {"policy": WILD, "task": "reach-v3", "n_episodes": 1, "use_async_envs": False, "env": size}
        ((physics, pixels),) = evaluate_pixels(tmp_path / str(side), **run).values()
        assert physics is not None
        assert pixels is not None
        found[side] = physics, pixels
    assert found[64][0] == found[96][0]
    assert found[64][1] != found[96][1]


@pytest.mark.slow
@pytest.mark.gl
def test_pixels_are_the_same_when_every_step_is_recorded(renderer: Renderer, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    changes: dict[str, Any] = {"task": "door-open-v3", "n_episodes": 1, "env": {"episode_length": 30}}
    recorded = evaluate_pixels(tmp_path / "recorded", recording=True, **changes)
    assert recorded == evaluate_pixels(tmp_path / "plain", **changes)
    assert (tmp_path / "recorded" / "dataset" / "meta" / "info.json").exists()


@pytest.mark.slow
@pytest.mark.gl
def test_pixels_are_the_same_after_a_worker_was_killed(renderer: Renderer, tmp_path: Path) -> None:
    calm = evaluate_pixels(tmp_path / "calm")
    process = start_cli("eval", *metaworld_flags(tmp_path / "run"))
    while not (workers := [child for child in family_of(process.pid) if role(child) == "worker"]):
        assert process.poll() is None
    workers[0].kill()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert digests(tmp_path / "run") == calm


@pytest.mark.slow
@pytest.mark.gl
def test_a_worker_switched_over_ten_tasks_and_a_fresh_worker_per_episode_see_the_same_images(
    renderer: Renderer, tmp_path: Path
) -> None:
    switched = evaluate_pixels(tmp_path / "switched", task="mt10", n_episodes=1, batch_size=1)
    fresh = evaluate_pixels(tmp_path / "fresh", task="mt10", n_episodes=1, batch_size=2, recycle_after=1)
    assert switched == fresh
    assert len(set(switched.values())) == 10


_FIRST_PICTURES = """
import hashlib, sys
from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.types import IMAGE, Episode
for name in sys.argv[1:]:
    benchmark = MetaWorld(MetaWorldSettings(type="metaworld", task=name))
    (task,) = benchmark.tasks()
    pictures = []
    for before in ([], [7, 8]):
        simulator = benchmark.make_simulator(task)
        for seed in [*before, 3]:
            simulator.reset(Episode(task, 0, seed), frozenset({IMAGE}))
        pictures.append(hashlib.sha256(simulator.observe()[IMAGE].tobytes()).hexdigest())
        simulator.step([0.0] * 4, frozenset())
        simulator.close()
    print(name, *pictures)
"""


def first_pictures(renderer: Renderer, *tasks: str) -> list[list[str]]:
    """Return, per task, its name and what the first picture shows in a fresh and in a reused simulator."""
    command = [sys.executable, "-c", _FIRST_PICTURES, *tasks]
    env = {**os.environ, **renderer.env}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.gl
def test_the_first_picture_shows_nothing_of_the_episode_before(renderer: Renderer) -> None:
    # Meta-World itself leaves the goal's marker where it was until the first step.
    assert all(fresh == reused for _, fresh, reused in first_pictures(renderer, "push-v3", "pick-place-v3"))


@pytest.mark.slow
@pytest.mark.gl
def test_no_first_picture_of_any_task_shows_anything_of_the_episode_before(renderer: Renderer) -> None:
    found = first_pictures(renderer, *MT50)
    assert [name for name, fresh, reused in found if fresh != reused] == []
    assert len(found) == 50


def test_state_and_one_hot_observations_have_the_declared_shapes(tmp_path: Path) -> None:
    source = tmp_path / "checks.py"
    source.write_text(
        "import numpy as np\n"
        "def act(observation):\n"
        "    assert sorted(observation) == ['observation.environment_state', 'observation.state',"
        " 'observation.task_one_hot', 'task']\n"
        "    assert observation['observation.state'].shape == (4,)\n"
        "    state = observation['observation.environment_state']\n"
        "    assert state.shape == (39,) and np.array_equal(state[:4], observation['observation.state'])\n"
        "    assert observation['observation.task_one_hot'].argmax() == 43 and observation['task']\n"
        "    return np.zeros((100, 4))\n"
    )
    result = proctor.evaluate(
        f"{source}:act", task="reach-v3", n_episodes=1, output_dir=tmp_path / "run", display="none",
        env={"obs_type": "state", "one_hot": True},
    )  # fmt: skip
    assert result.complete


def test_the_benchmark_object_touches_no_simulator() -> None:
    script = (
        "import sys\n"
        "from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings\n"
        "MetaWorld(MetaWorldSettings(type='metaworld', task='mt50')).tasks()\n"
        "print(*{'mujoco', 'metaworld', 'gymnasium', 'torch', 'OpenGL'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_set_but_broken_gl_is_refused_with_the_command_that_mends_it(tmp_path: Path) -> None:
    done = run_cli("eval", *metaworld_flags(tmp_path / "run"), extra_env={"MUJOCO_GL": "osmosis"})
    assert done.returncode == 2
    assert "MUJOCO_GL=osmosis" in done.stderr
    assert "apt-get install" in done.stderr


def test_without_gl_videos_are_left_out_and_the_run_goes_on(tmp_path: Path) -> None:
    tree = {
        "policy": {"type": "expert"},
        "env": {"type": "metaworld", "task": "reach-v3"},
        "eval": {"n_episodes": 1, "max_episodes_rendered": 1},
        "output_dir": str(tmp_path / "run"),
        "display": "plain",
    }
    done = run_cli("eval", *flags(tree), extra_env={"MUJOCO_GL": "osmosis"})
    assert done.returncode == 0, done.stderr
    assert "no videos" in done.stdout
    assert not (tmp_path / "run" / "videos").exists()
