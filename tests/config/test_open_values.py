"""Values whose types nobody declares: what stands on the command line is what arrives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import SUPPORT, THOUGHTFUL
from proctor.config.load import build_settings, parsed_flags, settings_from_flags, tree_of
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
