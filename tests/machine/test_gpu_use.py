"""GPUs are looked at while something runs, and told of at its end."""

from __future__ import annotations

import re
import threading
from functools import partial
from pathlib import Path

import pytest

from harness import digests, run_tiny
from proctor.machine.gpu_use import GpuWatch
from proctor.machine.gpus import GpuLoad, gpu_loads
from proctor.results import Evaluation
from proctor.store.episodes import EpisodeTable

SMI = """#!/bin/sh
[ -e {calls}.2 ] && busy=60 || busy=20
[ -e {calls}.1 ] && touch {calls}.2
touch {calls}.1
case "$1" in *,utilization.gpu)
  echo "0, GPU-aa, NVIDIA H200, 143771, $((busy * 100)), 570.1, $busy"
  echo "1, GPU-bb, NVIDIA H200, 143771, 512, 570.1, [N/A]" ;;
esac
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A driver's tool that tells of two GPUs, the second of which does not say how busy it is."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(SMI.format(calls=tmp_path / "call"))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path / "call"


def test_a_load_is_that_of_a_gpu_which_this_process_may_use(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu_loads() == [GpuLoad(0, "NVIDIA H200", 20, 2000 << 20)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert gpu_loads() == []


def test_what_was_seen_is_averaged_and_the_most_memory_told(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    thrice, looks = threading.Event(), list[int]()

    def counted() -> list[GpuLoad]:
        looks.append(1)
        if len(looks) == 3:
            thrice.set()
        return gpu_loads() if len(looks) <= 3 else []

    monkeypatch.setattr("proctor.machine.gpu_use.gpu_loads", counted)
    with GpuWatch(True, period=0.001) as watch:
        assert thrice.wait(60)
        watch._thread.join(60)
        (line,) = watch.stop()
    assert line == "GPU 0 (NVIDIA H200) was 33 % busy, with at most 5.9 GiB in use (3 looks)"


_ON_A_GPU = """
import dataclasses
from tiny_policies import Thoughtful

class OnGpu(Thoughtful):
    @property
    def spec(self):
        return dataclasses.replace(super().spec, identity={"device": "cuda"})
"""


def test_a_run_on_a_gpu_tells_at_its_end_how_busy_that_was(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.engine.executors.local.GpuWatch", partial(GpuWatch, period=0.01))
    policy = tmp_path / "on_gpu.py"
    policy.write_text(_ON_A_GPU)
    slow = {"delay": 0.005}
    on_gpu = run_tiny(tmp_path / "gpu", policy={"path": f"{policy}:OnGpu"}, env=slow)
    assert [note for note in noted(on_gpu) if re.fullmatch(r"GPU 0 \(NVIDIA H200\) was \d+ % busy, .*", note)]
    on_cpu = run_tiny(tmp_path / "cpu", env=slow)
    assert not [note for note in noted(on_cpu) if "busy" in note]
    assert digests(on_gpu) == digests(on_cpu)


def noted(evaluation: Evaluation) -> list[str]:
    with EpisodeTable(evaluation.directory / "run.sqlite", read_only=True) as table:
        return [note.message for note in table.notes()]


def test_without_a_driver_nothing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with GpuWatch(True, period=0.001) as watch:
        watch._thread.join(60)
        assert watch.stop() == []
