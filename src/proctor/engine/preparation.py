"""What has to be ready before the first episode: the policy, a GL that draws, and what makes a result its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proctor.benchmarks.facts import learn, make_benchmark
from proctor.benchmarks.processors import processors_for, spec_behind
from proctor.benchmarks.rendering import NO_GL, Renderer, find_renderer
from proctor.blame import users_code
from proctor.config.combinations import chosen_videos
from proctor.config.plain_values import to_plain
from proctor.config.registry import benchmark_path, load_object, policy_path
from proctor.config.settings import DevicePolicySettings, PolicySettings, Settings, chosen_device
from proctor.engine.action_noise import ActionNoise
from proctor.engine.early_workers import EarlyWorkers
from proctor.engine.host_handle import HostHandle, HostRecipe
from proctor.engine.identity_proof import PolicyProof
from proctor.engine.interrupts import Interrupts
from proctor.engine.policy_session import check_fit, check_tasks
from proctor.engine.rollout import PolicyView
from proctor.engine.warm_processes import WarmProcesses
from proctor.engine.worker_handle import WorkerRecipe
from proctor.engine.workforce import choose_placement, worker_range
from proctor.errors import NoPicturesError, PolicyHostError, UsageError
from proctor.events import Stage
from proctor.identity import (
    Identity,
    differences,
    identity_fields,
    known_again,
    policy_code,
    policy_identity,
)
from proctor.machine.processes import open_file_limit
from proctor.machine.resources import available_memory, usable_cores
from proctor.machine.versions import (
    HASH_SEED,
    cpu_kind,
    interpreter_versions,
    numeric_environment,
    own_hash_seed,
)
from proctor.plan import Plan, make_plan, repeats_note
from proctor.policies.protocol import LivePolicy, Policy, PolicySpec
from proctor.recording.assembly import check_can_film
from proctor.types import NO_VIDEOS, BenchmarkSpec, Episode, VideoChoice

_LOADING = Stage("loading the policy")


@dataclass(frozen=True)
class LoadedPolicy:
    """A policy that is ready: what it needs, and who answers for it if not the workers themselves."""

    settings: PolicySettings
    """With the batch shape that the run has begun with."""
    spec: PolicySpec
    identity: dict[str, Any]
    versions: dict[str, str]
    """Of the interpreter that holds it."""
    local: Policy | None = None
    """The object, where it is in this process."""
    hosts: Sequence[HostHandle] = ()
    prove: Callable[[], None] | None = None
    """Raises if a policy of this process may have become another since."""
    stored: bool = False
    """Whether nobody is asked, because what it answered is stored."""
    early: WarmProcesses | None = None
    """Workers that have built simulators while it was loaded, for whoever gives them work."""

    @property
    def is_copied(self) -> bool:
        """Whether every worker loads a copy of its own."""
        return self.local is None and not self.hosts and not self.stored

    def stop(self, patience: float) -> None:
        """End the hosts, and the workers that wait for them."""
        for host in self.hosts:
            host.stop(patience)
        if self.early is not None:
            self.early.close(0.0)


@dataclass(frozen=True)
class PreparedRun:
    """All that is settled before the first episode.

    Attributes:
        policy: the policy.
        spec: what the benchmark gives a policy behind the processors in between.
        renderer: what draws, if anything is drawn.
        identity: all that results depend on.
        films: the episodes that are filmed as they run; others are filmed after the run, by replay.
        notes: for the user to read.
        noise: what is added to the policy's actions, if anything is.
    """

    policy: LoadedPolicy
    spec: BenchmarkSpec
    renderer: Renderer | None
    identity: Identity
    films: VideoChoice
    notes: Sequence[str]
    noise: ActionNoise | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU draws or holds the policy."""
        draws = self.renderer is not None and not self.renderer.software
        return draws or self.policy.spec.on_gpu


