"""One simulator in this process: success both ways, errors in place of hangs, and what is freed."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from libero_assets import ARTICULATED, IN_A_DRAWER, PICK_AND_PLACE
from proctor.benchmarks.libero.benchmark import Libero, LiberoSettings
from proctor.benchmarks.libero.simulator import LiberoSimulator, axis_angle
from proctor.benchmarks.protocol import layout_of
from proctor.errors import SimulatorError
from proctor.types import NO_LOOK, STATE, Episode, Task

IDLE = np.array([0, 0, 0, 0, 0, 0, -1], np.float32)
IMAGE, WRIST = "observation.images.image", "observation.images.image2"


def benchmark_of(assets: Path, task: tuple[str, int], **settings: Any) -> tuple[Libero, Task]:
    small = {"observation_height": 48, "observation_width": 64, **settings}
    benchmark = Libero(
        LiberoSettings(type="libero", task=task[0], task_ids=(task[1],), assets_path=str(assets), **small)
    )
    return benchmark, benchmark.tasks()[0]


def make(assets: Path, task: tuple[str, int], **settings: Any) -> tuple[LiberoSimulator, Episode]:
    benchmark, chosen = benchmark_of(assets, task, **settings)
    simulator = benchmark.make_simulator(chosen)
    assert isinstance(simulator, LiberoSimulator)
    return simulator, Episode(chosen, 0, 1000)


def test_actions_are_clipped_as_the_controller_would(assets: Path) -> None:
    """What is executed, recorded and hashed is the clipped action: nothing may depend on the rest of it."""
    wild = np.random.default_rng(3).normal(size=(25, 7)).astype(np.float32) * 3
    for mode, clips in (("relative", True), ("absolute", False)):
        benchmark, _ = benchmark_of(assets, PICK_AND_PLACE, control_mode=mode)
        assert benchmark.spec.clips_actions == clips
    played = []
    simulator, episode = make(assets, PICK_AND_PLACE)
    spec = benchmark_of(assets, PICK_AND_PLACE)[0].spec
    assert np.abs(spec.executed(wild)).max() == 1.0
    for actions in (wild, spec.executed(wild)):
        simulator.reset(episode, NO_LOOK)
        outcomes = [simulator.step(action, NO_LOOK) for action in actions]
        played.append((outcomes, simulator._world.sim.get_state().flatten().tobytes()))
    simulator.close()
    assert played[0] == played[1]


@pytest.fixture(scope="module")
def bowl(assets: Path) -> Iterator[tuple[LiberoSimulator, Episode]]:
    simulator, episode = make(assets, PICK_AND_PLACE)
    yield simulator, episode
    simulator.close()


def test_a_bowl_on_the_plate_is_a_success_that_ends_the_episode(bowl: tuple[LiberoSimulator, Episode]) -> None:
    simulator, episode = bowl
    simulator.reset(episode, NO_LOOK)
    outcome = simulator.step(IDLE, NO_LOOK)
    assert (outcome.reward, outcome.success, outcome.terminated, outcome.truncated) == (0.0, False, False, False)
    world = simulator._world
    plate = world.sim.data.get_joint_qpos(world.objects_dict["plate_1"].joints[-1])
    above = [plate[0], plate[1], plate[2] + 0.02, 1, 0, 0, 0]
    world.sim.data.set_joint_qpos(world.objects_dict["akita_black_bowl_1"].joints[-1], np.array(above))
    outcomes = [simulator.step(IDLE, NO_LOOK) for _ in range(20)]
    assert (outcomes[-1].reward, outcomes[-1].success, outcomes[-1].terminated) == (1.0, True, True)
    simulator.reset(episode, NO_LOOK)  # after a success
    assert not simulator.step(IDLE, NO_LOOK).success


def test_an_episode_says_where_the_objects_lie_that_the_world_has_placed(
    bowl: tuple[LiberoSimulator, Episode],
) -> None:
    simulator, episode = bowl
    found = []
    for index in (0, 1, 0):
        simulator.reset(Episode(episode.task, index, 1000 + index), NO_LOOK)
        world, layout = simulator._world, layout_of(simulator)
        assert layout.pop("initial_state") == index
        assert len(layout) == 2 * len(world.objects_dict) >= 4
        for name in world.objects_dict:
            body = world.sim.data.body_xpos[world.obj_body_id[name]]
            assert np.allclose([layout[f"{name}_x"], layout[f"{name}_y"]], body[:2], atol=1e-3)
        found.append(layout)
    assert found[0] == found[2] != found[1]


def test_an_open_drawer_is_a_success_and_a_closed_one_is_not(assets: Path) -> None:
    simulator, episode = make(assets, ARTICULATED)
    simulator.reset(episode, NO_LOOK)
    joints = simulator._world.fixtures_dict["wooden_cabinet_1"].joints
    middle, top = (next(joint for joint in joints if level in joint) for level in ("middle_level", "top_level"))
    assert not simulator.step(IDLE, NO_LOOK).success
    simulator._world.sim.data.set_joint_qpos(top, -0.15)
    assert not simulator.step(IDLE, NO_LOOK).success  # another drawer
    simulator._world.sim.data.set_joint_qpos(middle, -0.15)
    outcome = simulator.step(IDLE, NO_LOOK)
    assert (outcome.reward, outcome.success, outcome.terminated) == (1.0, True, True)
    simulator._world.sim.data.set_joint_qpos(middle, 0.0)
    assert not simulator.step(IDLE, NO_LOOK).success
    simulator.close()


def test_only_what_a_look_names_is_drawn_and_a_frame_is_drawn_once(
    bowl: tuple[LiberoSimulator, Episode], monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator, episode = bowl
    from robosuite.utils.binding_utils import MjSim

    drawn: list[str] = []
    draw = MjSim.render

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        drawn.append(options["camera_name"])
        return draw(self, *args, **options)

    monkeypatch.setattr(MjSim, "render", counted)
    simulator.reset(episode, NO_LOOK)
    for _ in range(12):
        simulator.step(IDLE, NO_LOOK)
    assert drawn == []
    simulator.step(IDLE, frozenset({WRIST, STATE}))
    assert drawn == ["robot0_eye_in_hand"]
    assert set(simulator.observe()) == {WRIST, STATE}
    simulator.step(IDLE, frozenset({IMAGE}))
    frame, again = simulator.render(), simulator.render()
    assert drawn == ["robot0_eye_in_hand", "agentview"]  # what the policy looked at is the video's frame
    assert np.array_equal(frame, simulator.observe()[IMAGE])
    assert np.array_equal(frame, again)
    simulator.step(IDLE, NO_LOOK)
    assert simulator.render().shape == (48, 64, 3)
    assert np.array_equal(simulator.render(), simulator.render())
    assert drawn == ["robot0_eye_in_hand", "agentview", "agentview"]
    simulator.reset(episode, frozenset({IMAGE, WRIST}))
    assert drawn[3:] == ["agentview", "robot0_eye_in_hand"]


def test_cameras_take_the_names_of_the_mapping_and_the_first_is_for_videos(assets: Path) -> None:
    mapping = {"robot0_eye_in_hand_image": "wrist", "birdview_image": "above"}
    simulator, episode = make(
        assets,
        PICK_AND_PLACE,
        camera_name="robot0_eye_in_hand_image,birdview_image",
        camera_name_mapping=mapping,
    )
    keys = frozenset({"observation.images.wrist", "observation.images.above"})
    simulator.reset(episode, keys)
    seen = simulator.observe()
    assert set(seen) == keys
    assert np.array_equal(simulator.render(), seen["observation.images.wrist"])
    assert not np.array_equal(seen["observation.images.wrist"], seen["observation.images.above"])
    simulator.close()


def test_absolute_actions_say_where_the_hand_shall_be(assets: Path) -> None:
    from robosuite.utils.transform_utils import mat2quat

    ends = {}
    for mode in ("relative", "absolute"):
        simulator, episode = make(assets, PICK_AND_PLACE, control_mode=mode)
        simulator.reset(episode, frozenset({STATE}))
        begin = simulator.observe()[STATE]
        turned = axis_angle(mat2quat(simulator._world.robots[0].controller.ee_ori_mat))
        goal = np.array([*begin[:3], *turned, -1], np.float32)
        goal[0] += 0.1
        for _ in range(20):
            simulator.step(goal, frozenset({STATE}))
        ends[mode] = simulator.observe()[STATE][:3] - begin[:3]
        simulator.close()
    assert np.allclose(ends["absolute"], [0.1, 0, 0], atol=0.02)
    assert not np.allclose(ends["relative"], ends["absolute"], atol=0.05)


def test_without_initial_states_the_seed_places_everything(assets: Path) -> None:
    simulator, episode = make(assets, PICK_AND_PLACE, init_states=False)
    assert episode.task.initial_states is None
    places = []
    for seed in (1000, 1001, 1000):
        simulator.reset(Episode(episode.task, 0, seed), NO_LOOK)
        places.append(simulator._world.sim.get_state().flatten())
    assert np.array_equal(places[0], places[2])
    assert not np.array_equal(places[0], places[1])
    simulator.close()


def test_closing_frees_the_gl_context_and_two_simulators_draw_side_by_side(
    bowl: tuple[LiberoSimulator, Episode], assets: Path
) -> None:
    simulator, episode = bowl
    look = frozenset({IMAGE, WRIST})
    simulator.reset(episode, look)
    alone = simulator.observe()
    other, its_episode = make(assets, ARTICULATED)
    other.reset(its_episode, look)
    simulator.step(IDLE, look)
    simulator.reset(episode, look)
    assert all(np.array_equal(simulator.observe()[key], alone[key]) for key in look)
    context = weakref.ref(other._world.sim._render_context_offscreen)
    gl = context().gl_ctx  # type: ignore[union-attr]
    other.close()
    other.close()  # again does no harm
    gc.collect()
    assert context() is None
    assert gl._context is None
    simulator.reset(episode, look)
    assert all(np.array_equal(simulator.observe()[key], alone[key]) for key in look)


def test_objects_that_cannot_be_placed_are_an_error_and_no_endless_loop(assets: Path, tmp_path: Path) -> None:
    tree = tmp_path / "assets"
    shutil.copytree(assets, tree)
    cabinet = tree / "articulated_objects" / "wooden_cabinet.xml"
    # So wide that nothing finds room in its drawer: LIBERO opens a debugger there, then tries again, for ever.
    cabinet.write_text(cabinet.read_text().replace('pos="0.05 0.05 0"', 'pos="0.5 0.5 0"'))
    with pytest.raises(SimulatorError, match="found no room for the objects of pick_up_the_black_bowl_in_the_top"):
        make(tree, IN_A_DRAWER)


def test_assets_of_another_world_are_told_from_the_initial_state(assets: Path, tmp_path: Path) -> None:
    tree = tmp_path / "assets"
    shutil.copytree(assets, tree)
    cabinet = tree / "articulated_objects" / "wooden_cabinet.xml"
    stuck = cabinet.read_text().replace('<joint name="bottom_level"', '<joint name="extra" type="hinge"/><joint')
    cabinet.write_text(stuck.replace("<joint type=", '<joint name="bottom_level" type='))
    simulator, episode = make(tree, PICK_AND_PLACE)
    with pytest.raises(SimulatorError, match="has 92 numbers, but the world that its assets make has 94"):
        simulator.reset(episode, NO_LOOK)
    simulator.close()


def test_a_missing_mesh_is_an_error_that_names_the_file(assets: Path, tmp_path: Path) -> None:
    tree = tmp_path / "assets"
    shutil.copytree(assets, tree)
    (tree / "stable_scanned_objects" / "plate" / "plate.xml").unlink()
    with pytest.raises(FileNotFoundError, match=r"plate\.xml"):
        make(tree, PICK_AND_PLACE)


@pytest.mark.parametrize("devices", ["", "GPU-8f1b2c3d", "7"])
def test_hidden_gpus_do_not_keep_software_from_drawing(devices: str, assets: Path) -> None:
    script = (
        "import sys\n"
        "from proctor.benchmarks.libero.benchmark import Libero, LiberoSettings\n"
        "benchmark = Libero(LiberoSettings(type='libero', task='libero_goal', assets_path=sys.argv[1]))\n"
        "benchmark.make_simulator(benchmark.tasks()[0]).close()\n"
    )
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": devices}
    subprocess.run([sys.executable, "-c", script, str(assets)], env=env, check=True, stdin=subprocess.DEVNULL)


def test_nothing_is_asked_on_standard_input_and_nothing_is_written_at_home(assets: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from proctor.benchmarks.libero.installation import import_libero\n"
        "envs = import_libero(Path(sys.argv[1]))\n"
        "from libero.libero import get_assets_path, get_libero_path\n"
        "assert get_assets_path() == sys.argv[1]\n"
        "assert Path(get_libero_path('bddl_files')).is_dir()\n"
        "assert 'torch' not in sys.modules\n"
    )
    home = tmp_path / "home: with #signs"
    home.mkdir()
    env = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(tmp_path / "cache: #1")}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(assets)],
            env=env,
            stdin=subprocess.PIPE,  # open, and nobody writes: a question would wait for ever
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.wait(timeout=120) == 0, process.stdout and process.stdout.read()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        assert "(Y/N)" not in process.stdout.read()
        process.stdout.close()
    assert not (home / ".libero").exists()
    [directory] = (tmp_path / "cache: #1" / "proctor").iterdir()
    assert [path.name for path in directory.iterdir()] == ["config.yaml"]
