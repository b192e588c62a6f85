"""Flags, YAML and Python values become the same settings, or one clear line about what is wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.benchmarks.metaworld.benchmark import MetaWorldSettings
from proctor.config.combinations import chosen_videos
from proctor.config.load import SECTIONS, build_settings, known_names, section_classes, settings_from_flags
from proctor.config.plain_values import to_plain
from proctor.config.settings import MOST_EPISODES, EvalConfig, LimitSettings, PolicySettings, Settings
from proctor.errors import EXIT_USAGE, UsageError
from proctor.policies.python import PythonPolicySettings
from proctor.store.run_directory import RunDirectory
from proctor.types import NO_VIDEOS, VideoChoice

BASE = ("--policy.type=zero", "--env.type=metaworld", "--env.task=reach-v3")


def tree(**sections: dict[str, Any]) -> dict[str, Any]:
    """Return a small valid tree with sections added to or over it."""
    whole: dict[str, Any] = {"policy": {"type": "zero"}, "env": {"type": "metaworld", "task": "reach-v3"}}
    for name, values in sections.items():
        whole[name] = {**whole.get(name, {}), **values}
    return whole


def complaint(*arguments: str) -> str:
    """Return the one line that a user gets for a wrong command line."""
    with pytest.raises(UsageError) as caught:
        settings_from_flags(arguments)
    assert caught.value.exit_status == EXIT_USAGE == 2
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_flags_become_typed_settings_of_the_benchmark_and_the_policy() -> None:
    found = settings_from_flags(
        [
            *BASE,
            "--env.obs_type=state",
            "--env.one_hot=true",
            "--eval.n_episodes=7",
            "--eval.use_async_envs",
            "--limits.step=2.5",
            "--seed=3",
            "--output_dir=runs/x",
        ]
    )
    assert found == Settings(
        policy=PolicySettings(type="zero"),
        env=MetaWorldSettings(type="metaworld", task="reach-v3", obs_type="state", one_hot=True),
        eval=EvalConfig(n_episodes=7, use_async_envs=True),
        limits=LimitSettings(step=2.5),
        seed=3,
        output_dir=Path("runs/x"),
    )


def test_the_defaults_are_lerobots() -> None:
    found = settings_from_flags(BASE)
    assert (found.seed, found.eval.n_episodes, found.eval.batch_size) == (1000, 50, 0)
    assert isinstance(found.env, MetaWorldSettings)
    assert (found.env.camera_name, found.env.observation_height, found.env.observation_width) == (
        "corner2",
        480,
        480,
    )


@pytest.mark.parametrize(
    "name",
    [
        "policy.type", "policy.path", "env.type", "env.task", "env.max_parallel_tasks", "env.obs_type",
        "env.camera_name", "env.observation_height", "env.observation_width", "env.visualization_height",
        "env.visualization_width", "eval.n_episodes", "eval.batch_size", "eval.use_async_envs",
        "eval.max_episodes_rendered", "seed", "output_dir", "job_name", "tags", "description", "notes", "resume",
    ],
)  # fmt: skip
def test_the_names_that_people_type_for_lerobot_and_in_our_manual_are_flags(name: str) -> None:
    assert name in known_names(section_classes(tree()))


def test_spellings_make_no_difference_to_the_settings() -> None:
    expected = settings_from_flags([*BASE, "--eval.n_episodes=3", "--eval.use_async_envs=false"])
    for line in (
        ["--eval.n_episodes", "3", "--eval.use_async_envs", "false"],
        ["eval.n_episodes=3", "eval.use_async_envs=false"],
        ["--eval.n-episodes=3", "--eval.use-async-envs", "no"],
        ["eval.n-episodes=3", "eval.use-async-envs=off"],
    ):
        assert settings_from_flags([*BASE, *line]) == expected


def test_a_policy_path_alone_means_a_python_policy() -> None:
    found = settings_from_flags([*BASE[1:], "--policy.path=my.py:Mine", "--policy.kwargs.size=3"])
    assert found.policy == PythonPolicySettings(
        type="python", path=f"{Path('my.py').absolute()}:Mine", kwargs={"size": 3}
    )


def test_constructor_arguments_given_as_flags_are_read_as_yaml() -> None:
    found = settings_from_flags(
        [
            *BASE[1:],
            "--policy.path=my.py:Mine",
            "--policy.kwargs.a=0.5",
            "--policy.kwargs.b=[1, x]",
            "policy.kwargs.c=yes",
        ]
    )
    assert isinstance(found.policy, PythonPolicySettings)
    assert found.policy.kwargs == {"a": 0.5, "b": [1, "x"], "c": True}


def test_constructor_arguments_may_be_nested_and_are_kept_in_the_config(tmp_path: Path) -> None:
    found = settings_from_flags(
        [*BASE[1:], "--policy.path=my.py:Mine", "--policy.kwargs.net.width=64", "policy.kwargs.net.name=mlp"]
    )
    assert isinstance(found.policy, PythonPolicySettings)
    assert found.policy.kwargs == {"net": {"width": 64, "name": "mlp"}}
    assert settings_from_flags([f"--config_path={written(tmp_path, found)}"]) == found


def test_text_given_in_python_or_yaml_stays_text() -> None:
    given_tree = tree(policy={"type": "python", "path": "my.py:Mine", "kwargs": {"version": "1", "name": "no"}})
    found = build_settings(given_tree)
    assert isinstance(found.policy, PythonPolicySettings)
    assert found.policy.kwargs == {"version": "1", "name": "no"}


@pytest.mark.parametrize("word", ["none", "None", "null"])
def test_none_unsets_what_may_be_absent(word: str) -> None:
    assert settings_from_flags([*BASE, f"--job_name={word}"]).job_name is None


# Wrong names.


@pytest.mark.parametrize(
    ("flag", "meant"),
    [
        ("--eval.n_episode=5", "--eval.n_episodes"),
        ("--eval.batchsize=5", "--eval.batch_size"),
        ("--env.camera=corner", "--env.camera_name"),
        ("--policy.placment=auto", "--policy.placement"),
        ("--limits.setp=1", "--limits.step"),
        ("--sed=1", "--seed"),
        ("--config_pth=x.yaml", "--config_path"),
        ("--outputdir=x", "--output_dir"),
        ("--evl.n_episodes=5", "--eval.n_episodes"),
    ],
)
def test_a_mistyped_flag_gets_the_nearest_right_one(flag: str, meant: str) -> None:
    message = complaint(*BASE, flag)
    assert flag.partition("=")[0] in message
    assert f"Did you mean '{meant}'?" in message


def test_a_flag_like_no_other_gets_the_way_to_the_help() -> None:
    message = complaint(*BASE, "--qqqq.zzzz=1")
    assert "--qqqq.zzzz" in message
    assert "Did you mean" not in message
    assert "proctor eval --help" in message


@pytest.mark.parametrize("flag", ["--seed.x=1", "--eval.n_episodes.x=1", "--env.task.name=reach-v3"])
def test_a_name_inside_a_plain_value_is_refused(flag: str) -> None:
    assert flag.partition("=")[0] in complaint(*BASE, flag)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_is_no_value(section: str) -> None:
    others = [flag for flag in BASE if not flag.startswith(f"--{section}.")]
    message = complaint(*others, f"--{section}=5")
    assert f"--{section}" in message


# Wrong values.


@pytest.mark.parametrize(
    ("flag", "meant"),
    [
        ("--env.obs_type=pixel", "pixels"),
        ("--env.camera_name=conrer2", "corner2"),
        ("--policy.placement=workers", "worker"),
        ("--display=liv", "live"),
        ("--policy.type=exprt", "expert"),
        ("--policy.type=randm", "random"),
        ("--env.type=metawrold", "metaworld"),
    ],
)
def test_a_mistyped_choice_gets_the_nearest_right_one(flag: str, meant: str) -> None:
    message = complaint(*BASE, flag)
    assert flag in message
    assert f"Did you mean '{meant}'?" in message


@pytest.mark.parametrize(
    "flag",
    [
        "--eval.n_episodes=ten",
        "--eval.n_episodes=0",
        "--eval.n_episodes=2.5",
        "--eval.batch_size=-1",
        "--eval.use_async_envs=perhaps",
        "--eval.max_attempts=0",
        "--env.observation_height=0",
        "--env.episode_length=0",
        "--limits.step=0",
        "--limits.step=-1",
        "--limits.step=nan",
        "--limits.act=soon",
        "--seed=-1",
        "--seed=",
    ],
)
def test_a_value_out_of_its_range_or_kind_is_refused_with_its_flag(flag: str) -> None:
    message = complaint(*BASE, flag)
    assert flag in message
    assert "must be" in message


def test_several_wrong_values_still_give_one_line() -> None:
    message = complaint(*BASE, "--eval.n_episodes=0", "--eval.batch_size=x", "--seed=-1")
    assert "must be" in message


def test_a_missing_benchmark_gets_the_known_ones() -> None:
    message = complaint("--policy.type=zero", "--env.task=reach-v3")
    assert "--env.type" in message
    assert "metaworld" in message


def test_a_missing_policy_gets_the_ways_to_name_one() -> None:
    message = complaint(*BASE[1:])
    for way in ("--policy.type=", "--policy.path=", "expert", "random", "zero"):
        assert way in message


def test_a_policy_path_that_is_neither_file_nor_module_is_refused() -> None:
    assert "--policy.path=checkpoint" in complaint(*BASE[1:], "--policy.path=checkpoint")


@pytest.mark.parametrize(
    "flag", ["--env.type=json:loads", "--policy.type=json:loads", "--env.type=no_such_module:Thing"]
)
def test_something_that_is_no_benchmark_or_policy_is_refused_with_its_name(flag: str) -> None:
    assert flag.partition("=")[2].partition(":")[0] in complaint(*BASE, flag)


@pytest.mark.parametrize(
    "flag",
    [
        "--policy.type=proctor.benchmarks.metaworld.benchmark:MetaWorld",
        "--env.type=proctor.policies.baselines:ExpertPolicy",
    ],
)
def test_a_benchmark_is_no_policy_and_a_policy_is_no_benchmark(flag: str) -> None:
    with pytest.raises(UsageError, match=f"{flag} is no (policy|benchmark): its Settings are no"):
        settings_from_flags(["--policy.type=expert", "--env.type=metaworld", "--env.task=reach-v3", flag])


# YAML files.


def test_a_yaml_file_gives_settings_and_flags_go_over_it(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(tree(eval={"n_episodes": 3, "batch_size": 2}) | {"seed": 5}))
    found = settings_from_flags([f"--config_path={file}", "--eval.n_episodes=4"])
    assert found == settings_from_flags([*BASE, "--eval.n_episodes=4", "--eval.batch_size=2", "--seed=5"])


@pytest.mark.parametrize("flag", ["--config_path={}", "--config-path={}", "config_path={}"])
def test_the_file_may_be_named_in_every_spelling(tmp_path: Path, flag: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(tree()))
    assert settings_from_flags([flag.format(file)]) == settings_from_flags(BASE)


def test_an_empty_section_of_a_file_is_its_defaults(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("policy: {type: zero}\nenv: {type: metaworld, task: reach-v3}\neval:\nlimits:\n")
    assert settings_from_flags([f"--config_path={file}"]) == settings_from_flags(BASE)


@pytest.mark.parametrize(
    "text",
    [
        "- a list",
        "just text",
        "env: [",
        "",
        "eval: 5",
        "nonsense: 1",
        "1: 2",
        "config_path: other.yaml",
        "seed: [1]",
    ],
)
def test_a_file_that_holds_no_settings_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(UsageError):
        settings_from_flags([f"--config_path={file}", *BASE])


def test_a_file_that_is_not_there_is_refused_with_its_path(tmp_path: Path) -> None:
    assert f"{tmp_path}/none.yaml" in complaint(f"--config_path={tmp_path}/none.yaml", *BASE)


# A run directory's own config.yaml.


def written(directory: Path, found: Settings) -> Path:
    RunDirectory(directory).write_config(to_plain(found))
    return directory / "config.yaml"


def test_the_config_that_a_run_writes_starts_a_run_of_its_own(tmp_path: Path) -> None:
    found = settings_from_flags([*BASE, "--eval.n_episodes=3", f"--output_dir={tmp_path}"])
    again = settings_from_flags([f"--config_path={written(tmp_path, found)}"])
    assert again == dataclasses.replace(found, output_dir=None)


def test_an_empty_resume_in_a_file_resumes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump({**tree(), "resume": None}))
    assert settings_from_flags([f"--config_path={file}"]) == settings_from_flags(BASE)


def test_resuming_takes_the_runs_own_settings_and_its_present_place(tmp_path: Path) -> None:
    found = settings_from_flags([*BASE, "--eval.n_episodes=3", "--output_dir=/somewhere/else"])
    written(tmp_path, found)
    resumed = settings_from_flags([f"--resume={tmp_path}", "--eval.batch_size=4"])
    assert resumed == dataclasses.replace(
        found,
        eval=dataclasses.replace(found.eval, batch_size=4),
        output_dir=tmp_path,
        resume=tmp_path,
    )


def test_a_resumed_run_can_be_resumed_again(tmp_path: Path) -> None:
    written(tmp_path, settings_from_flags(BASE))
    once = settings_from_flags([f"--resume={tmp_path}"])
    written(tmp_path, once)
    assert settings_from_flags([f"--resume={tmp_path}"]) == once


def test_resuming_from_a_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    message = complaint(f"--resume={tmp_path}")
    assert str(tmp_path) in message
    assert "no run" in message


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["--eval.video=failures"], VideoChoice(failures=True)),
        (["--eval.video=all"], VideoChoice(MOST_EPISODES)),
        (["--eval.video=3"], VideoChoice(3)),
        (["--eval.max_episodes_rendered=3"], VideoChoice(3)),
        (["--eval.max_episodes_rendered=3", "--eval.video=3"], VideoChoice(3)),
        (["--eval.max_episodes_rendered=0", "--eval.video=none"], NO_VIDEOS),
        ([], NO_VIDEOS),
    ],
)
def test_one_setting_says_what_is_filmed_and_lerobots_name_is_the_number(
    given: list[str], meant: VideoChoice
) -> None:
    found = settings_from_flags([*BASE, *given]).eval
    assert chosen_videos(found) == meant
    assert found.max_episodes_rendered is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--eval.video=failure"], "Did you mean 'failures'"),
        (["--eval.video=-1"], "must be failures, all, none, or a number"),
        (["--eval.max_episodes_rendered=-1"], "--eval.max_episodes_rendered=-1: must be at least 0"),
        (["--eval.video=failures", "--eval.max_episodes_rendered=3"], "LeRobot's name for --eval.video=3"),
        (["--eval.video=none", "--eval.max_episodes_rendered=3"], "Give one of them"),
    ],
)
def test_a_choice_of_videos_that_is_none_or_two_is_refused(given: list[str], words: str) -> None:
    assert words in complaint(*BASE, *given)


def test_a_flag_holds_above_what_the_run_was_asked_to_film_by_either_name(tmp_path: Path) -> None:
    written(tmp_path, settings_from_flags([*BASE, "--eval.video=failures"]))
    for flag in ("--eval.max_episodes_rendered=2", "--eval.video=2"):
        assert settings_from_flags([f"--resume={tmp_path}", flag]).eval.video == "2"
    assert settings_from_flags([f"--resume={tmp_path}"]).eval.video == "failures"
    (tmp_path / "lerobots.yaml").write_text("eval: {max_episodes_rendered: 10}")
    given = [*BASE, f"--config_path={tmp_path / 'lerobots.yaml'}"]
    assert settings_from_flags(given).eval.video == "10"
    assert settings_from_flags([*given, "--eval.video=none"]).eval.video == "none"
    assert build_settings(tree(eval={"video": 2})).eval.video == "2"
    assert build_settings({**tree(), "eval": EvalConfig(max_episodes_rendered=2)}).eval.video == "2"


def test_resuming_one_directory_into_another_is_refused(tmp_path: Path) -> None:
    written(tmp_path, settings_from_flags(BASE))
    assert "--output_dir" in complaint(f"--resume={tmp_path}", "--output_dir=/elsewhere")


_CHOICES = {
    "stop_when": ("none", "ci<=0.05"),
    "until_better_than": ("none", "/runs/another"),
    "recording_repo_id": (None,),
    "video": ("failures", "all", "none", "3"),
    "max_episodes_rendered": (None,),  # it would be the same as video, or contradict it
    "only_success": (False,),  # it needs a recording
    "demonstrations": (0,),
    "noise": ("0", "0,0.1,0.5"),
    "noise_share": (0.0, 0.25, 1.0),
}


def _values(kind: type[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return strategies for valid values of a settings class, as a config.yaml may hold them."""
    made: dict[str, st.SearchStrategy[Any]] = {}
    for name, hint in get_type_hints(kind).items():
        if name in ("type", "path", "task", "prompts", "shard_id", "num_shards") or get_origin(hint) is ClassVar:
            continue
        if name == "python":
            made[name] = st.none() | st.just("/usr/bin/python3")
            continue
        if name in _CHOICES:
            made[name] = st.sampled_from(_CHOICES[name])
            continue
        if get_origin(hint) is Literal:
            made[name] = st.sampled_from(get_args(hint))
        elif hint is bool:
            made[name] = st.booleans()
        elif hint is int:
            made[name] = st.integers(1, 500)
        elif hint is float:
            made[name] = st.floats(0.001, 1e6)
        else:
            raise AssertionError(f"no strategy for {name}: {hint}")
    return st.fixed_dictionaries({}, optional=made)


