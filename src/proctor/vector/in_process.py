"""A vector environment in the caller's process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium.vector import SyncVectorEnv

from proctor.vector.factory import EnvFactory
from proctor.vector.lazy import AUTORESET, Lazy


class SyncSimulators(Lazy, SyncVectorEnv):  # type: ignore[misc]
    """Environments in this process, stepped one after the other."""

    def __init__(self, factories: Sequence[EnvFactory]) -> None:
        self._announce(factories)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode in each; the first reset builds the simulators."""
        if not self._open:
            with self._opening():
                SyncVectorEnv.__init__(self, self.factories, autoreset_mode=AUTORESET)
        return super().reset(seed=seed, options=options)

    def step(self, actions: Any) -> Any:
        """Step each once."""
        self._check_open()
        return super().step(actions)

    def render(self) -> Any:
        """Return a frame of each."""
        return self.call("render")

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return an attribute of each, or what its method returns."""
        return super().call(name, *args, **kwargs) if self._open else self._answer(name, *args, **kwargs)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each."""
        self._check_open()
        super().set_attr(name, values)

    def close_extras(self, **kwargs: Any) -> None:
        """Free the simulators; another reset builds new ones."""
        if self._open:
            self._open = False
            super().close_extras(**kwargs)
