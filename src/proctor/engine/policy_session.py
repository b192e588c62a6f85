"""An episode's session with the policy: its memory, its generator, and the checks on what it is answered.

Every call of a policy goes through `answer`, wherever the policy runs: in the host, in a worker, in this
process. So every placement gives the same bits and the same errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.blame import frames_of, named
from proctor.engine.randomness import episode_generator
from proctor.errors import PolicyError, PolicyLostError, RunError, UsageError
from proctor.files import clip
from proctor.policies.protocol import Policy, PolicySpec
from proctor.types import BenchmarkSpec, Episode, Observation, Task


class PolicySession:
    """One episode as its policy sees it."""

    __slots__ = ("chunk_length", "episode", "generator", "memory", "prompt", "step")

    def __init__(self, policy: Policy, episode: Episode) -> None:
        self.episode = episode
        self.generator = episode_generator(episode)
        self.step = 0
        self.prompt = episode.task.prompt
        self.chunk_length = policy.spec.action_steps
        try:
            self.memory = policy.begin(episode.task)
        except (RunError, PolicyLostError):
            raise  # it says itself what is wrong
        except BaseException as error:  # also sys.exit(), which would end a thread without a word
            raise _fault(self, f"begin() raised {named(error)}", frames_of(error)) from error


def answer(
    policy: Policy, action_size: int, sessions: Sequence[PolicySession], windows: Sequence[Sequence[Observation]]
) -> list[NDArray[Any]]:
    """Run one batch through the policy; returns a checked chunk per session and moves the sessions on."""
    shown = [
        tuple([{**observation, "task": session.prompt} for observation in window])
        for session, window in zip(sessions, windows, strict=True)
    ]
    try:
        answers = policy.act(
            shown, [session.memory for session in sessions], [session.generator for session in sessions]
        )
        if answers is None:
            raise _fault(sessions[0], "returned None instead of Actions. Is a return missing?")
        chunks, memories = map(list, answers)
    except (RunError, PolicyLostError):
        raise
    except BaseException as error:
        raise _fault(sessions[0], f"raised {named(error)}", frames_of(error)) from error
    if len(chunks) != len(sessions) or len(memories) != len(sessions):
        what = f"returned {len(chunks)} chunks and {len(memories)} memories for {len(sessions)} episodes"
        raise _fault(sessions[0], what)
    checked = []
    for session, chunk, memory in zip(sessions, chunks, memories, strict=True):
        checked.append(_checked(session, chunk, action_size))
        session.memory = memory
        session.step += len(checked[-1])
    return checked


def _checked(session: PolicySession, chunk: Any, action_size: int) -> NDArray[Any]:
    try:
        array = np.asarray(chunk)
        if array.dtype == object and array.size == 1 and array.item() is None:
            raise _fault(session, "returned None instead of an action. Is a return missing?")
    except PolicyError:
        raise
    except Exception as error:
        raise _fault(session, f"returned no array of actions: {error}") from error
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] != action_size:
        raise _fault(session, f"returned actions of shape {array.shape}; a chunk has shape (steps, {action_size})")
    if session.chunk_length is not None and len(array) != session.chunk_length:
        what = f"returned a chunk of {len(array)}; its spec says action_steps={session.chunk_length}"
        raise _fault(session, what)
    if array.dtype.kind not in "fiu":
        raise _fault(session, f"returned actions of type {array.dtype}; numbers are needed")
    if not all_finite(array):
        raise _fault(session, "returned an action with NaN or infinity")
    return array


def all_finite(array: NDArray[Any]) -> bool:
    """Whether no number is NaN or infinite. Looking for a false byte costs a third of `.all()` on small arrays."""
    return b"\0" not in np.isfinite(array).tobytes()


def _fault(session: PolicySession, what: str, frames: Sequence[str] = ()) -> PolicyError:
    episode = session.episode
    where = f"(task {episode.task.name}, episode {episode.index}, step {session.step})"
    return PolicyError("\n".join([f"the policy {what} {where}", *frames]))


def looked_at(spec: PolicySpec, benchmark: BenchmarkSpec) -> frozenset[str]:
    """Return the observation keys that the policy looks at on this benchmark."""
    return frozenset(benchmark.features if spec.observation_keys is None else spec.observation_keys)


def check_fit(spec: PolicySpec, benchmark: BenchmarkSpec) -> None:
    """Refuse a policy that cannot work on a benchmark, before any simulator starts."""
    missing = sorted(looked_at(spec, benchmark) - benchmark.every.keys())
    if missing:
        raise UsageError(
            f"the policy looks at {', '.join(missing)}, which {benchmark.name} does not give. "
            f"It gives {', '.join(sorted(benchmark.features))} under these --env settings."
        )
    if spec.action_size is not None and spec.action_size != benchmark.action_size:
        raise UsageError(
            f"the policy returns actions of {spec.action_size} numbers, "
            f"{benchmark.name} takes {benchmark.action_size}."
        )


def check_tasks(spec: PolicySpec, tasks: Sequence[Task]) -> None:
    """Refuse tasks that a policy says it knows nothing of."""
    if spec.tasks is None:
        return
    unknown = [task.name for task in tasks if not {task.name, task.prompt} & {*spec.tasks}]
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        raise UsageError(
            f"the policy was not trained on {', '.join(map(clip, unknown[:3]))}{more}. It knows "
            f"{clip(', '.join(spec.tasks), 300)}."
        )
