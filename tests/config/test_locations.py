"""Which settings are paths is said where they are declared, and all of them are made absolute."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import pytest

from proctor.config.load import settings_from_flags, validated
from proctor.config.registry import BENCHMARKS, POLICIES, load_object
from proctor.config.settings import EnvSettings, Locates, PolicySettings, RunSettings, Settings

WORDS_OF_PATHS = ("file", "folder", "directory", "path", "interpreter")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mine(EnvSettings):
    """Another package's settings, which know nothing of Proctor's marks."""

    maps: Path | None = None
    scene: Annotated[Path, "a scene"] = Path("default")
    note: str = ""


def test_a_setting_that_is_a_path_by_its_type_needs_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = validated("env.", Mine, {"maps": "maps", "scene": "~/scene", "note": "a/b"})
    assert found.maps == tmp_path / "maps"
    assert found.scene == Path("~/scene").expanduser()
    assert found.note == "a/b"
    assert validated("env.", Mine, {"maps": None}).maps is None


@pytest.mark.parametrize("path", ["outputs/train", "act", "./act", "file.txt"])
def test_a_policy_s_path_is_absolute_if_there_is_something_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("outputs/train", "act", "lerobot/act"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "file.txt").touch()
    kind = ["--policy.type=lerobot", "--env.type=metaworld", "--env.task=reach-v3"]
    found = settings_from_flags([*kind, f"--policy.path={path}"])
    assert found.policy.path == str(tmp_path / path)
    assert settings_from_flags([*kind, "--policy.path=lerobot/other"]).policy.path == "lerobot/other"


def test_names_that_are_no_paths_stay_also_beside_folders_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("metaworld", "wandb", "zero", "python3", "none", "openpi"):
        (tmp_path / folder).mkdir()
    found = settings_from_flags(
        ["--policy.type=zero", "--env.type=metaworld", "--env.task=reach-v3", "--policy.python=python3"]
    )
    assert (found.env.type, found.policy.type, found.policy.python) == ("metaworld", "zero", "python3")
    assert found.eval.until_better_than == "none"
    remote = settings_from_flags(["--policy.path=ws://127.0.0.1:1", "--env.type=metaworld", "--env.task=reach-v3"])
    assert remote.policy.path == "ws://127.0.0.1:1"


def test_values_of_a_checkpoint_s_config_and_arguments_are_paths_where_something_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "vlm").mkdir(parents=True)
    (tmp_path / "act").mkdir()
    kind = ["--env.type=metaworld", "--env.task=reach-v3"]
    found: Any = settings_from_flags([*kind, "--policy.path=act", "--policy.vlm_model_name=models/vlm"])
    assert found.policy.overrides == {"vlm_model_name": str(tmp_path / "models" / "vlm")}
    found = settings_from_flags([*kind, "--policy.path=act", "--policy.vlm_model_name=HuggingFaceTB/SmolVLM"])
    assert found.policy.overrides == {"vlm_model_name": "HuggingFaceTB/SmolVLM"}


def every_class() -> list[type[Any]]:
    kinds = [load_object(path).Settings for path in (*BENCHMARKS.values(), *POLICIES.values())]
    return [EnvSettings, PolicySettings, RunSettings, Settings, *kinds]


@pytest.mark.parametrize("kind", every_class(), ids=lambda kind: kind.__name__)
def test_a_setting_whose_help_speaks_of_a_path_is_one_or_is_marked(kind: type[Any]) -> None:
    for name, annotation in get_type_hints(kind, include_extras=True).items():
        marks = get_args(annotation)
        words = " ".join(word for word in marks if isinstance(word, str)).lower().split()
        speaks = set(words) & {*WORDS_OF_PATHS} and name != "job_name"  # a part of a path's name
        if not speaks or get_type_hints(kind).get(name) is bool:
            continue
        is_path = any(part is Path for part in (marks[0], *get_args(marks[0])))
        assert is_path or any(isinstance(mark, Locates) for mark in marks), f"{kind.__name__}.{name}"
