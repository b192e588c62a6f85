"""What is settled once for all shards: what draws, how many, and which GPU each sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import SUPPORT, flags, run_cli, tiny_tree
from proctor.benchmarks import rendering
from proctor.benchmarks.rendering import RenderDevice, Renderer, find_renderer
from proctor.config.load import build_settings
from proctor.engine.interrupts import Interrupts
from proctor.engine.preparation import Preparation
from proctor.errors import NoPicturesError
from proctor.machine.gpus import Gpu
from proctor.parallel import setup
from proctor.parallel.setup import ShardOptions, ShardSetup, choose_setup

LLVMPIPE, H200 = "llvmpipe (LLVM 15.0.6, 256 bits)", "NVIDIA H200/PCIe/SSE2"
AUTO = ShardOptions(None, "auto")


def gpu(number: int, used: int = 0, memory: int = 100) -> Gpu:
    return Gpu(number, f"GPU-{number}", "H200", memory, used, "1.0")


def draws(monkeypatch: pytest.MonkeyPatch, **names: str) -> None:
    """Let these backends draw, under these names, and no others."""

    def trial(backend: str, python: str | None) -> Renderer:
        found = names.get(backend)
        return Renderer(backend, complaint="no such library") if found is None else Renderer(backend, found, 1.0)

    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(rendering, "try_backend", trial)


@pytest.mark.parametrize("name", [LLVMPIPE, "softpipe", "Software Rasterizer", "Mesa swrast"])
def test_a_software_rasteriser_is_known_by_its_name(name: str) -> None:
    assert Renderer("egl", name).software
    assert not Renderer("egl", H200).software


@pytest.mark.parametrize(
    ("device", "names", "backend"),
    [
        ("auto", {"egl": H200, "osmesa": LLVMPIPE}, "egl"),
        ("gpu", {"egl": H200, "osmesa": LLVMPIPE}, "egl"),
        ("cpu", {"egl": H200, "osmesa": LLVMPIPE}, "osmesa"),
        ("cpu", {"egl": LLVMPIPE}, "egl"),
        ("auto", {"osmesa": LLVMPIPE}, "osmesa"),
    ],
)
def test_the_first_backend_on_the_wanted_device_draws(
    monkeypatch: pytest.MonkeyPatch, device: RenderDevice, names: dict[str, str], backend: str
) -> None:
    draws(monkeypatch, **names)
    assert find_renderer(device=device).backend == backend


@pytest.mark.parametrize(
    ("device", "names", "there_is"),
    [("gpu", {"egl": LLVMPIPE}, LLVMPIPE), ("cpu", {"egl": H200}, H200), ("gpu", {}, "no such library")],
)
def test_a_device_that_cannot_be_had_is_refused_with_what_there_is(
    monkeypatch: pytest.MonkeyPatch, device: RenderDevice, names: dict[str, str], there_is: str
) -> None:
    draws(monkeypatch, **names)
    with pytest.raises(NoPicturesError) as caught:
        find_renderer(device=device)
    assert f"--render-device={device}: nothing draws on the {device.upper()} here" in str(caught.value)
    assert there_is in str(caught.value)
    assert "\n" not in str(caught.value)


class Settles:
    """Settles a run on the tiny benchmark, on a machine that has what a test says, with a policy of that size."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self._monkeypatch, self._tmp_path = monkeypatch, tmp_path
        self.notes: list[str] = []

    def __call__(
        self,
        gpus: list[Gpu],
        copy: int | None = None,
        options: ShardOptions = AUTO,
        stored: dict[str, Any] | None = None,
    ) -> ShardSetup:
        from tiny import Tiny

        self._monkeypatch.setattr(Tiny, "uses_gl", True)
        self._monkeypatch.setattr(setup, "visible_gpus", lambda: gpus)
        self._monkeypatch.setattr(setup, "memory_of", lambda pid: copy)
        tree = tiny_tree(self._tmp_path / "run", policy={"placement": "central"}, eval={"batch_size": 0})
        tree["env"]["type"] = "tiny:Tiny"
        settings = build_settings(tree)
        with Interrupts() as interrupts:
            preparation = Preparation(settings, self._tmp_path / "logs")
            return choose_setup(preparation, options, stored, interrupts, self.notes.append)


@pytest.fixture
def settles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Settles:
    return Settles(monkeypatch, tmp_path)


def test_without_a_gpu_one_shard_takes_all_cores(monkeypatch: pytest.MonkeyPatch, settles: Settles) -> None:
    draws(monkeypatch, egl=LLVMPIPE)
    monkeypatch.setattr(setup, "usable_cores", lambda: 6)
    settled = settles([])
    assert (settled.shards, settled.workers, settled.gpus) == (1, 6, [])
    assert any("one process uses all cores" in note for note in settles.notes)
    assert settled.shard_environment(0)["MUJOCO_GL"] == "egl"


