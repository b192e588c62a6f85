"""What may change between a run and its resume, what may not, and how a difference is told."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.benchmarks.metaworld.benchmark import MetaWorldSettings
from proctor.benchmarks.metaworld.tasks import GROUPS
from proctor.config.load import SECTIONS
from proctor.config.registry import BENCHMARKS, POLICIES, load_object
from proctor.config.settings import (
    EXECUTION,
    EnvSettings,
    PolicySettings,
    Settings,
)
from proctor.errors import EXIT_USAGE, IdentityError, UsageError
from proctor.identity import check_identity, identity_fields

HERE = Path("/runs/a")

leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=3)
identities = st.dictionaries(
    st.from_regex(r"[a-z]{1,3}", fullmatch=True),
    leaves | st.dictionaries(st.from_regex(r"[a-z]{1,3}", fullmatch=True), leaves, min_size=1, max_size=3),
    max_size=4,
)

EASY = GROUPS["easy"]


@dataclass(frozen=True, kw_only=True)
class OwnSettings(EnvSettings):
    friction: Annotated[float, "how hard it slides"] = 1.0
    unmarked: int = 0
    delay: Annotated[float, EXECUTION, "seconds a step takes"] = 0.0
    nested: Annotated[Annotated[int, EXECUTION], "marked on the inside"] = 0


def refusal(stored: dict[str, Any], wanted: dict[str, Any]) -> str:
    with pytest.raises(IdentityError) as caught:
        check_identity(stored, wanted, HERE)
    assert caught.value.exit_status == EXIT_USAGE
    return str(caught.value)


def test_everything_not_marked_as_execution_is_identity() -> None:
    assert identity_fields(OwnSettings(type="own", task="a", friction=2.0, delay=3.0)) == {
        "type": "own",
        "friction": 2.0,
        "unmarked": 0,
    }


@settings(deadline=None)
@given(delay=st.floats(0, 10), parallel=st.integers(0, 9), nested=st.integers())
def test_execution_settings_never_change_the_identity(delay: float, parallel: int, nested: int) -> None:
    changed = OwnSettings(delay=delay, max_parallel_tasks=parallel, nested=nested)
    assert identity_fields(changed) == identity_fields(OwnSettings())


@pytest.mark.parametrize("name", ["max_parallel_tasks", "visualization_height", "visualization_width"])
def test_open_tasks_and_the_size_of_videos_may_change_on_meta_world(name: str) -> None:
    values: dict[str, Any] = {name: 7}
    changed = dataclasses.replace(MetaWorldSettings(), **values)
    assert identity_fields(changed) == identity_fields(MetaWorldSettings())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("obs_type", "state"),
        ("camera_name", "corner"),
        ("observation_height", 64),
        ("observation_width", 64),
        ("one_hot", True),
        ("episode_length", 100),
        ("type", "other"),
    ],
)
def test_what_the_policy_sees_and_for_how_long_is_identity_on_meta_world(name: str, value: Any) -> None:
    before = MetaWorldSettings(type="metaworld", task="reach-v3")
    changed = dataclasses.replace(before, **{name: value})
    assert identity_fields(changed) == {**identity_fields(before), name: value}


def test_where_the_policy_runs_is_no_identity() -> None:
    fields = identity_fields(PolicySettings(type="zero", placement="worker"))
    assert "placement" not in fields
    assert fields["type"] == "zero"


@settings(deadline=None)
@given(identity=identities)
def test_an_identity_matches_itself(identity: dict[str, Any]) -> None:
    check_identity(identity, dict(identity), HERE)


@settings(deadline=None)
@given(identity=identities, data=st.data())
def test_any_change_is_refused_and_shown_by_its_dotted_name(identity: dict[str, Any], data: st.DataObject) -> None:
    changed = {key: dict(value) if isinstance(value, dict) else value for key, value in identity.items()}
    changed["seed"] = {"run": "as planned"}
    other = {key: dict(value) if isinstance(value, dict) else value for key, value in changed.items()}
    key = data.draw(st.sampled_from(sorted(changed)))
    if isinstance(changed[key], dict):
        inner = data.draw(st.sampled_from(sorted(changed[key])))
        name, other[key][inner] = f"{key}.{inner}", "something else"
    else:
        name, other[key] = key, "something else"
    message = refusal(changed, other)
    assert f"  {name}: the run has " in message
    assert "this command gives 'something else'" in message
    # The first line, one line per difference, and what to do.
    assert len(message.splitlines()) == 3


def test_all_differences_are_shown_with_both_values_and_the_directory() -> None:
    stored = {"seed": 1000, "env": {"obs_type": "state", "task": "easy"}, "cpu": "x"}
    message = refusal(stored, {"seed": 7, "env": {"obs_type": "pixels", "task": "easy"}, "cpu": "x"})
    assert str(HERE) in message
    assert "  seed: the run has 1000, this command gives 7" in message
    assert "  env.obs_type: the run has 'state', this command gives 'pixels'" in message
    assert "env.task" not in message
    assert "cpu" not in message
    assert "--output_dir" in message


def test_something_that_one_side_lacks_is_a_difference() -> None:
    assert "versions.mujoco" in refusal({"versions": {"mujoco": "3.3.0"}}, {"versions": {}})
    assert "renderer" in refusal({}, {"renderer": "llvmpipe"})


@pytest.mark.parametrize("kind", [list, ",".join])
def test_a_difference_at_the_end_of_a_long_value_is_shown(kind: Callable[[Sequence[str]], Any]) -> None:
    message = refusal({"task": kind(EASY)}, {"task": kind([*EASY[:-1], "hammer-v3"])})
    assert "hammer-v3" in message
    assert EASY[-1] in message


def test_another_order_is_shown_as_a_difference() -> None:
    message = refusal({"tasks": list(EASY)}, {"tasks": [*EASY[:-2], EASY[-1], EASY[-2]]})
    before, _, now = message.splitlines()[1].partition("this command gives ")
    assert before.partition("the run has ")[2].rstrip(", ") != now


MAY_CHANGE = {
    "": {
        "trust_remote_code",
        "only",
        "failed",
        "output_dir",
        "job_name",
        "tags",
        "description",
        "notes",
        "resume",
        "exitfirst",
        "min_success",
        "min_success_by",
        "junit",
        "report_to",
        "display",
        "passed_over",
    },
    "eval": {
        "n_episodes",
        "batch_size",
        "use_async_envs",
        "video",
        "max_episodes_rendered",
        "video_fps",
        "recording",
        "recording_repo_id",
        "recording_private",
        "only_success",
        "demonstrations",
        "max_attempts",
        "recycle_after",
        "shard_id",
        "num_shards",
        "stop_when",
        "until_better_than",
        "stop_grace",
        "store_actions",
    },
    "limits": {"start", "build", "reset", "step", "draw", "load", "act", "respond"},
    "cluster": {"address", "min_nodes"},
    "wandb": {"enable", "project", "entity", "mode", "run_id", "notes", "add_tags", "disable_artifact"},
    "env": {"task", "python", "max_parallel_tasks"},
    "env metaworld": {"visualization_height", "visualization_width", "stock"},
    "env pusht": {"visualization_height", "visualization_width"},
    "env aloha": {"visualization_height", "visualization_width"},
    "env libero": {"assets_path"},
    "policy": {"python", "placement"},
    "policy compact": {"path", "n_action_steps"},
    "policy lerobot": {"path", "device", "batch_size", "overrides", "trust_remote_code"},
    "policy remote": {"path", "timeout", "reconnect"},
}
"""Every setting that two parts of one run may have differently: nothing else, and nothing by accident."""


def marked(kind: type[Any]) -> set[str]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name for field in dataclasses.fields(kind) if EXECUTION in get_args(hints[field.name])}


def test_only_these_settings_may_change_between_a_run_and_its_resume() -> None:
    found = {"": marked(Settings), "env": marked(EnvSettings), "policy": marked(PolicySettings)}
    for section in SECTIONS[2:]:
        found[section] = marked(get_type_hints(Settings)[section])
    for section, kinds in (("env", BENCHMARKS), ("policy", POLICIES)):
        for name, path in kinds.items():
            found[f"{section} {name}"] = marked(load_object(path).Settings) - found[section]
    assert {name: fields for name, fields in found.items() if fields} == MAY_CHANGE


def test_what_is_left_of_all_sections_is_identity() -> None:
    settings = Settings(policy=PolicySettings(type="zero"), env=OwnSettings(type="own"), seed=7)
    assert identity_fields(settings) == {
        "policy": {"type": "zero", "path": None},
        "env": {"type": "own", "friction": 1.0, "unmarked": 0},
        "eval": {"noise": "0", "noise_share": 0.5},
        "seed": 7,
        "rename_map": {},
    }


@dataclass(frozen=True, kw_only=True)
class PlacedSettings(EnvSettings):
    place: Path | None = None


def test_a_pipe_or_a_device_cannot_be_part_of_a_run_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place, kind in ((tmp_path / "pipe", "a named pipe"), (Path("/dev/zero"), "a device")):
        with pytest.raises(UsageError, match=f"place={place} names a file .* is {kind}, not a regular file"):
            identity_fields(PlacedSettings(type="x", place=place))
