"""Values of settings: open ones keep their kind, and paths mean the same from any directory."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import pytest

from harness import SUPPORT, THOUGHTFUL
from proctor.config.load import build_settings, parsed_flags, settings_from_flags, tree_of
from proctor.config.registry import BENCHMARKS, POLICIES, load_object
from proctor.config.settings import EnvSettings, EvalConfig, Locates, PolicySettings, Settings
from proctor.config.values import validated
from proctor.errors import UsageError

BASE = (f"--policy.path={THOUGHTFUL}", f"--env.type={SUPPORT / 'tiny.py'}:Tiny")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10),
        ("-3", -3),
        ("0", 0),
        ("1e-3", 1e-3),
        ("0.5", 0.5),
        ("true", True),
        ("0123456", "0123456"),
        ("0644", "0644"),
        ("1234567", 1234567),
        ("12345e7", "12345e7"),
        ("1e5", 1e5),
        ("12:30", "12:30"),
        ("1:2:3.5", "1:2:3.5"),
        ("2024-01-31", "2024-01-31"),
        ("2024-01-31 10:00:00", "2024-01-31 10:00:00"),
        ("{day: 2024-01-31}", {"day": "2024-01-31"}),
        ("{1: 2}", {"1": 2}),
        ("0x1f", 31),
    ],
)
def test_a_flag_is_read_as_a_number_only_where_it_is_one(text: str, value: Any) -> None:
    found: Any = settings_from_flags([*BASE, f"--policy.kwargs.x={text}"]).policy
    assert found.kwargs == {"x": value}
    assert type(found.kwargs["x"]) is type(value)


def test_overrides_may_be_given_as_a_map(tmp_path: Path) -> None:
    flags = [f"--policy.path={tmp_path}", BASE[1]]
    found: Any = settings_from_flags(
        [*flags, "--policy.overrides={n_action_steps: 3}", "--policy.use_amp=true"]
    ).policy
    assert found.overrides == {"n_action_steps": 3, "use_amp": True}
    for text in ("[1]", "5", "x"):
        with pytest.raises(UsageError, match="expected a map"):
            settings_from_flags([*flags, f"--policy.overrides={text}"])


def test_a_revision_stays_what_was_typed(tmp_path: Path) -> None:
    from proctor.policies.lerobot.checkpoint import _revision

    for text in ("0123456", "1234567", "12345e7", "main", "v1.0"):
        found: Any = settings_from_flags(
            [f"--policy.path={tmp_path}", BASE[1], f"--policy.pretrained_revision={text}"]
        ).policy
        assert _revision(found.overrides) == text
    assert _revision({}) is None


def test_settings_that_check_themselves_are_told_by_their_words(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        f"import sys\nsys.path.append({str(SUPPORT)!r})\nfrom dataclasses import dataclass\nimport tiny\n"
        "@dataclass(frozen=True, kw_only=True)\nclass S(tiny.TinySettings):\n    wind: float = 0.0\n"
        "    def __post_init__(self):\n"
        "        if self.wind > 1: raise ValueError('a storm')\n"
        "        if self.wind < 0: self.nothing\n"
        "class B(tiny.Tiny):\n    Settings = S\n"
    )
    flags = [BASE[0], f"--env.type={tmp_path}/mine.py:B"]
    with pytest.raises(UsageError, match=r"^--env\.\*: a storm\.$"):
        build_settings(tree_of(parsed_flags([*flags, "--env.wind=2"])))
    with pytest.raises(UsageError, match="cannot be checked: AttributeError") as caught:
        build_settings(tree_of(parsed_flags([*flags, "--env.wind=-1"])))
    assert "mine.py, line 10, in __post_init__" in str(caught.value)


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
    return [EnvSettings, PolicySettings, EvalConfig, Settings, *kinds]


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
