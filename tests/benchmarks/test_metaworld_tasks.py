"""All fifty tasks by name, list, group or set, numbered as LeRobot numbers them, with words for each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.benchmarks.metaworld.tasks import GROUPS, MAX_STEPS, MT50, OWN, load_prompts
from proctor.errors import EXIT_USAGE, UsageError
from proctor.plan import make_plan
from proctor.types import Task

# As LeRobot lists them, without -v3; the place in a group is the task's id.
LEROBOT = {
    "easy": (
        "button-press, button-press-topdown, button-press-topdown-wall, button-press-wall, coffee-button, "
        "dial-turn, door-close, door-lock, door-open, door-unlock, drawer-close, drawer-open, faucet-close, "
        "faucet-open, handle-press, handle-press-side, handle-pull, handle-pull-side, lever-pull, plate-slide, "
        "plate-slide-back, plate-slide-back-side, plate-slide-side, reach, reach-wall, window-close, window-open, "
        "peg-unplug-side"
    ),
    "medium": (
        "basketball, bin-picking, box-close, coffee-pull, coffee-push, hammer, peg-insert-side, push-wall, "
        "soccer, sweep, sweep-into"
    ),
    "hard": "assembly, hand-insert, pick-out-of-hole, pick-place, push, push-back",
    "very_hard": "shelf-place, disassemble, stick-pull, stick-push, pick-place-wall",
}
SIZES = {"easy": 28, "medium": 11, "hard": 6, "very_hard": 5}
MT10 = {
    "reach-v3", "push-v3", "pick-place-v3", "door-open-v3", "drawer-open-v3", "drawer-close-v3",
    "button-press-topdown-v3", "peg-insert-side-v3", "window-open-v3", "window-close-v3",
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_lerobot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts come from LeRobot where it is installed; here each test says whether it is."""
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not (Path(entry) / "lerobot").exists()])


def tasks(names: str, **settings: object) -> list[Task]:
    return list(MetaWorld(MetaWorldSettings(type="metaworld", task=names, **settings)).tasks())  # type: ignore[arg-type]


def complaint(names: str, **settings: object) -> str:
    with pytest.raises(UsageError) as caught:
        tasks(names, **settings)
    assert caught.value.exit_status == EXIT_USAGE
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("group", LEROBOT)
def test_a_difficulty_group_is_lerobots_in_lerobots_order(group: str) -> None:
    expected = [f"{name}-v3" for name in LEROBOT[group].split(", ")]
    assert len(expected) == SIZES[group]
    assert [(task.group, task.task_id, task.name) for task in tasks(group)] == [
        (group, number, name) for number, name in enumerate(expected)
    ]


def test_the_four_groups_are_the_fifty_tasks_each_once() -> None:
    together = [task.name for task in tasks("easy,medium,hard,very_hard")]
    assert len(together) == 50
    assert sorted(together) == sorted(task.name for task in tasks("mt50")) == sorted(MT50)


def test_mt10_is_meta_worlds() -> None:
    assert {task.name for task in tasks("mt10")} == MT10
    assert len(tasks("mt10")) == 10


def test_a_set_numbers_its_tasks_from_0() -> None:
    for name in GROUPS:
        assert [task.task_id for task in tasks(name)] == list(range(len(GROUPS[name])))


@pytest.mark.parametrize("name", MT50)
def test_every_task_can_be_named_and_is_then_its_own_group(name: str) -> None:
    (task,) = tasks(name)
    assert (task.group, task.task_id, task.name, task.max_steps) == (name, 0, name, 500)
    assert task.prompt


@pytest.mark.parametrize("names", ["push-v3,reach-v3", "push-v3, reach-v3", " push-v3 ,reach-v3,"])
def test_a_comma_list_keeps_its_order_and_forgives_spaces(names: str) -> None:
    assert [(task.group, task.task_id) for task in tasks(names)] == [("push-v3", 0), ("reach-v3", 0)]


def test_groups_and_tasks_may_be_mixed() -> None:
    assert [(task.group, task.task_id) for task in tasks("reach-v3,hard")] == [
        ("reach-v3", 0),
        *(("hard", number) for number in range(6)),
    ]


