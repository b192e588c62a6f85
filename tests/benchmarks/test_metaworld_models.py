"""A compiled model is kept for the next process, and is the same as one compiled anew."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from proctor.benchmarks.metaworld import models
from proctor.benchmarks.metaworld.models import compiled_model, models_folder

CUBE = '<mujoco><worldbody><body pos="0 0 {}"><freejoint/><geom size=".1"/></body></worldbody></mujoco>'


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    models_folder.cache_clear()
    return tmp_path / "cache" / "proctor"


def content(model: Any) -> bytes:
    whole = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, whole)
    return whole.tobytes()


def cube(tmp_path: Path, height: float = 1.0) -> Path:
    xml = tmp_path / "assets" / "sawyer" / "cube.xml"
    xml.parent.mkdir(parents=True, exist_ok=True)
    xml.write_text(CUBE.format(height))
    models_folder.cache_clear()
    return xml


def kept(cache_folder: Path) -> list[Path]:
    return sorted(cache_folder.rglob("*.mjb"))


def refuse(*_: Any) -> Any:
    raise AssertionError("compiled")


def test_a_kept_model_is_read_and_has_every_bit_of_one_compiled_from_meta_worlds_assets(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from metaworld.asset_path_utils import full_V3_path_for

    xml = Path(full_V3_path_for("sawyer_xyz/sawyer_reach_v3.xml"))
    compiled = content(compiled_model(xml))
    assert len(kept(cache_folder)) == 1
    monkeypatch.setattr(mujoco.MjModel, "from_xml_path", refuse)
    assert content(compiled_model(xml)) == compiled


def test_a_model_is_kept_as_it_was_compiled_whatever_is_changed_in_it_later(tmp_path: Path) -> None:
    model = compiled_model(cube(tmp_path))
    before = content(model)
    model.body_pos[1] = 7
    assert content(compiled_model(cube(tmp_path))) != content(model)
    assert content(compiled_model(tmp_path / "assets" / "sawyer" / "cube.xml")) == before


@pytest.mark.parametrize("damage", [lambda whole: whole[:-9], lambda whole: whole[:500] + b"?" + whole[501:]])
def test_a_damaged_file_is_not_read(tmp_path: Path, cache_folder: Path, damage: Any) -> None:
    xml = cube(tmp_path)
    before = content(compiled_model(xml))
    (file,) = kept(cache_folder)
    file.write_bytes(damage(file.read_bytes()))
    assert content(compiled_model(xml)) == before
    (file,) = kept(cache_folder)  # whole again
    assert file.read_bytes() == before


def test_a_changed_asset_is_compiled_anew(tmp_path: Path, cache_folder: Path) -> None:
    low = compiled_model(cube(tmp_path))
    high = compiled_model(cube(tmp_path, height=2.5))
    assert (low.body_pos[1, 2], high.body_pos[1, 2]) == (1.0, 2.5)
    assert len(kept(cache_folder)) == 2


def test_environments_with_the_same_assets_share_what_is_kept(
    tmp_path: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = content(compiled_model(cube(tmp_path / "one")))
    other = cube(tmp_path / "two")
    os.utime(other, (1, 1))
    models_folder.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(mujoco.MjModel, "from_xml_path", refuse)
        assert content(compiled_model(other)) == first
    assert len(kept(cache_folder)) == 1
    for note in (cache_folder / "metaworld-assets").iterdir():
        note.write_text("damaged")
    models_folder.cache_clear()
    assert content(compiled_model(other)) == first
    assert len(kept(cache_folder)) == 1


def test_without_a_folder_to_write_to_a_model_is_compiled_every_time(tmp_path: Path, cache_folder: Path) -> None:
    cache_folder.parent.write_text("no folder")
    first = content(compiled_model(cube(tmp_path)))
    assert content(compiled_model(cube(tmp_path))) == first


def test_without_a_home_a_model_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", no_home)
    assert compiled_model(cube(tmp_path)).nbody == 2


def test_on_a_full_disk_nothing_is_kept(
    tmp_path: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "_ENOUGH_SPACE", 1 << 62)
    compiled_model(cube(tmp_path))
    assert not kept(cache_folder)