class Preparation:
    """Gets a benchmark and a policy ready on this machine.

    Args:
        settings: all settings, validated.
        logs: where the policy's process writes.
        live_policy: the caller's own to evaluate, instead of what `settings.policy` names.
        warm: where processes are kept that can be used again.
        films_later: whether what is to be filmed can be filmed here when all has ended; not on a cluster's node.
    """

    def __init__(
        self,
        settings: Settings,
        logs: Path,
        live_policy: LivePolicy | None = None,
        warm: WarmProcesses | None = None,
        films_later: bool = True,
    ) -> None:
        self._films_later = films_later
        self.settings, self._logs, self._warm = settings, logs, warm
        self._renderer: Renderer | None = None
        self.live = None if isinstance(live_policy, Path) else live_policy
        self._policy: PolicySettings = settings.policy
        if isinstance(live_policy, Path):
            self._policy = dataclasses.replace(settings.policy, path=str(live_policy))
        self._benchmark_path = benchmark_path(settings.env.type)
        self.benchmark = make_benchmark(self._benchmark_path, settings.env)
        self.facts = learn(self._benchmark_path, settings.env)
        self._policy_path = policy_path(settings.policy.type) if self.live is None else ""

    def prepare(
        self,
        interrupts: Interrupts,
        tell: Callable[[str], None],
        stored: Identity | None = None,
        pending: Sequence[Episode] = (),
        doing: Callable[[Stage], None] = lambda stage: None,
    ) -> PreparedRun:
        """Load the policy, find a renderer, and say what the results will depend on.

        Args:
            interrupts: a stop signal ends the waiting.
            tell: who is told what the user should know.
            stored: what a run depends on that is to be continued.
            pending: episodes for which workers start and build simulators while the policy loads.
            doing: who is told, again and again, what is being waited for.

        Raises:
            UsageError: something does not fit or is not there.
            Interrupted: a signal came first.
        """
        policy = self.load(interrupts, stored, pending, doing)
        try:
            doing(Stage("getting ready"))
            return self.settle(policy, tell)
        except BaseException:
            policy.stop(0.0)
            raise

    def settle(
        self, policy: LoadedPolicy, tell: Callable[[str], None], find: Callable[[], Renderer] | None = None
    ) -> PreparedRun:
        """Find a renderer for a policy that is loaded, and say what the results will depend on.

        Args:
            policy: the policy; whoever has loaded it ends it.
            tell: who is told what the user should know.
            find: chooses the renderer; asked only if something will be drawn.

        Raises:
            UsageError: something does not fit or is not there.
        """
        spec = self.spec_behind(policy.spec.env_processors)
        check_fit(policy.spec, spec)
        check_tasks(policy.spec, self.facts.tasks)
        noise = ActionNoise.of(self.settings.eval, spec)
        renderer, films = self._choose_renderer(policy, spec, tell, find)
        identity, notes = self._identity(policy, spec, renderer), self._notes(policy.spec)
        return PreparedRun(policy, spec, renderer, identity, films, notes, noise)

    def _with_stored_batch(self, stored: Identity | None) -> PolicySettings:
        """Return the policy's settings, with the batch shape of a run that has begun where they leave it open."""
        settings = self._policy
        if stored is not None and isinstance(settings, DevicePolicySettings) and settings.batch_size == 0:
            return dataclasses.replace(settings, batch_size=stored["policy"]["batch"])
        return settings

    def spec_behind(self, processors: Sequence[str] | None) -> BenchmarkSpec:
        """Return what a policy may rely on that names these processors, or none of its own."""
        steps = processors_for(self.benchmark, processors)
        return spec_behind(steps, self.facts.spec).renamed(self.settings.rename_map)

    def load(
        self,
        interrupts: Interrupts,
        stored: Identity | None = None,
        pending: Sequence[Episode] = (),
        doing: Callable[[Stage], None] = lambda stage: None,
    ) -> LoadedPolicy:
        """Load the policy where it will run, as far as that is known, and learn what it needs.

        The host is started first of all, and simulators may be built while it loads. A light policy is so cheap
        that it is made here, only to be asked.
        """
        settings = self._with_stored_batch(stored)
        doing(_LOADING)
        if self.live is not None:
            spec = self.live.spec
            identity = policy_identity(policy_code("", settings), spec)
            return LoadedPolicy(settings, spec, identity, interpreter_versions(), local=self.live)
        policy_class: type[Policy] = load_object(self._policy_path)
        plain_spec = self.spec_behind(None)
        inline = not self.settings.eval.use_async_envs
        if settings.python is None and (policy_class.light or inline):
            with users_code("the policy could not be loaded"):
                proof = PolicyProof(
                    self._policy_path, settings, lambda: policy_class.from_settings(settings, plain_spec), None
                )
            if inline or settings.placement != "central":
                spec, versions = proof.policy.spec, interpreter_versions()
                return LoadedPolicy(settings, spec, proof.identity, versions, local=proof.policy, prove=proof)
        # All start loading before the first is waited for.
        reloads = policy_class.reloads(settings)
        hosts = [self._host(recipe) for recipe in self._host_recipes(settings, plain_spec, reloads)]
        early: EarlyWorkers | None = None

        def wait() -> None:
            if early is not None:
                early.go_on()
            doing(_LOADING._replace(detail="" if early is None else str(early)))

        try:
            if pending and self._warm is None and settings.placement != "worker":
                early = self._early_workers(pending, len(hosts))
                wait()
            specs = [self._wait_ready(hosts, number, interrupts, wait) for number in range(len(hosts))]
            for host in hosts:
                for key, first, other in differences(hosts[0].identity, host.identity)[:1]:
                    raise UsageError(
                        f"--policy.device names devices that give different bits: {key} is {first} and {other} "
                        f"({host.recipe.settings.get('device')}). Use devices of one kind."
                    )
        except BaseException:
            for host in hosts:
                host.stop(0.0)
            if early is not None:
                early.kept.close(0.0)
            raise
        kept = None if early is None else early.kept
        return LoadedPolicy(settings, specs[0], hosts[0].identity, hosts[0].versions, hosts=hosts, early=kept)

    def _early_workers(self, pending: Sequence[Episode], hosts: int) -> EarlyWorkers | None:
        """Return the workers that may start before the policy is there, if any may.

        Their surroundings are guessed: that the policy will look at all that there is. Who can draw is of use to a
        policy that looks at no picture, too. Where the guess is wrong in another way, others are started.
        """
        settings, spec = self.settings, self.spec_behind(None)
        draws = any(feature.drawn for feature in spec.features.values())
        try:
            renderer = self._find_renderer() if self.facts.uses_gl and draws else None
        except NoPicturesError:
            return None  # told as soon as it is known whether that matters
        recipe = WorkerRecipe(
            benchmark=self._benchmark_path,
            env=to_plain(settings.env),
            spec=spec.to_wire(),
            policy_spec=PolicySpec().to_wire(),
            benchmark_identity=self.facts.identity,
            policy_identity={"env_processors": None},
            logs=self._logs,
            environment=self._gl_environment(renderer),
            python=settings.env.python,
        )
        on_gpu = renderer is not None and not renderer.software
        machine = usable_cores(), available_memory() // 2, open_file_limit()
        room = worker_range(0, len(pending), *machine, on_gpu).start
        count = min(room, settings.eval.batch_size or room)
        return EarlyWorkers(recipe, pending[:count], usable_cores() - hosts)

    def _wait_ready(
        self, hosts: list[HostHandle], number: int, interrupts: Interrupts, waiting: Callable[[], None]
    ) -> PolicySpec:
        """Wait for a host. One that had a policy before may have died of either: a new one takes its place."""
        try:
            return hosts[number].wait_ready(self.settings.limits, interrupts, waiting)
        except PolicyHostError:
            if hosts[number].generation == 1:
                raise
        hosts[number].stop(0.0)
        hosts[number] = HostHandle(dataclasses.replace(hosts[number].recipe, generation=1))
        return hosts[number].wait_ready(self.settings.limits, interrupts, waiting)

    def _host(self, recipe: HostRecipe) -> HostHandle:
        host = self._warm.host(recipe) if self._warm is not None else None
        return HostHandle(recipe) if host is None else host

    def _host_recipes(self, settings: PolicySettings, spec: BenchmarkSpec, reloads: bool) -> list[HostRecipe]:
        """Return a recipe per device that the policy is to run on."""
        devices = [name.strip() for name in (chosen_device(settings) or "").split(",")]
        plain = to_plain(settings)
        return [
            HostRecipe(
                policy=self._policy_path,
                settings={**plain, "device": device} if device else plain,
                benchmark=spec.to_wire(),
                before_processors=self.facts.spec.to_wire(),
                log=self._logs / ("host.log" if number == 0 else f"host-{number}.log"),
                python=settings.python,
                reloads=reloads,
            )
            for number, device in enumerate(devices)
        ]

    def place(self, prepared: PreparedRun, pending: Plan, workers: int) -> PreparedRun:
        """Decide where the policy runs, now that it is known what it costs and how much it has to do."""
        policy, asked = prepared.policy, prepared.policy.settings.placement
        elsewhere = policy.settings.python or self.settings.env.python
        if not policy.hosts or asked == "central" or (asked == "auto" and (elsewhere or self._warm is not None)):
            return prepared  # what the policy needs is in its own interpreter, or the host is to stay
        if asked == "auto":
            asks = pending.most_steps / (policy.spec.action_steps or 1)
            cost = policy.hosts[0].cost if len(policy.hosts) == 1 else None
            asked = choose_placement(cost, asks, workers, usable_cores(), available_memory() // 2)
        if asked == "central":
            return prepared
        policy.stop(1.0)
        return dataclasses.replace(prepared, policy=dataclasses.replace(policy, hosts=()))

    def _choose_renderer(
        self,
        policy: LoadedPolicy,
        spec: BenchmarkSpec,
        tell: Callable[[str], None],
        find: Callable[[], Renderer] | None,
    ) -> tuple[Renderer | None, VideoChoice]:
        """Find a GL that works if anything is drawn as episodes run; without one, videos are left out."""
        records = self.settings.eval.recording and any(feature.drawn for feature in spec.features.values())
        if records:
            check_can_film(self.settings.env.python)
        looks = PolicyView.of(policy.spec, spec).drawn or records or not self.facts.draws_on_look
        films = self._filmed_as_they_run(policy, tell)
        if films and self.facts.no_frames:
            tell(f"no videos: {self.facts.no_frames}")
            films = NO_VIDEOS
        if not self.facts.uses_gl or not (looks or films):
            return None, films
        try:
            return (find or self._find_renderer)(), films
        except NoPicturesError as error:
            if looks:
                raise
            tell(f"no videos: {error}")
            return None, NO_VIDEOS

    def _filmed_as_they_run(self, policy: LoadedPolicy, tell: Callable[[str], None]) -> VideoChoice:
        """Return the episodes that cannot wait for a replay, which would draw nothing that is not wanted."""
        films = chosen_videos(self.settings.eval)
        if not films or policy.stored:
            return films
        if not self.settings.eval.store_actions:
            why = "actions are not stored, so nothing can be filmed later"
        elif not self.facts.replays:
            why = "this benchmark's simulators cannot be replayed"
        elif not self.settings.eval.use_async_envs:
            why = "everything runs in this process"
        elif not self._films_later:
            why = "the nodes have the simulators"
        else:
            return NO_VIDEOS
        drawn = "; every episode is drawn, and the videos of failures are kept" if films.failures else ""
        tell(f"filming episodes as they run, which takes longer: {why}{drawn}")
        return films

    def _find_renderer(self) -> Renderer:
        """Return what draws here; found out once."""
        if self._renderer is None:
            python = self.settings.env.python
            self._renderer = find_renderer(python) if self._warm is None else self._warm.renderer(python)
        return self._renderer

    def _notes(self, spec: PolicySpec) -> Sequence[str]:
        passed_over = self.settings.passed_over_note
        notes = (*([passed_over] if passed_over else []), *self.facts.notes, *spec.notes)
        settings = self.settings
        plan = make_plan(self.facts.tasks, settings.eval.n_episodes, settings.seed, settings.only)
        whole = settings.eval.n_episodes * len(self.facts.tasks)
        if len(plan) < whole:
            notes = (*notes, f"{len(plan)} of {whole} episodes were chosen: the rate is that of these alone.")
        if spec.stochastic:
            return notes
        repeats = repeats_note(plan)
        return notes if repeats is None else (*notes, repeats)

    def _identity(self, policy: LoadedPolicy, spec: BenchmarkSpec, renderer: Renderer | None) -> Identity:
        """Return all that results depend on: every unmarked setting, and what each part says of itself."""
        settings, facts = self.settings, self.facts
        looks = PolicyView.of(policy.spec, spec).drawn
        benchmark = {key: value for key, value in facts.identity.items() if key != "versions"}
        in_this_process = self.live is not None or not settings.eval.use_async_envs
        return {
            **identity_fields(settings),
            "env": benchmark,
            "spec": to_plain(facts.spec.to_wire()),
            "tasks": [to_plain(task.to_wire()) for task in facts.tasks],
            "policy": {**known_again(policy.identity), "versions": policy.versions},
            "renderer": renderer.name if renderer is not None and looks else None,
            "machine": {
                **cpu_kind(),
                "environment": numeric_environment(),
                "hash_seed": own_hash_seed() if in_this_process else HASH_SEED,
            },
            "versions": facts.versions,
        }

    def recipe(self, prepared: PreparedRun) -> WorkerRecipe:
        """Return what a worker needs to start."""
        s, policy = self.settings, prepared.policy
        in_worker = not policy.hosts and self.live is None and not policy.stored
        return WorkerRecipe(
            benchmark=self._benchmark_path,
            env=to_plain(s.env),
            spec=prepared.spec.to_wire(),
            policy_spec=policy.spec.to_wire(),
            benchmark_identity=self.facts.identity,
            policy_identity=policy.identity,
            logs=self._logs,
            environment=self._gl_environment(prepared.renderer),
            policy=self._policy_path if in_worker else None,
            policy_settings=to_plain(policy.settings) if in_worker else None,
            fps=self.facts.fps,
            video_fps=s.eval.video_fps,
            films=to_plain(prepared.films),
            only_success=s.eval.only_success,
            noise=None if prepared.noise is None else to_plain(prepared.noise),
            store_actions=s.eval.store_actions,
            python=s.env.python,
        )

    def copying(self, prepared: PreparedRun) -> WorkerRecipe | None:
        """Return what a worker needs to start with a copy of the policy; `None` if it could not load one."""
        elsewhere = prepared.policy.settings.python or self.settings.env.python
        if not prepared.policy.hosts or elsewhere:
            return None
        return self.recipe(dataclasses.replace(prepared, policy=dataclasses.replace(prepared.policy, hosts=())))

    def _gl_environment(self, renderer: Renderer | None) -> dict[str, str]:
        if not self.facts.uses_gl:
            return {}
        return NO_GL if renderer is None else renderer.env
