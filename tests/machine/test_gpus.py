"""GPUs are counted as CUDA would number them."""

from __future__ import annotations

from pathlib import Path

import pytest

from proctor.machine.gpus import memory_of, visible_gpus

SMI = """#!/bin/sh
case "$1" in
  --query-gpu=*) printf '0, GPU-aa, NVIDIA H200, 143771, 512, 570.1\\n'
    printf '1, GPU-bb, NVIDIA H200, 143771, [N/A], 570.1\\n' ;;
  --query-compute-apps=*) printf '17, 1000\\n17, 24\\n18, 5\\n' ;;
esac
"""


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver's tool that tells of two GPUs."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(SMI)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("visible", "expected"),
    [(None, [0, 1]), ("1,0", [1, 0]), ("1", [1]), ("", []), ("-1", []), ("0,7,1", [0]), ("GPU-bb", [1])],
)
def test_visible_devices_choose_and_order(
    visible: str | None, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [gpu.number for gpu in visible_gpus()] == expected


@pytest.mark.usefixtures("two_gpus")
def test_memory_is_in_bytes_and_summed_over_a_process() -> None:
    first, second = visible_gpus()
    assert (first.memory, first.used, second.used) == (143771 << 20, 512 << 20, 0)
    assert memory_of(17) == 1024 << 20
    assert memory_of(19) is None


def test_without_a_driver_there_are_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert visible_gpus() == []
    assert memory_of(1) is None
