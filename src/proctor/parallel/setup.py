"""What is settled once for all shards: how many, with which batch shape, and what draws.

The policy is loaded once to learn it, so that a wrong flag, a missing package or a policy that does not fit is
refused in one line before any shard exists.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from proctor.benchmarks.rendering import RenderDevice, Renderer, find_renderer
from proctor.config.settings import DevicePolicySettings, Settings, chosen_device
from proctor.engine.interrupts import Interrupts
from proctor.engine.preparation import LoadedPolicy, Preparation, PreparedRun
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


class SetupChooser:
    """Loads the policy once and decides.

    Args:
        settings: all settings, validated.
        options: what the user asks of the launcher.
        stored: what an earlier run in the directory depends on, which must not change.
        tell: who is told what the user should know.
    """

    def __init__(
        self, settings: Settings, options: ShardOptions, stored: Identity | None, tell: Callable[[str], None]
    ) -> None:
        self._settings, self._options, self._stored, self._tell = settings, options, stored, tell
        self._gpus = visible_gpus()
        self._on_gpu, self._copy_bytes = False, 0
        self._shards = 0

    def choose(self, preparation: Preparation, interrupts: Interrupts) -> ShardSetup:
        """Load the policy, decide, and end it again.

        Raises:
            UsageError: something does not fit or is not there.
            Interrupted: a signal came first.
        """
        with ExitStack() as stack:
            prepared = preparation.prepare(stack, interrupts, self._tell, self._stored, self._find_renderer)
            self._size_up(prepared.policy)
            prepared.policy.stop(1.0)
        spec, device = prepared.policy.spec, chosen_device(self._settings.policy)
        if spec.fingerprint is None and self._shards > 1:
            raise UsageError(
                "the policy has no fingerprint, so its shards could not be recognised as parts of one run. "
                "Use one process: proctor eval"
            )
        for note in prepared.notes:
            self._tell(note)
        spread = spread_over(self._gpus, self._on_gpu, device)
        flags = [f"--eval.max_episodes_rendered={prepared.videos}"]
        workers = self._workers(prepared)
        if self._shards > 1:
            # Not what each finds: shards must not all take all cores.
            flags.append(f"--eval.batch_size={workers}")
        # A shape of 1 is what the same rule gives again.
        if isinstance(self._settings.policy, DevicePolicySettings):
            flags += [f"--policy.batch_size={spec.batch}"] if spec.batch > 1 else []
            flags += ["--policy.device=cuda"] if spread else []
        return ShardSetup(
            identity=prepared.identity,
            shards=self._shards,
            workers=workers,
            flags=flags,
            environment={} if prepared.renderer is None else prepared.renderer.env,
            gpus=spread,
            notes=prepared.notes,
        )

    def _workers(self, prepared: PreparedRun) -> int:
        """Return how many workers a shard begins with: its share of what one process would take."""
        cores, memory = max(1, usable_cores() // self._shards), available_memory() // 2 // self._shards
        files = open_file_limit()
        return worker_range(
            self._settings.eval.batch_size, sys.maxsize, cores, memory, files, prepared.on_gpu
        ).start

    def _size_up(self, policy: LoadedPolicy) -> None:
        """Learn what a copy of the policy takes, and decide how many there are to be; once."""
        if self._shards:
            return
        self._copy_bytes = self._measure(policy)
        self._on_gpu = policy.spec.on_gpu or self._copy_bytes > 0
        if self._options.num_shards is not None:
            self._shards = self._options.num_shards
        elif len(alike(self._gpus)) > 1 and self._on_gpu:
            self._shards = len(alike(self._gpus))
        else:
            self._shards = 1
            self._tell("one shard: one process uses all cores, and one copy of the policy answers all workers")

    def _measure(self, policy: LoadedPolicy) -> int:
        """Return the GPU memory that one copy of the policy takes; 0: none, or nobody tells."""
        if not self._gpus or not policy.hosts:
            return 0
        told = [memory_of(host.child.process.pid) for host in policy.hosts]
        known = sum(bytes_ for bytes_ in told if bytes_ is not None)
        # In a container the driver may not know processes by our numbers.
        return known or max(0, sum(gpu.used for gpu in visible_gpus()) - sum(gpu.used for gpu in self._gpus))

    def _find_renderer(self, policy: LoadedPolicy) -> Renderer:
        device, stored = self._options.render_device, (self._stored or {}).get("renderer")
        if device != "auto":
            return find_renderer(self._settings.env.python, device=device)
        if stored is not None:
            # What a run has begun with goes on, whatever may be free now.
            return find_renderer(
                self._settings.env.python, device="cpu" if Renderer("", stored).software else "gpu"
            )
        self._size_up(policy)
        if fits(self._copy_bytes, self._shards, [gpu.memory - gpu.used for gpu in self._gpus]):
            return find_renderer(self._settings.env.python)
        self._tell(f"{self._shards} copies of the policy fill the GPU's memory: drawing on the CPU")
        try:
            return find_renderer(self._settings.env.python, device="cpu")
        except NoPicturesError as error:
            self._tell(f"drawing on the GPU all the same. {error}")
            return find_renderer(self._settings.env.python)


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
