"""What a server knows of one connection, and how a message becomes a question to the policy.

Nothing in a message is trusted: what the policy is shown has the keys, shapes and types that it was made for, or
the client is told in one line what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from proctor.engine.observation_windows import Windows
from proctor.engine.policy_session import PolicySession, all_finite, looked_at
from proctor.files import clip
from proctor.policies.protocol import PolicySpec, Window
from proctor.policies.remote.handshake import EPISODE, PROMPT, RESET, SEED, STEP, TASK, WINDOW
from proctor.types import BenchmarkSpec, Feature, Observation, Task

_PLAIN = (int, str, bytes, float, type(None))
"""What can be compared: an array would be, number by number."""

_ENDLESS = 1 << 31
"""The step limit of a task of which a plain client says only its prompt."""


class Refusal(Exception):
    """A message that cannot be answered; the text goes to the client, in one line whatever it quotes."""

    def __init__(self, text: str) -> None:
        super().__init__(" ".join(text.split()))


@dataclass(frozen=True)
class PolicyNeeds:
    """What the served policy needs, settled once: observations by name, the window, and the known tasks."""

    features: dict[str, Feature]
    aliases: dict[str, str]
    offsets: tuple[int, ...]
    tasks: dict[str, Task]

    @classmethod
    def of(cls, policy: PolicySpec, benchmark: BenchmarkSpec, tasks: Sequence[Task]) -> PolicyNeeds:
        """Return what a policy needs on a benchmark."""
        return cls(
            features={key: benchmark.every[key] for key in sorted(looked_at(policy, benchmark))},
            aliases=benchmark.sources,
            offsets=policy.observation_offsets,
            tasks={task.prompt: task for task in tasks},
        )


@dataclass(frozen=True)
class EpisodeStart:
    """How a new episode begins."""

    task: Task
    generator: np.random.Generator


@dataclass(frozen=True)
class Question:
    """One message, checked: what the policy is to be shown, and whether an episode begins with it."""

    window: Window
    prompt: str | None
    start: EpisodeStart | None


class ClientSession:
    """One connection's episode: its session at the policy, and what it has shown so far."""

    def __init__(self, needs: PolicyNeeds) -> None:
        self._needs = needs
        self.episode: PolicySession | None = None
        self._episode: Any = None
        self._shown = False
        self._last = -1
        self._windows = Windows(needs.offsets, 1)

    def read(self, message: Any) -> Question:
        """Return a message as a question. Raises `Refusal`."""
        if not isinstance(message, dict):
            raise Refusal(f"expected a map of observations, got {type(message).__name__}")
        prompt = message.get(PROMPT)
        if prompt is not None and not isinstance(prompt, str):
            raise Refusal(f"'{PROMPT}' must be text, got {type(prompt).__name__}")
        episode = message.get(EPISODE)
        if not isinstance(episode, _PLAIN):
            raise Refusal(f"'{EPISODE}' must be a number or a text, got {type(episode).__name__}")
        begins = (
            not self._shown or message.get(RESET) is True or (episode is not None and episode != self._episode)
        )
        start = EpisodeStart(self._task(message, prompt or ""), _generator(message)) if begins else None
        if begins:
            self._windows, self._last = Windows(self._needs.offsets, 1), -1
            self._episode = episode
        window = self._window(message)
        self._shown = True
        return Question(window, prompt, start)

    def _task(self, message: dict[Any, Any], prompt: str) -> Task:
        wire = message.get(TASK)
        if wire is None:
            return self._needs.tasks.get(prompt) or Task("", 0, prompt or "remote", prompt, _ENDLESS)
        kinds = {name: get_args(kind) or (kind,) for name, kind in get_type_hints(Task).items()}
        fits = isinstance(wire, dict) and wire.keys() == kinds.keys()
        if not fits or any(type(wire[name]) not in kinds[name] for name in kinds):
            raise Refusal(f"'{TASK}' must be a map of {', '.join(kinds)}")
        return Task(**wire)

    def _window(self, message: dict[Any, Any]) -> Window:
        steps, offsets = message.get(WINDOW), self._needs.offsets
        if steps is not None and type(steps) is not int:
            raise Refusal(f"'{WINDOW}' must be a whole number, got {type(steps).__name__}")
        if len(offsets) == 1 and steps in (None, 1):
            self._windows.add(0, self._observation(message, None))
            return self._windows.at(0)
        if steps is None:
            return self._from_single_steps(message)
        if steps != len(offsets):
            raise Refusal(f"'{WINDOW}' is {str(steps)[:20]}; the policy looks at {len(offsets)} steps")
        stacked = self._observation(message, steps)
        return tuple({key: array[place] for key, array in stacked.items()} for place in range(steps))

    def _from_single_steps(self, message: dict[Any, Any]) -> Window:
        """Return the window that a client's single steps make, if it proves that none between is missing.

        openpi's clients usually send one message per chunk of actions: what they have sent before is no window.
        """
        offsets, step = self._needs.offsets, message.get(STEP)
        if step is None:
            raise Refusal(
                f"the policy looks at {len(offsets)} steps ({', '.join(map(str, offsets))}), and this client does "
                f"not say which it sends. Send all with '{WINDOW}', or every step with its number as '{STEP}'"
            )
        if type(step) is not int or not self._last < step < _ENDLESS:
            raise Refusal(f"'{STEP}' is {clip(step, 20)}; steps are counted from 0 in every episode")
        self._last = step
        self._windows.add(step, self._observation(message, None))
        try:
            return self._windows.at(step)
        except KeyError as missing:
            raise Refusal(f"at step {step} the policy looks at step {missing}, which was not sent") from None

    def _observation(self, message: dict[Any, Any], steps: int | None) -> Observation:
        return {
            key: _checked(key, self._find(message, key), feature, steps)
            for key, feature in self._needs.features.items()
        }

    def _find(self, message: dict[Any, Any], key: str) -> Any:
        for name in (key, self._needs.aliases.get(key)):
            if name in message:
                return message[name]
        sent = ", ".join(sorted(str(name)[:40] for name in message)[:20]) or "nothing"
        raise Refusal(f"no '{key}' in the message, which has {sent}. Needed: {', '.join(self._needs.features)}")


def _generator(message: dict[Any, Any]) -> np.random.Generator:
    words = message.get(SEED)
    if words is None:
        return np.random.Generator(np.random.Philox())
    whole = isinstance(words, list) and len(words) == 2 and all(type(word) is int for word in words)
    if not whole or not all(0 <= word < 1 << 64 for word in words):
        raise Refusal(f"'{SEED}' must be two whole numbers below 2**64")
    return np.random.Generator(np.random.Philox(key=np.array(words, np.uint64)))


def _checked(key: str, value: Any, feature: Feature, steps: int | None) -> NDArray[Any]:
    shape = feature.shape if steps is None else (steps, *feature.shape)
    wanted = np.dtype(feature.dtype)
    if not isinstance(value, np.ndarray):
        raise Refusal(f"'{key}' must be an array, got {type(value).__name__}")
    # Numbers may come narrower or wider than the policy's floats; nothing else is converted.
    if value.shape != shape or not (value.dtype == wanted or (wanted.kind == "f" and value.dtype.kind in "fiu")):
        raise Refusal(f"'{key}' is {value.dtype}{value.shape}, the policy needs {wanted}{shape}")
    array: NDArray[Any] = value.astype(wanted, copy=False)
    if wanted.kind == "f" and not all_finite(array):
        raise Refusal(f"'{key}' has NaN or infinity")
    return array