def test_lerobots_prefix_is_accepted() -> None:
    assert tasks("metaworld-push-v3") == tasks("push-v3")


@pytest.mark.parametrize("names", ["reach-v3,reach-v3", "easy,easy", "reach-v3,metaworld-reach-v3"])
def test_a_task_named_twice_is_refused_when_it_is_planned(names: str) -> None:
    with pytest.raises(UsageError, match="twice"):
        make_plan(tasks(names), 1, 0)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("reach-v2", "reach-v3"),
        ("reach", "reach-v3"),
        ("pick-plce-v3", "pick-place-v3"),
        ("esy", "easy"),
        ("veryhard", "very_hard"),
        ("mt-10", "mt10"),
        ("push_v3", "push-v3"),
    ],
)
def test_an_unknown_task_gets_the_nearest_right_name(wrong: str, meant: str) -> None:
    message = complaint(f"hammer-v3,{wrong}")
    assert f"--env.task={wrong}" in message
    assert f"Did you mean '{meant}'?" in message


@pytest.mark.parametrize("names", ["", " ", ","])
def test_no_task_at_all_gets_the_ways_to_name_some(names: str) -> None:
    message = complaint(names)
    assert "--env.task" in message
    for word in ("easy", "medium", "hard", "very_hard", "mt10", "mt50"):
        assert word in message


def test_the_step_limit_is_meta_worlds_unless_a_shorter_one_is_asked_for() -> None:
    assert {task.max_steps for task in tasks("mt50")} == {MAX_STEPS} == {500}
    assert {task.max_steps for task in tasks("hard", episode_length=120)} == {120}
    assert "500" in complaint("hard", episode_length=501)


# Prompts.


def test_every_task_has_words_of_its_own() -> None:
    assert set(OWN) == set(MT50)
    assert len(set(OWN.values())) == 50
    assert all(words == words.strip() and words for words in OWN.values())
    assert {task.name: task.prompt for task in tasks("mt50")} == OWN


def test_a_task_has_the_same_words_in_every_group() -> None:
    prompts = {
        task.prompt
        for names in ("reach-v3", "easy", "mt10", "mt50")
        for task in tasks(names)
        if task.name == "reach-v3"
    }
    assert len(prompts) == 1


def install_lerobot(place: Path, monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    """Lay out a LeRobot that must not be imported."""
    package = place / "lerobot"
    (package / "envs").mkdir(parents=True)
    for directory in (package, package / "envs"):
        (directory / "__init__.py").write_text("raise AssertionError('LeRobot was imported, which takes 13 s')\n")
    (package / "envs" / "metaworld_config.json").write_text(config)
    monkeypatch.syspath_prepend(place)


def test_lerobots_words_are_used_where_it_is_installed_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = '{"TASK_DESCRIPTIONS": {"reach-v3": "Reach a goal position", "unknown-v9": "?"}, "OTHER": {}}'
    install_lerobot(tmp_path, monkeypatch, config)
    prompts = load_prompts(None)
    assert prompts == {**OWN, "reach-v3": "Reach a goal position"}


@pytest.mark.parametrize("config", ["", "{}", "[]", '{"TASK_DESCRIPTIONS": null}'])
def test_a_lerobot_without_words_leaves_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    install_lerobot(tmp_path, monkeypatch, config)
    assert load_prompts(None) == OWN


def test_a_file_goes_over_ours_and_over_lerobots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = '{"TASK_DESCRIPTIONS": {"reach-v3": "theirs", "push-v3": "theirs"}}'
    install_lerobot(tmp_path, monkeypatch, config)
    file = tmp_path / "prompts.yaml"
    file.write_text(yaml.safe_dump({"reach-v3": "mine"}))
    found = {task.name: task.prompt for task in tasks("reach-v3,push-v3,hammer-v3", prompts=file)}
    assert found == {"reach-v3": "mine", "push-v3": "theirs", "hammer-v3": OWN["hammer-v3"]}


def test_an_unknown_task_in_the_file_gets_the_nearest_right_name(tmp_path: Path) -> None:
    file = tmp_path / "prompts.yaml"
    file.write_text(yaml.safe_dump({"reach-v2": "mine"}))
    message = complaint("reach-v3", prompts=file)
    assert f"--env.prompts={file}" in message
    assert "Did you mean 'reach-v3'?" in message


@pytest.mark.parametrize("text", ["- a", "text", "a: ["])
def test_a_file_that_holds_no_prompts_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prompts.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=f"--env.prompts={file}"):
        tasks("reach-v3", prompts=file)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert f"--env.prompts={tmp_path}/none.yaml" in complaint("reach-v3", prompts=tmp_path / "none.yaml")


