"""What is known of LIBERO without LIBERO: its flags, tasks, features, and how its files are found and read."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from libero_assets import make_assets
from proctor.benchmarks.libero.assets import find_assets, fingerprint
from proctor.benchmarks.libero.benchmark import MAX_STEPS, Libero, LiberoSettings, suites
from proctor.benchmarks.libero.installation import read_initial_states
from proctor.benchmarks.libero.simulator import axis_angle, robot_state
from proctor.config.load import settings_from_flags
from proctor.errors import SimulatorError, UsageError
from proctor.installation import install_command


def libero(**settings: Any) -> Libero:
    return Libero(LiberoSettings(type="libero", **settings))


def from_flags(*flags: str) -> Libero:
    parsed = settings_from_flags(["--policy.type=random", "--env.type=libero", *flags]).env
    return Libero(parsed)


def test_the_defaults_are_lerobots() -> None:
    benchmark = from_flags()
    tasks = benchmark.tasks()
    assert [task.group for task in tasks] == ["libero_10"] * 10
    assert [task.task_id for task in tasks] == list(range(10))
    assert {task.max_steps for task in tasks} == {520}
    assert {task.initial_states for task in tasks} == {50}
    spec = benchmark.spec
    assert list(spec.features) == ["observation.images.image", "observation.images.image2", "observation.state"]
    assert spec.features["observation.images.image"].shape == (360, 360, 3)
    assert spec.features["observation.state"].shape == (8,)
    assert (spec.action_size, spec.action_low, spec.action_high, benchmark.fps) == (7, -1.0, 1.0, 20)


@pytest.mark.parametrize(("suite", "steps"), MAX_STEPS.items())
def test_every_suite_has_its_tasks_and_lerobots_step_limit(suite: str, steps: int) -> None:
    tasks = libero(task=suite).tasks()
    assert len(tasks) == (90 if suite == "libero_90" else 10)
    assert {task.max_steps for task in tasks} == {steps}
    assert len({task.name for task in tasks}) == len(tasks)
    assert all(not any(sign in task.prompt for sign in "_.ABC") for task in tasks)


def test_tasks_are_chosen_by_suite_and_number() -> None:
    benchmark = from_flags("--env.task=libero_goal,libero_90", "--env.task_ids=[89,0,3]", "--env.episode_length=7")
    with pytest.raises(UsageError, match="task_ids=89: libero_goal has tasks 0 to 9"):
        benchmark.tasks()
    tasks = from_flags("--env.task=libero_goal,libero_spatial", "--env.task_ids=3,0,3").tasks()
    assert [(task.group, task.task_id) for task in tasks] == [
        ("libero_goal", 0),
        ("libero_goal", 3),
        ("libero_spatial", 0),
        ("libero_spatial", 3),
    ]
    assert tasks[0].prompt == "open the middle drawer of the cabinet"
    assert {task.max_steps for task in from_flags("--env.task_ids=4", "--env.episode_length=7").tasks()} == {7}
    assert {task.initial_states for task in from_flags("--env.init_states=false").tasks()} == {None}


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--env.task=libero_gaol", "Did you mean 'libero_goal'"),
        ("--env.task=,", "a task's name is empty"),
        ("--env.task_ids=-1", "libero_10 has tasks 0 to 9"),
        ("--env.task_ids=first", "--env.task_ids"),
        ("--env.camera_name=agentview", "Did you mean 'agentview_image'"),
        ("--env.camera_name=,", "--env.camera_name is empty"),
        ("--env.camera_name=frontview_image", "its pictures have no name"),
        ('--env.camera_name_mapping={"agent_view_image": "top"}', "Did you mean 'agentview_image'"),
        ('--env.camera_name_mapping={"agentview_image": "image2"}', "two pictures the same name"),
        ("--env.control_mode=both", "relative"),
        ("--env.obs_type=state", "pixels"),
        ("--env.episode_length=0", "at least 1"),
        ("--env.observation_height=0", "at least 1"),
    ],
)
def test_a_mistake_is_one_line(flag: str, words: str) -> None:
    def look() -> None:
        benchmark = from_flags(flag)
        assert benchmark.tasks()
        assert benchmark.spec

    with pytest.raises(UsageError, match=words):
        look()


def test_the_keys_follow_the_cameras_and_their_mapping() -> None:
    mapped = from_flags(
        "--env.camera_name=robot0_eye_in_hand_image, frontview_image",
        '--env.camera_name_mapping={"robot0_eye_in_hand_image": "wrist", "frontview_image": "front"}',
        "--env.obs_type=pixels",
    ).spec
    assert list(mapped.features) == ["observation.images.wrist", "observation.images.front"]
    assert "observation.state" in mapped.privileged
    # What a mapping leaves out keeps LeRobot's name.
    half = from_flags('--env.camera_name_mapping={"agentview_image": "top"}').spec
    assert list(half.features) == ["observation.images.top", "observation.images.image2", "observation.state"]


def test_planning_imports_no_simulator_and_no_gl() -> None:
    script = (
        "import sys\n"
        "from proctor.benchmarks.libero.benchmark import Libero, LiberoSettings\n"
        "b = Libero(LiberoSettings(type='libero', task='libero_90'))\n"
        "assert len(b.tasks()) == 90 and b.spec\n"
        "heavy = {'mujoco', 'robosuite', 'libero', 'torch', 'OpenGL', 'huggingface_hub', 'numba', 'gymnasium'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_without_the_package_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=re.escape(install_command("libero"))):
        libero().check_installed()


def pack(path: Path, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/version", "3")
    return path


@settings(deadline=None, max_examples=60)
@given(
    rows=arrays.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 9))),
    by_column=st.booleans(),
    protocol=st.integers(2, 4),
)
def test_initial_states_are_read_bit_for_bit(rows: Any, by_column: bool, protocol: int) -> None:
    array = np.asfortranarray(rows) if by_column else rows
    path = pack(Path(f"/tmp/proctor-states-{os.getpid()}.zip"), pickle.dumps(array, protocol))
    try:
        assert read_initial_states(path).tobytes() == rows.tobytes()
    finally:
        path.unlink()


class Malice:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/proctor-was-here",)


class Detour:
    def __reduce__(self) -> Any:
        return getattr, ("numpy", "upper")


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(Malice()),
        pickle.dumps([np.zeros((2, 2)), Malice()]),
        pickle.dumps(np.array([[Malice()]], dtype=object), 2),
        pickle.dumps(Detour()),
        pickle.dumps(np.zeros((2, 2), np.float32), 2),
        pickle.dumps(np.zeros((2, 2), np.dtype([("a", "f8")])), 2),
        pickle.dumps(np.zeros(3), 2),
        pickle.dumps(np.zeros((0, 3)), 2),
        pickle.dumps({"states": 1}),
        pickle.dumps(np.zeros((2, 2)), 2)[:-20],
        b"cos\nsystem\n(S'true'\ntR.",
        b"\x80\x02X\x01\x00\x00\x00aQ.",  # a persistent id
        b"",
    ],
)
def test_whatever_is_no_array_of_numbers_is_refused_and_nothing_runs(content: bytes, tmp_path: Path) -> None:
    witness = Path("/tmp/proctor-was-here")
    with pytest.raises(SimulatorError, match="are refused"):
        read_initial_states(pack(tmp_path / "task.pruned_init", content))
    assert not witness.exists()


@settings(deadline=None, max_examples=200)
@given(content=st.binary(max_size=80), tail=st.binary(max_size=40))
def test_damaged_files_are_refused_and_never_crash(content: bytes, tail: bytes) -> None:
    good = pickle.dumps(np.arange(6.0).reshape(2, 3), 2)
    path = Path(f"/tmp/proctor-damage-{os.getpid()}.zip")
    try:
        for damaged in (content, good[: len(content)] + content + good[len(content) * 2 :] + tail):
            pack(path, damaged)
            try:
                assert read_initial_states(path).dtype == np.float64
            except SimulatorError:
                continue
        path.write_bytes(content)
        with pytest.raises(SimulatorError):
            read_initial_states(path)
    finally:
        path.unlink()


def test_a_missing_file_of_initial_states_is_named(tmp_path: Path) -> None:
    with pytest.raises(SimulatorError, match="nowhere"):
        read_initial_states(tmp_path / "nowhere")


def test_the_state_is_position_axis_angle_and_fingers() -> None:
    half = np.sqrt(0.5)
    state = robot_state(np.array([1.0, 2, 3]), np.array([0, 0, half, half]), np.array([0.04, -0.04]))
    assert state.dtype == np.float32
    assert np.allclose(state, [1, 2, 3, 0, 0, np.pi / 2, 0.04, -0.04], atol=1e-6)
    assert np.array_equal(axis_angle(np.array([0.0, 0, 0, 1])), np.zeros(3))
    assert np.array_equal(axis_angle(np.array([0.0, 0, 0, 1.0000001])), np.zeros(3))
    # LeRobot does not take the short way round: a negative w is an angle beyond half a turn.
    assert np.allclose(axis_angle(np.array([0, 0, half, -half])), [0, 0, 1.5 * np.pi], atol=1e-5)


def test_assets_at_a_given_path_are_the_only_ones_looked_at(tmp_path: Path) -> None:
    tree = make_assets(tmp_path / "assets")
    assert find_assets(str(tree)) == tree
    with pytest.raises(UsageError, match="there are no LIBERO assets"):
        find_assets(str(tmp_path))


def test_a_fingerprint_follows_the_content_and_not_the_place(tmp_path: Path) -> None:
    one, two = make_assets(tmp_path / "one"), make_assets(tmp_path / "two")
    assert fingerprint(one) == fingerprint(two)
    (two / "README.md").write_text("from the hub")
    (two / ".cache").mkdir()
    (two / ".cache" / "lock").touch()
    assert fingerprint(one) == fingerprint(two)
    scene = two / "scenes" / "libero_tabletop_base_style.xml"
    text = scene.read_text()
    scene.write_text(text.replace("0.4", "0.5"))  # of the same length
    changed = fingerprint(two)
    assert changed != fingerprint(one)
    scene.write_text(text)
    (two / "textures" / "light-gray-plaster.png").write_bytes(b"another picture")
    assert fingerprint(two) not in (changed, fingerprint(one))


def test_the_table_lists_130_tasks() -> None:
    assert sum(map(len, suites().values())) == 130
