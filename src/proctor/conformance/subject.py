"""What is checked: a benchmark under settings, some of its tasks, and how much of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from proctor.benchmarks.facts import BenchmarkFacts, learn, make_benchmark
from proctor.benchmarks.protocol import Benchmark
from proctor.config.registry import benchmark_path, load_named, load_object, policy_path
from proctor.config.settings import EnvSettings, PolicySettings
from proctor.conformance.schedule import ALL, Extent
from proctor.errors import UsageError, check_known
from proctor.policies.protocol import Policy
from proctor.types import Task

MOST_TASKS = 3


@dataclass(frozen=True)
class Subject:
    """A benchmark, ready to be checked."""

    path: str
    settings: EnvSettings
    facts: BenchmarkFacts
    tasks: Sequence[Task]
    uses_gl: bool
    policy: str | None
    policy_settings: PolicySettings | None
    extent: Extent

    def name(self, task: int) -> str:
        """Return a task's name by its number."""
        return self.tasks[task].name


def meet(settings: EnvSettings, policy: PolicySettings | None, extent: Extent) -> Subject:
    """Learn what there is to check.

    Raises:
        UsageError: the benchmark, a task or the policy is not there, or something is not installed.
    """
    path = benchmark_path(settings.type)
    load_named("env.type", settings.type, path)
    benchmark = make_benchmark(path, settings)
    if not settings.task and not benchmark.opens_to_tell:
        settings = replace(settings, task=_default_tasks(benchmark, extent.tasks))
    facts = learn(path, settings)
    kind = _policy(policy, facts)
    return Subject(
        path=path,
        settings=settings,
        facts=facts,
        tasks=choose_tasks(facts.tasks, extent.tasks),
        uses_gl=facts.uses_gl,
        policy=kind,
        policy_settings=(policy or load_object(kind).Settings(type="expert")) if kind else None,
        extent=extent,
    )


def _default_tasks(benchmark: Benchmark, wanted: Sequence[str]) -> str:
    """Return what to set `--env.task` to where it is not given: nothing, if the benchmark can do without it."""
    try:
        benchmark.tasks()
    except UsageError:
        pass
    else:
        return ""
    catalogue = benchmark.catalogue()
    if not catalogue:
        return ""  # its own message, which is to come, says what is missing
    return ",".join(_groups_for(catalogue, wanted))


def _groups_for(catalogue: Mapping[str, Sequence[Task]], wanted: Sequence[str]) -> Sequence[str]:
    names = [name for name in wanted if name != ALL]
    if not names:
        return _cover(catalogue) if wanted else list(catalogue)[:MOST_TASKS]
    known = {task.name for tasks in catalogue.values() for task in tasks}
    check_known("tasks", names, known)
    # The smallest group that holds a task names the fewest others.
    groups = sorted(catalogue, key=lambda group: len(catalogue[group]))
    found = [next(group for group in groups if name in {t.name for t in catalogue[group]}) for name in names]
    return list(dict.fromkeys(found))


def _cover(catalogue: Mapping[str, Sequence[Task]]) -> list[str]:
    """Return groups that together hold every task, leaving out those that add none."""
    seen: set[str] = set()
    groups = []
    for group, tasks in catalogue.items():
        names = {task.name for task in tasks}
        if names - seen:
            groups.append(group)
            seen |= names
    return groups


def choose_tasks(tasks: Sequence[Task], wanted: Sequence[str]) -> Sequence[Task]:
    """Return the tasks that are played: those that were named, all, or a few from different groups."""
    by_name = {task.name: task for task in reversed(tasks)}
    if ALL in wanted:
        return list(tasks)
    if wanted and not any(by_name):
        names = ",".join(wanted)
        raise UsageError(
            f"--tasks={names}: no task has a name without --env.task. Try --env.task={names} instead."
        )
    check_known("tasks", wanted, by_name)
    if wanted:
        return [by_name[name] for name in dict.fromkeys(wanted)]
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(task.group, []).append(task)
    turns = (task for turn in zip_longest(*groups.values()) for task in turn if task is not None)
    return list(turns)[:MOST_TASKS]


def _policy(settings: PolicySettings | None, facts: BenchmarkFacts) -> str | None:
    """Return the policy that is to reach success; without a choice the scripted expert, where there is one."""
    if settings is not None:
        if settings.python:
            raise UsageError("--policy.python: the policy of a check runs beside the simulator; leave it out.")
        return policy_path(settings.type)
    path = policy_path("expert")
    expert: type[Policy] = load_object(path)
    try:
        expert.from_settings(expert.Settings(type="expert"), facts.spec)
    except UsageError:
        return None
    return path
