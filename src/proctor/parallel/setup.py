"""What is settled once for all shards: how many, with which batch shape, and what draws.

The policy is loaded once to learn it, so that a wrong flag, a missing package or a policy that does not fit is
refused in one line before any shard exists.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from proctor.benchmarks.rendering import RenderDevice, Renderer, find_renderer
from proctor.config.settings import DevicePolicySettings, chosen_device
from proctor.engine.interrupts import Interrupts
from proctor.engine.preparation import LoadedPolicy, Preparation
from proctor.engine.workforce import worker_range
from proctor.errors import NoPicturesError, UsageError
from proctor.identity import Identity
from proctor.machine.gpus import Gpu, alike, memory_of, spread_over, visible_gpus
from proctor.machine.processes import open_file_limit
from proctor.machine.resources import available_memory, usable_cores


class ShardOptions(NamedTuple):
    """What the user asks of the launcher; no number of shards: whatever is useful."""

    num_shards: int | None
    render_device: RenderDevice


@dataclass(frozen=True)
class ShardSetup:
    """What all shards share."""

    identity: Identity
    shards: int
    workers: int
    """In every shard."""
    flags: Sequence[str]
    environment: dict[str, str]
    gpus: Sequence[Gpu]
    """One for each shard in turn; none: shards use what they find."""
    notes: Sequence[str]

    def shard_environment(self, number: int) -> dict[str, str]:
        """Return the variables of a shard: how it draws, and which GPU it sees."""
        if not self.gpus:
            return self.environment
        gpu = str(self.gpus[number % len(self.gpus)].number)
        # The numbers are the driver's own; CUDA counts like that only when told to.
        own = {"CUDA_VISIBLE_DEVICES": gpu, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        if self.environment.get("MUJOCO_GL") == "egl":
            own["MUJOCO_EGL_DEVICE_ID"] = gpu
        return {**self.environment, **own}


class PolicyCopies(NamedTuple):
    """Copies of the policy, one in every shard."""

    number: int
    on_gpu: bool
    memory: int
    """What one takes of the GPUs, in bytes; 0: nothing, or nobody tells."""


def choose_setup(
    preparation: Preparation,
    options: ShardOptions,
    stored: Identity | None,
    interrupts: Interrupts,
    tell: Callable[[str], None],
) -> ShardSetup:
    """Load the policy once, decide, and end it again.

    Args:
        preparation: loads the policy, by settings that all shards share.
        options: what the user asks of the launcher.
        stored: what an earlier run in the directory depends on, which must not change.
        interrupts: a stop signal ends the waiting.
        tell: who is told what the user should know.

    Raises:
        UsageError: something does not fit or is not there.
        Interrupted: a signal came first.
    """
    settings, gpus = preparation.settings, visible_gpus()
    device = options.render_device
    if device == "auto" and stored is not None and stored.get("renderer") is not None:
        # What a run has begun with goes on, whatever may be free now.
        device = "cpu" if Renderer("", stored["renderer"]).software else "gpu"
    policy = preparation.load(interrupts, stored)
    try:
        copies = _count_copies(policy, gpus, options.num_shards)
        prepared = preparation.settle(
            policy, tell, lambda: _find_renderer(settings.env.python, device, copies, gpus, tell)
        )
    finally:
        policy.stop(1.0)
    shards = copies.number
    if policy.spec.fingerprint is None and shards > 1:
        raise UsageError(
            "the policy has no fingerprint, so its shards could not be recognised as parts of one run. "
            "Use one process: proctor eval"
        )
    if shards == 1 and options.num_shards is None:
        tell("one shard: one process uses all cores, and one copy of the policy answers all workers")
    for note in prepared.notes:
        tell(note)
    spread = spread_over(gpus, copies.on_gpu, chosen_device(settings.policy))
    # What is filmed after the run is filmed once all shards are one.
    flags = [f"--eval.video={settings.eval.video if prepared.films else 'none'}"]
    # What a shard begins with: its share of what one process would take.
    cores, memory = max(1, usable_cores() // shards), available_memory() // 2 // shards
    asked, files = settings.eval.batch_size, open_file_limit()
    workers = worker_range(asked, sys.maxsize, cores, memory, files, prepared.on_gpu).start
    if shards > 1:
        # Not what each finds: shards must not all take all cores.
        flags.append(f"--eval.batch_size={workers}")
    # A shape of 1 is what the same rule gives again.
    if isinstance(settings.policy, DevicePolicySettings):
        flags += [f"--policy.batch_size={policy.spec.batch}"] if policy.spec.batch > 1 else []
        flags += ["--policy.device=cuda"] if spread else []
    return ShardSetup(
        identity=prepared.identity,
        shards=shards,
        workers=workers,
        flags=flags,
        environment={} if prepared.renderer is None else prepared.renderer.env,
        gpus=spread,
        notes=prepared.notes,
    )


def _count_copies(policy: LoadedPolicy, gpus: Sequence[Gpu], asked: int | None) -> PolicyCopies:
    """Learn what a copy of the policy takes, and decide how many there are to be, if nobody has asked for some."""
    memory = 0
    if gpus and policy.hosts:
        told = [memory_of(host.child.process.pid) for host in policy.hosts]
        # In a container the driver may not know processes by our numbers.
        memory = sum(filter(None, told)) or max(0, _used(visible_gpus()) - _used(gpus))
    on_gpu = policy.spec.on_gpu or memory > 0
    return PolicyCopies(asked or (max(1, len(alike(gpus))) if on_gpu else 1), on_gpu, memory)


def _used(gpus: Sequence[Gpu]) -> int:
    return sum(gpu.used for gpu in gpus)


def _find_renderer(
    python: str | None,
    device: RenderDevice,
    copies: PolicyCopies,
    gpus: Sequence[Gpu],
    tell: Callable[[str], None],
) -> Renderer:
    free = [gpu.memory - gpu.used for gpu in gpus]
    if device != "auto" or fits(copies.memory, copies.number, free):
        return find_renderer(python, device=device)
    fill = "1 copy of the policy fills" if copies.number == 1 else f"{copies.number} copies of the policy fill"
    tell(f"{fill} the GPU's memory: drawing on the CPU")
    try:
        return find_renderer(python, device="cpu")
    except NoPicturesError as error:
        tell(f"drawing on the GPU all the same. {error}")
        return find_renderer(python)


def fits(copy: int, shards: int, free: Sequence[int]) -> bool:
    """Return whether GPUs have room for a copy of the policy per shard, in turn, and for drawing beside them.

    >>> fits(copy=20, shards=4, free=[80])
    False
    >>> fits(copy=20, shards=4, free=[80, 80])
    True
    """
    if not copy or not free:
        return True
    return copy * math.ceil(shards / len(free)) < min(free)
