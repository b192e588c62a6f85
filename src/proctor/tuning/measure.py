"""The measurements: what a worker, the drawing and the policy take here, alone and all together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from proctor.benchmarks.rendering import Renderer, candidates, try_backend
from proctor.config.settings import PolicySettings, Settings
from proctor.engine.host_handle import Host, HostHandle
from proctor.engine.interrupts import Interrupts
from proctor.engine.preparation import Preparation, PreparedRun
from proctor.identity import policy_code, policy_identity
from proctor.machine.gpus import Gpu, memory_of, visible_gpus
from proctor.machine.processes import cpu_seconds
from proctor.machine.resources import available_memory, usable_cores
from proctor.policies.protocol import Cost, Pass, PolicySpec
from proctor.report.console import count
from proctor.tuning.null_policy import NULL_POLICY
from proctor.tuning.probe import Probe, TimedSpan
from proctor.types import Task

BATCHES = (8, 16, 32, 64)
"""Rows in a forward pass that are tried on a GPU."""

_SECONDS = 4.0
_TRIAL_SECONDS = 7.0
_WORTH_A_LOOK = 0.9
"""Another renderer is measured with all workers only if a frame takes less than this share of the first's."""


@dataclass(frozen=True)
class Machine:
    """What there is; memory in bytes."""

    cores: int
    memory: int
    gpus: Sequence[Gpu]


@dataclass(frozen=True)
class PolicyProfile:
    """The policy.

    Attributes:
        spec: what it says of itself.
        in_worker: whether it runs inside the workers anyway.
        load: seconds until it was ready.
        cost: what it measured itself at its start.
        passes: forward passes by batch size, where it measures those.
        core: seconds of a core per question in its own process.
        gpu_memory: bytes that it takes of a GPU, if that is known.
        is_given: whether there is one at all: without, the benchmark alone is measured.
    """

    spec: PolicySpec
    in_worker: bool
    load: float
    cost: Cost | None
    passes: Sequence[Pass]
    core: float
    gpu_memory: int | None
    is_given: bool = True


@dataclass(frozen=True)
class RenderProfile:
    """What simulating and drawing takes with one renderer, without a policy; `together`: a worker per core."""

    renderer: Renderer | None
    alone: TimedSpan
    together: TimedSpan


@dataclass(frozen=True)
class Measurements:
    """Everything that was measured."""

    machine: Machine
    policy: PolicyProfile
    alone: TimedSpan
    """One worker with the policy, nothing else running."""
    renders: Sequence[RenderProfile]
    """The first is what a run takes by itself."""
    worker_memory: int
    worker_start: float


class MeasuringSession:
    """Measures one policy on one benchmark. The policy is loaded once and stays until the `stack` closes.

    Args:
        settings: those of the run.
        logs: where children write.
        stack: ends everything.
        interrupts: Ctrl-C.
        tell: called with each thing that is begun.
    """

    def __init__(
        self, settings: Settings, logs: Path, stack: ExitStack, interrupts: Interrupts, tell: Callable[[str], None]
    ) -> None:
        self._settings, self._logs, self._interrupts, self._tell = settings, logs, interrupts, tell
        self._preparation = Preparation(settings, logs)
        self.tasks: Sequence[Task] = self._preparation.facts.tasks
        self._has_policy = settings.policy.type != NULL_POLICY
        self._players = "{} with the policy" if self._has_policy else "{}"
        if self._has_policy:
            tell("loading the policy")
        self._prepared: PreparedRun = self._preparation.prepare(interrupts, tell)
        stack.callback(self._prepared.policy.stop, 1.0)
        self._host = next(iter(self._prepared.policy.hosts), None)
        self._machine = Machine(usable_cores(), available_memory(), visible_gpus())

    def measure(self) -> Measurements:
        """Measure everything, one thing after the other."""
        host = self._host
        passes: list[Pass] = []
        if host is not None:
            self._tell("timing forward passes")
            passes = host.measure(BATCHES, self._settings.limits, self._interrupts)
        self._tell(f"{self._players.format('one worker')}, on {self.tasks[0].name}")
        with self._probe(host) as probe:
            before = _cpu_of(host)
            begun = probe.run(1, _SECONDS)
            core = (_cpu_of(host) - before) / begun.asks
            worker_start, memory = probe.startup + probe.build, probe.memory
        policy = PolicyProfile(
            spec=self._prepared.policy.spec,
            in_worker=host is None,
            load=host.startup if host is not None else 0.0,
            cost=host.cost if host is not None else None,
            passes=passes,
            core=core,
            gpu_memory=memory_of(host.child.process.pid) if host is not None else None,
            is_given=self._has_policy,
        )
        renders = self._renders(begun.chunk)
        return Measurements(self._machine, policy, begun, renders, memory, worker_start)

    def trial(self, renderer: Renderer | None, workers: int) -> TimedSpan:
        """Run that many workers with the policy for some seconds."""
        self._tell(f"trying {self._players.format(count(workers, 'worker'))}")
        with self._probe(self._host, renderer) as probe:
            return probe.run(workers, _TRIAL_SECONDS)

    def _renders(self, chunk: float) -> list[RenderProfile]:
        first = self._prepared.renderer
        renders = [self._render(first, chunk, None)]
        drawn = first is not None and renders[0].alone.draws > 0
        for backend in candidates() if drawn else ():
            other = try_backend(backend, self._settings.env.python)
            if first is not None and not other.complaint and other.name != first.name:
                renders.append(self._render(other, chunk, renders[0]))
        return renders

    def _render(self, renderer: Renderer | None, chunk: float, better_than: RenderProfile | None) -> RenderProfile:
        what = f"drawing with {renderer.backend}" if renderer is not None else "simulating"
        cores = self._machine.cores
        self._tell(f"{what}, 1 worker")
        with self._probe(None, renderer, null_policy=max(1, round(chunk))) as probe:
            alone = probe.run(1, _SECONDS)
            if better_than is not None and alone.draw > _WORTH_A_LOOK * better_than.alone.draw:
                return RenderProfile(renderer, alone, alone)
            self._tell(f"{what}, {count(cores, 'worker')}")
            return RenderProfile(renderer, alone, probe.run(cores, _SECONDS) if cores > 1 else alone)

    def _probe(self, host: Host | None, renderer: Renderer | None = None, null_policy: int = 0) -> Probe:
        prepared = self._prepared if renderer is None else dataclasses.replace(self._prepared, renderer=renderer)
        recipe = self._preparation.recipe(prepared)
        if null_policy:
            spec = dataclasses.replace(prepared.policy.spec, action_steps=null_policy)
            recipe = dataclasses.replace(
                recipe,
                policy=NULL_POLICY,
                policy_settings={},
                policy_spec=spec.to_wire(),
                policy_identity=policy_identity(policy_code(NULL_POLICY, PolicySettings()), spec),
            )
        return Probe(recipe, self.tasks, host, self._settings.limits, self._interrupts)


def _cpu_of(host: HostHandle | None) -> float:
    return cpu_seconds(host.child.process.pid) if host is not None else 0.0