def test_shards_share_the_cores(monkeypatch: pytest.MonkeyPatch, settles: Settles) -> None:
    draws(monkeypatch, egl=LLVMPIPE)
    monkeypatch.setattr(setup, "usable_cores", lambda: 6)
    assert settles([], options=ShardOptions(4, "auto")).workers == 1
    assert settles([], options=ShardOptions(2, "auto")).workers == 3


def test_a_policy_on_several_gpus_gets_a_shard_on_each(monkeypatch: pytest.MonkeyPatch, settles: Settles) -> None:
    draws(monkeypatch, egl=H200)
    settled = settles([gpu(0), gpu(3)], copy=10)
    assert settled.shards == 2
    seen = [settled.shard_environment(number) for number in range(3)]
    assert [one["CUDA_VISIBLE_DEVICES"] for one in seen] == ["0", "3", "0"]
    assert [one["MUJOCO_EGL_DEVICE_ID"] for one in seen] == ["0", "3", "0"]


def test_a_policy_that_uses_no_gpu_is_left_where_it_is(monkeypatch: pytest.MonkeyPatch, settles: Settles) -> None:
    draws(monkeypatch, egl=H200)
    settled = settles([gpu(0), gpu(1)], copy=None)
    assert (settled.shards, settled.gpus) == (1, [])
    assert "CUDA_VISIBLE_DEVICES" not in settled.shard_environment(0)


@pytest.mark.parametrize(("copy", "backend"), [(20, "egl"), (40, "osmesa")])
def test_the_cpu_draws_when_the_copies_of_the_policy_fill_the_gpu(
    monkeypatch: pytest.MonkeyPatch, settles: Settles, copy: int, backend: str
) -> None:
    draws(monkeypatch, egl=H200, osmesa=LLVMPIPE)
    settled = settles([gpu(0, used=10)], copy=copy, options=ShardOptions(3, "auto"))
    assert settled.environment["MUJOCO_GL"] == backend
    assert any("drawing on the CPU" in note for note in settles.notes) == (backend == "osmesa")


def test_where_the_cpu_cannot_draw_the_full_gpu_does(monkeypatch: pytest.MonkeyPatch, settles: Settles) -> None:
    draws(monkeypatch, egl=H200)
    assert settles([gpu(0)], copy=60, options=ShardOptions(3, "auto")).environment["MUJOCO_GL"] == "egl"
    assert any("drawing on the GPU all the same" in note for note in settles.notes)


def test_a_run_goes_on_with_the_renderer_that_it_began_with(
    monkeypatch: pytest.MonkeyPatch, settles: Settles
) -> None:
    draws(monkeypatch, egl=H200, osmesa=LLVMPIPE)
    stored = {"renderer": LLVMPIPE, "policy": {"batch": 1}}
    assert settles([gpu(0)], copy=1, stored=stored).environment["MUJOCO_GL"] == "osmesa"


def test_a_device_that_the_user_asks_for_is_not_second_guessed(
    monkeypatch: pytest.MonkeyPatch, settles: Settles
) -> None:
    draws(monkeypatch, egl=H200, osmesa=LLVMPIPE)
    assert settles([gpu(0)], copy=60, options=ShardOptions(3, "gpu")).environment["MUJOCO_GL"] == "egl"
    assert settles([gpu(0)], copy=1, options=ShardOptions(1, "cpu")).environment["MUJOCO_GL"] == "osmesa"


def test_nothing_is_chosen_where_nothing_is_drawn(tmp_path: Path) -> None:
    # The tiny benchmark needs no GL, so that asking for a GPU is no reason to refuse.
    tree = flags(tiny_tree(tmp_path / "run", n_episodes=1))
    assert run_cli("parallel", "--num-shards=1", "--render-device=gpu", *tree).returncode == 0


@pytest.mark.gl
def test_a_gpu_that_is_not_there_is_refused_in_one_line_by_name(tmp_path: Path) -> None:
    if not find_renderer().software:
        pytest.skip("a GPU draws here")
    run = [f"--policy.path={SUPPORT / 'pixel_policy.py'}:Pixels", "--env.type=metaworld", "--env.task=reach-v3"]
    done = run_cli("parallel", "--num-shards=2", "--render-device=gpu", *run, f"--output_dir={tmp_path / 'run'}")
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert "--render-device=gpu: nothing draws on the GPU here" in line
    assert find_renderer().name in line
    assert not list(tmp_path.iterdir())