@settings(deadline=None, max_examples=40)
@given(
    env=_values(MetaWorldSettings),
    run=_values(EvalConfig),
    limits=_values(LimitSettings),
    placement=_values(PolicySettings),
    seed=st.integers(0, 2**31),
    job_name=st.none() | st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=8),
)
def test_settings_survive_the_way_through_a_file(
    env: dict[str, Any],
    run: dict[str, Any],
    limits: dict[str, Any],
    placement: dict[str, Any],
    seed: int,
    job_name: str | None,
) -> None:
    whole = tree(env=env, eval=run, limits=limits, policy=placement) | {"seed": seed}
    if job_name is not None and job_name.lower() not in ("none", "null"):
        whole["job_name"] = job_name
    found = build_settings(whole)
    again = build_settings(yaml.safe_load(yaml.safe_dump(to_plain(found), allow_unicode=True)))
    assert again == found


@pytest.mark.parametrize("last", ["checkpoints/last", "last"])
def test_the_folder_of_a_training_is_no_checkpoint_and_its_last_one_is_named(last: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / last / "pretrained_model"
    checkpoint.mkdir(parents=True)
    (checkpoint / "config.json").write_text('{"type": "act"}')
    said = complaint(f"--policy.path={tmp_path}", *BASE[1:])
    assert said.endswith(f"this folder has checkpoints, but is none. Use --policy.path={checkpoint}")