# Cheap to make.


def test_naming_tasks_imports_no_simulator_no_gl_and_no_torch() -> None:
    code = (
        "import sys\n"
        "from proctor.benchmarks.metaworld.benchmark import *\n"
        "benchmark = MetaWorld(MetaWorldSettings(type='metaworld', task='mt50'))\n"
        "assert len(benchmark.tasks()) == 50\n"
        "benchmark.spec, benchmark.distributions()\n"
        "heavy = {'metaworld', 'mujoco', 'gymnasium', 'torch', 'OpenGL', 'glfw', 'yaml'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_task_list_is_meta_worlds_own_as_installed() -> None:
    # Read, not imported: importing it loads MuJoCo.
    from importlib import metadata

    try:
        files = metadata.files("metaworld") or []
    except metadata.PackageNotFoundError:
        pytest.skip("Meta-World is not installed")
    (env_dict,) = [file for file in files if str(file) == "metaworld/env_dict.py"]
    source = env_dict.read_text()
    assert all(f'"{name}"' in source for name in MT50)


# What a policy sees, by obs_type.


@pytest.mark.parametrize(
    ("obs_type", "shapes"),
    [
        ("state", {"observation.state": (4,), "observation.environment_state": (39,)}),
        ("pixels", {"observation.image": (480, 480, 3)}),
        ("pixels_agent_pos", {"observation.image": (480, 480, 3), "observation.state": (4,)}),
    ],
)
def test_each_obs_type_offers_its_keys(obs_type: str, shapes: dict[str, tuple[int, ...]]) -> None:
    spec = MetaWorld(MetaWorldSettings(task="reach-v3", obs_type=obs_type)).spec  # type: ignore[arg-type]
    assert {key: feature.shape for key, feature in spec.features.items()} == shapes
    assert {key for key, feature in spec.features.items() if feature.drawn} == {
        "observation.image"
    } & shapes.keys()
    assert (spec.action_size, spec.action_low, spec.action_high) == (4, -1.0, 1.0)


def test_the_one_hot_task_comes_on_request_only() -> None:
    plain = MetaWorld(MetaWorldSettings(task="reach-v3", obs_type="state")).spec
    asked = MetaWorld(MetaWorldSettings(task="reach-v3", obs_type="state", one_hot=True)).spec
    (key,) = asked.features.keys() - plain.features.keys()
    assert asked.features[key].shape == (50,)


def test_the_size_of_a_video_does_not_change_what_the_policy_sees() -> None:
    plain = MetaWorld(MetaWorldSettings(task="reach-v3")).spec
    other = MetaWorld(MetaWorldSettings(task="reach-v3", visualization_width=64, visualization_height=32)).spec
    assert plain == other


def test_the_observation_size_is_height_by_width() -> None:
    spec = MetaWorld(MetaWorldSettings(task="reach-v3", observation_height=32, observation_width=64)).spec
    assert spec.features["observation.image"].shape == (32, 64, 3)


def test_the_one_gymnasium_that_refuses_meta_world_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = MetaWorld(MetaWorldSettings(task="reach-v3"))
    benchmark.check_installed()
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1.1.0")
    with pytest.raises(UsageError, match=r"gymnasium 1\.1\.0 refuses .* Run: pip install -U gymnasium"):
        benchmark.check_installed()
