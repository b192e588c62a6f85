"""The plan: config in, a fixed list of episodes out. Nothing is decided later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from proctor.benchmarks.protocol import Episode, EpisodeKey, Task
from proctor.config.settings import MOST_EPISODES
from proctor.errors import UsageError

Ended = TypeVar("Ended")


def make_plan(tasks: Sequence[Task], n_episodes: int, seed: int) -> list[Episode]:
    """Return episode 0 of every task, then episode 1 of every task, and so on.

    Episode i of every task runs with `seed + i`, as in LeRobot. Resuming and sharding are filters on this
    list; any prefix of it is balanced over the tasks.
    """
    seen: set[tuple[str, int]] = set()
    for task in tasks:
        if (task.group, task.task_id) in seen:
            raise UsageError(
                f"--env.task names '{task.group}' twice. Name it once; use --eval.n_episodes for more."
            )
        seen.add((task.group, task.task_id))
    if n_episodes * len(tasks) > MOST_EPISODES:
        raise UsageError(
            f"--eval.n_episodes={n_episodes}: {n_episodes * len(tasks):,} episodes of {len(tasks):,} tasks, "
            f"and a run has at most {MOST_EPISODES:,}. Ask for {MOST_EPISODES // len(tasks):,} or fewer."
        )
    return [Episode(task, index, seed + index) for index in range(n_episodes) for task in tasks]


def repeats_note(plan: Sequence[Episode]) -> str | None:
    """Say how many episodes begin as an earlier one did: to a policy without chance they tell little new."""
    repeated = [episode for episode in plan if episode.repeats]
    if not repeated:
        return None
    groups = ", ".join(dict.fromkeys(episode.task.group for episode in repeated))
    return (
        f"{len(repeated)} of {len(plan)} episodes begin as an earlier one did: {groups} has "
        f"{repeated[0].task.initial_states} initial states a task. The policy draws no random numbers, "
        "so these episodes tell little new."
    )


def finished_prefix(plan: Sequence[Episode], ended: Mapping[EpisodeKey, Ended]) -> list[Ended]:
    """Return what the plan's episodes came to, up to the first that has not ended.

    Whole pairs of two runs, and a rule that looks again and again, need episodes that were chosen beforehand;
    those that happen to have ended are the quick ones.
    """
    prefix = []
    for episode in plan:
        if episode.key not in ended:
            break
        prefix.append(ended[episode.key])
    return prefix


def shard_of(plan: Sequence[Episode], shard_id: int, num_shards: int) -> list[Episode]:
    """Return every `num_shards`-th episode of a plan, from `shard_id` on; the shards together are the plan.

    Because the plan takes the tasks in turn, shards differ by one episode at most. A plan that is extended by
    more episodes per task extends its shards.

    >>> shard_of("abcdefg", 1, 3)
    ['b', 'e']
    """
    return list(plan[shard_id::num_shards])
