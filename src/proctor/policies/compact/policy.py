"""A compact checkpoint as a policy, also the one that comes with Proctor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from proctor.config.registry import SHIPPED
from proctor.config.settings import EXECUTION, AtLeast, Locates, PolicySettings
from proctor.errors import UsageError, check_known
from proctor.files import is_there
from proctor.policies.compact.checkpoint import CompactCheckpoint, open_checkpoint
from proctor.policies.compact.network import CompactNetwork
from proctor.policies.protocol import Actions, Generators, Memory, Policy, PolicySpec, Window
from proctor.types import BenchmarkSpec, Task

CHECKPOINTS = Path(__file__).with_name("checkpoints")
"""Those that come with Proctor, each with its model card."""

DEFAULT = f"{SHIPPED}metaworld-mt50"


@dataclass(frozen=True, kw_only=True)
class CompactSettings(PolicySettings):
    """`--policy.*` of a compact policy."""

    # Where it lies is no matter: its fingerprint says what it is.
    path: Annotated[
        str | None,
        Locates("checkpoint"),
        EXECUTION,
        f"directory of a checkpoint, or one that comes with Proctor [{DEFAULT}]",
    ] = None
    n_action_steps: Annotated[
        int | None, AtLeast(1), EXECUTION, "actions executed before it looks again [the checkpoint's]"
    ] = None


class CompactPolicy(Policy):
    """A small network of Proctor's own, in NumPy; one for Meta-World's 50 tasks comes with it."""

    Settings = CompactSettings
    light = True

    def __init__(self, checkpoint: CompactCheckpoint) -> None:
        self._config, self._network = checkpoint.config, CompactNetwork(checkpoint)
        self._numbers = {task: number for number, task in enumerate(checkpoint.config.tasks)}
        self._spec = PolicySpec(
            observation_keys=tuple(self._config.inputs),
            action_size=self._config.action_size,
            action_steps=self._config.n_action_steps,
            tasks=self._config.tasks,
            fingerprint=checkpoint.fingerprint,
        )

    @classmethod
    def from_settings(cls, settings: CompactSettings, benchmark: BenchmarkSpec) -> CompactPolicy:
        """Read the checkpoint, and refuse it if the benchmark gives other shapes than it was trained on."""
        checkpoint = open_checkpoint(_directory(settings.path or DEFAULT))
        try:
            checkpoint = checkpoint.executing(settings.n_action_steps)
        except ValueError as error:
            raise UsageError(f"--policy.n_action_steps={settings.n_action_steps}: {error}.") from None
        for key, shape in checkpoint.config.inputs.items():
            given = benchmark.every.get(key)
            if given is not None and given.shape != shape:
                raise UsageError(
                    f"the policy was trained on '{key}' of shape {shape}, and {benchmark.name} gives "
                    f"{given.shape} under these --env settings.{_picture_hint(shape)}"
                )
        return cls(checkpoint)

    @classmethod
    def reloads(cls, settings: CompactSettings) -> bool:
        """All of it is read from files, and none of them is code."""
        return True

    @property
    def spec(self) -> PolicySpec:
        """It looks at what it was trained on, and knows the tasks that it was trained on."""
        return self._spec

    def begin(self, task: Task) -> Memory:
        """Return the number of the task."""
        return self._numbers[task.name if task.name in self._numbers else task.prompt]

    def act(self, windows: Sequence[Window], memories: Sequence[Memory], generators: Generators) -> Actions:
        """Return the beginning of each chunk."""
        steps = self._config.n_action_steps
        chunks: list[Any] = [
            self._network(window[-1], task)[:steps] for window, task in zip(windows, memories, strict=True)
        ]
        return Actions(chunks, memories)


def _directory(path: str) -> Path:
    """Return where a checkpoint lies. Raises `UsageError` if it is said to come with Proctor and does not."""
    known = [f"{SHIPPED}{folder.name}" for folder in sorted(CHECKPOINTS.iterdir())]
    if path in known:
        return CHECKPOINTS / path.removeprefix(SHIPPED)
    if path.startswith(SHIPPED) and not is_there(path):
        check_known("policy.path", [path], known)
    return Path(path).expanduser()


def _picture_hint(shape: tuple[int, ...]) -> str:
    if len(shape) != 3:
        return ""
    return f" Set --env.observation_height={shape[0]} --env.observation_width={shape[1]}"
