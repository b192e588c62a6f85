"""`--env.type=gym`: any registered `gymnasium.Env`, by its id."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

from proctor.benchmarks.gym.env_facts import (
    TRIAL_STEPS,
    EnvFacts,
    EnvRecipe,
    SuccessProbe,
    distributions_behind,
    env_facts,
    open_env,
)
from proctor.benchmarks.protocol import Benchmark, Simulator
from proctor.config.content_hashes import is_own
from proctor.config.settings import AtLeast, EnvSettings, Locates, comma_list
from proctor.errors import UsageError, did_you_mean
from proctor.installation import require
from proctor.types import BenchmarkSpec, Task

SUCCESS = ("is_success", "success")
"""Entries of `info` that report success, the first that is there."""
NO_FLAG = "none"


@dataclass(frozen=True, kw_only=True)
class GymSettings(EnvSettings):
    """`--env.*` of any Gymnasium environment."""

    package: Annotated[str, "packages to import, which register the task; comma list [the task's namespace]"] = ""
    kwargs: Annotated[
        dict[str, Any], Locates("values"), "arguments of the environment: --env.kwargs.name=value"
    ] = field(default_factory=dict)
    episode_length: Annotated[int, AtLeast(0), "step limit; 0: the environment's own"] = 0
    success_key: Annotated[
        str,
        "entry of info that reports success, a.b inside another; missing means failure; none: there is none "
        "[is_success or success, if seen in a trial]",
    ] = ""
    metrics: Annotated[str, "numbers in info to store with each episode; comma list"] = ""
    render_as: Annotated[str, "observation key under which the policy sees frames of render() [not at all]"] = ""
    prompt: Annotated[str, "the task in words [the environment's task_description or task]"] = ""
    fresh: Annotated[bool, "make a new environment for every episode, for one that carries something over"] = False


class Gym(Benchmark):
    """Any registered Gymnasium environment, one or a comma list; each is a group of its own."""

    Settings = GymSettings
    opens_to_tell = True

    settings: GymSettings

    @cached_property
    def _recipes(self) -> dict[str, EnvRecipe]:
        s = self.settings
        names = comma_list(s.task)
        if not names:
            raise UsageError(
                "--env.task is missing: name a registered environment, such as CartPole-v1 or gym_pusht/PushT-v0."
            )
        recipes = {}
        for name in names:
            module, _, env_id = name.rpartition(":")  # module:id, as gymnasium.make takes it
            packages = tuple(comma_list(s.package)) + ((module,) if module else ())
            recipes[name] = EnvRecipe(env_id, packages, s.kwargs, s.episode_length)
        return recipes

    @cached_property
    def _facts(self) -> Mapping[str, EnvFacts]:
        facts = {
            name: env_facts(recipe, self.settings.render_as, self._flags) for name, recipe in self._recipes.items()
        }
        first, *others = facts
        for name in others:
            if (facts[name].features, facts[name].form) != (facts[first].features, facts[first].form):
                raise UsageError(
                    f"--env.task: {first} and {name} differ in their observations or actions. Run them one by one."
                )
        self.fps = facts[first].fps
        self.no_frames = next((one.no_frames for one in facts.values() if one.no_frames), "")
        self.uses_gl = "mujoco" in sys.modules
        self.draws_on_look = all(one.draws_on_look for one in facts.values())
        if self.settings.success_key:
            self.notes = [note for name, one in facts.items() if (note := self._missing(name, one.success))]
        else:
            self.undecided = next((one.success.problem for one in facts.values() if one.success.problem), "")
        return facts

    @property
    def _flags(self) -> tuple[str, ...]:
        """The entries of `info` that report success."""
        key = self.settings.success_key
        return () if key == NO_FLAG else (key,) if key else SUCCESS

    def _reports_success(self, facts: EnvFacts) -> bool:
        """Whether an episode without a flag is a failure: known before the first one, whatever comes of them."""
        return facts.success.seen if not self.settings.success_key else bool(self._flags)

    def _missing(self, name: str, trial: SuccessProbe) -> str:
        """Return what to tell of a flag that was named and not seen: it may come later, or be a mistake."""
        key = self.settings.success_key
        if not self._flags or trial.seen or trial.problem:
            return ""
        there = f"which had {', '.join(trial.entries)}" if trial.entries else "which was empty"
        return (
            f"--env.success_key={key}: in the first {TRIAL_STEPS} steps of a trial, {name} had no such entry in "
            f"info, {there}. Episodes without it count as failures.{did_you_mean(key, trial.entries)}"
        )

    @cached_property
    def spec(self) -> BenchmarkSpec:
        """The environment's own spaces, under LeRobot's names."""
        facts = next(iter(self._facts.values()))
        low, high = facts.form.bounds
        return BenchmarkSpec(
            ", ".join(self._facts), facts.features, facts.form.size, low, high, action_integers=facts.form.integers
        )

    def tasks(self) -> Sequence[Task]:
        """Open every environment that is named, and ask for its step limit."""
        facts, prompt = self._facts, self.settings.prompt
        return [
            Task(
                name,
                0,
                name,
                prompt or facts[name].prompt,
                facts[name].max_steps,
                reports_success=self._reports_success(facts[name]),
            )
            for name in comma_list(self.settings.task)
        ]

    def make_simulator(self, task: Task) -> Simulator:
        """Import Gymnasium and the environment's package, here and not before."""
        from proctor.benchmarks.gym.simulator import GymSimulator

        s, recipe = self.settings, self._recipes[task.name]
        return GymSimulator(
            lambda: open_env(recipe), task.name, self._flags, comma_list(s.metrics), s.render_as, s.fresh
        )

    def distributions(self) -> Sequence[str]:
        """Gymnasium, the package that holds the environment, and the physics that it imports."""
        packages = {module.partition(".")[0] for module in self._modules()}
        return sorted({"gymnasium", "numpy", *distributions_behind(packages)})

    def modules(self) -> Sequence[str]:
        """The environment's and its wrappers' modules, and the packages that register it."""
        return sorted(filter(is_own, self._modules()))

    def _modules(self) -> set[str]:
        # Who has not been asked yet is not opened for this.
        facts = self.__dict__.get("_facts", {}).values()
        return {*comma_list(self.settings.package), *(module for one in facts for module in one.modules)}

    def check_installed(self) -> None:
        """Say how to get Gymnasium if it is not there."""
        require("--env.type=gym", "gym", "gymnasium")
