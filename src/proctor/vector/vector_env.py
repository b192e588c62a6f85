"""Vector environments in the caller's process and in processes of their own; nothing is built before a reset."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import sys
import threading
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing import forkserver
from queue import Empty
from typing import Any

from gymnasium.error import ResetNeeded
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.async_vector_env import AsyncState
from gymnasium.vector.utils import batch_space

from proctor.benchmarks.rendering import gl_variables
from proctor.engine.process import STEADY
from proctor.errors import SimulatorError, UsageError
from proctor.machine.processes import describe_exit
from proctor.vector.env import NEW_ROLLOUT, EnvFactory, metadata_of
from proctor.vector.spaces import action_space, checked_action, checked_seeds, observation_space

_STARTING = threading.Lock()
"""One environment starts at a time: LeRobot starts some in threads, and `_without_main` changes the process."""


class LazyVectorEnv(VectorEnv):  # type: ignore[misc]
    """Base of both kinds: nothing is built before the first reset, and nothing is left after a close."""

    factories: Sequence[EnvFactory]
    num_envs: int
    closed: bool
    autoreset_mode: AutoresetMode
    _open = False

    def _announce(self, factories: Sequence[EnvFactory], autoreset_mode: AutoresetMode) -> None:
        self.factories, self.autoreset_mode = tuple(factories), autoreset_mode
        benchmark, spec = factories[0].load(), factories[0].spec
        self.num_envs = len(factories)
        self.metadata = {**metadata_of(benchmark), "autoreset_mode": autoreset_mode}
        self.render_mode = "rgb_array"
        self.single_observation_space = observation_space(spec)
        self.observation_space = observation_space(spec, self.num_envs)
        self.single_action_space = action_space(spec)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def _ensure(self) -> None:
        """Start what a reset needs, unless it is there.

        By this name LeRobot's evaluation starts the next task's environments ahead, in a thread of its own.
        """
        with _STARTING:
            if not self._open:
                self._start()

    def _start(self) -> None:
        raise NotImplementedError

    def _begin(self, options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Get ready for a reset on request. Its options are never `None`, as an automatic one's are."""
        if not isinstance(options, Mapping | None):
            raise UsageError(f"options={options!r:.80}: must be a dict.")
        self._ensure()
        _watch_rollouts(self, bool(options and options.get(NEW_ROLLOUT)))
        return dict(options or {})

    def _require_open(self) -> None:
        if not self._open:
            raise ResetNeeded(f"{self!r} is not open. Call reset() first.")

    def _checked(self, actions: Any) -> Any:
        """Return actions that all environments can take. Refuses others before any environment has moved."""
        self._require_open()
        return checked_action(actions, self.action_space)

    @contextlib.contextmanager
    def _opening(self) -> Iterator[None]:
        """Let Gymnasium's own constructor run, and keep the spaces: their owner may have seeded them."""
        names = ("single_observation_space", "observation_space", "single_action_space", "action_space")
        kept = {name: getattr(self, name) for name in names}
        self.closed = False
        yield
        self.__dict__.update(kept)
        self._open = True

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return an attribute of each, or what its method returns; none needs a simulator before it has begun."""
        if self._open:
            answers: tuple[Any, ...] = super().call(name, *args, **kwargs)
            return answers
        found = [factory().get_wrapper_attr(name) for factory in self.factories]
        return tuple(value(*args, **kwargs) if callable(value) else value for value in found)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Notice what goes wrong inside of a call of Gymnasium's."""
        yield

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.factories[0].task.name}, num_envs={self.num_envs})"


def _when_open(kind: Any, name: str) -> Any:
    """Return a method of Gymnasium's that needs an open environment."""

    @functools.wraps(getattr(kind, name))
    def method(self: LazyVectorEnv, *args: Any, **kwargs: Any) -> Any:
        self._require_open()
        with self._watched():
            return getattr(kind, name)(self, *args, **kwargs)

    return method


class SyncSimulators(LazyVectorEnv, SyncVectorEnv):  # type: ignore[misc]
    """Environments in this process, stepped one after the other."""

    def __init__(self, factories: Sequence[EnvFactory], autoreset_mode: AutoresetMode) -> None:
        self._announce(factories, autoreset_mode)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode in each; the first reset builds the simulators."""
        seeds = checked_seeds(seed, self.num_envs)
        return super().reset(seed=seeds, options=self._begin(options))

    def step(self, actions: Any) -> Any:
        """Apply an action to each."""
        return super().step(self._checked(actions))

    set_attr = _when_open(SyncVectorEnv, "set_attr")

    def _start(self) -> None:
        with self._opening():
            SyncVectorEnv.__init__(self, self.factories, autoreset_mode=self.autoreset_mode)

    def render(self) -> Any:
        """Return a frame of each."""
        return self.call("render")

    def close_extras(self, **kwargs: Any) -> None:
        """Free the simulators; another reset builds new ones."""
        if self._open:
            self._open = False
            super().close_extras(**kwargs)


_ROLLOUTS: weakref.WeakKeyDictionary[LazyVectorEnv, threading.Thread] = weakref.WeakKeyDictionary()
"""The environments that LeRobot's rollout was the last to reset, and the thread that it runs in."""


def _watch_rollouts(env: LazyVectorEnv, new_rollout: bool) -> None:
    """Warn of rollouts of LeRobot's in several threads: these are its `max_parallel_tasks`."""
    _ROLLOUTS.pop(env, None)
    if not new_rollout:
        return
    here = threading.current_thread()
    if any(other._open and thread.is_alive() and thread is not here for other, thread in list(_ROLLOUTS.items())):
        warnings.warn(
            "LeRobot's rollouts of several tasks run at once in threads of one process (max_parallel_tasks). "
            "They share one policy, and what it keeps between steps of one task reaches the others: rewards and "
            "successes change. Use max_parallel_tasks=1, or proctor.evaluate, where tasks that run at once give "
            "the same results.",
            stacklevel=4,
        )
    _ROLLOUTS[env] = here


_PATIENCE = 10.0
"""Seconds that a worker gets to free its simulator before it is killed."""


class AsyncSimulators(LazyVectorEnv, AsyncVectorEnv):  # type: ignore[misc]
    """Environments in processes of their own, started by Python's fork server at the first reset."""

    parent_pipes: list[Any]
    processes: list[Any]
    error_queue: Any

    def __init__(self, factories: Sequence[EnvFactory], autoreset_mode: AutoresetMode) -> None:
        self._announce(factories, autoreset_mode)
        self._forget()

    def reset_async(self, seed: Any = None, options: dict[str, Any] | None = None) -> None:
        """Begin an episode in each; the first reset starts the workers."""
        seeds, options = checked_seeds(seed, self.num_envs), self._begin(options)
        with self._watched():
            super().reset_async(seed=seeds, options=options)

    def reset_wait(self, timeout: float | None = None) -> Any:
        """Wait for what `reset_async` began."""
        with self._watched():
            return super().reset_wait(timeout=timeout)

    def step_async(self, actions: Any) -> None:
        """Give each its action."""
        actions = self._checked(actions)
        with self._watched():
            super().step_async(actions)

    step_wait = _when_open(AsyncVectorEnv, "step_wait")
    call_async, call_wait = _when_open(AsyncVectorEnv, "call_async"), _when_open(AsyncVectorEnv, "call_wait")
    set_attr = _when_open(AsyncVectorEnv, "set_attr")

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """End the workers, politely unless they are busy; another reset starts new ones."""
        if self._open:
            busy = self._state is not AsyncState.DEFAULT
            self._stop(0.0 if terminate or busy else _PATIENCE if timeout is None else timeout)

    def _start(self) -> None:
        first = self.factories[0]
        variables = {**STEADY, **gl_variables(first.load(), first.spec)}
        workers = [replace(factory, environment=variables) for factory in self.factories]
        _preload()
        with self._watched(), self._opening(), _without_main():
            AsyncVectorEnv.__init__(
                self, workers, shared_memory=True, context="forkserver", autoreset_mode=self.autoreset_mode
            )

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Turn the end of a worker into an error that says so, and end the others: they are out of step now."""
        try:
            yield
        except (EOFError, ConnectionError) as error:
            error.__traceback__ = None  # it holds the buffer of what was being sent
            raise self._lost(error) from None
        except Exception:
            if not self._open:
                self._stop(0.0)  # the start failed; else it is the caller's mistake, and costs nothing
            raise
        except BaseException:  # Ctrl-C: whatever they are doing, nobody waits for it
            self._stop(0.0)
            raise

    def _raise_if_errors(self, successes: Iterable[bool]) -> None:
        if all(successes):
            return
        try:
            number, _, error, trace = self.error_queue.get(timeout=_PATIENCE)
        except Empty:
            error, number, trace = SimulatorError("an environment failed and could not say why"), -1, ""
        self._stop(0.0)
        error.add_note(f"In the process of environment {number}:\n{trace}")
        raise error

    def _lost(self, error: BaseException) -> SimulatorError:
        told = f"the process of an environment is gone ({type(error).__name__})"
        for number, process in enumerate(self.processes):
            process.join(0.2)  # the pipe may close a moment before the process is seen to end
            if process.exitcode is not None:
                told = f"the process of environment {number} {describe_exit(process.exitcode)}"
                break
        self._stop(0.0)
        return SimulatorError(f"{self.factories[0].task.name}: {told}. reset() starts new ones.")

    def _stop(self, patience: float) -> None:
        self._open, self.closed = False, True
        pipes = [pipe for pipe in self.parent_pipes if pipe is not None]
        if patience:
            for pipe in pipes:
                with contextlib.suppress(OSError):
                    pipe.send(("close", None))
        for process in self.processes:
            if process.pid is not None:
                process.join(patience)
                process.kill()
                process.join()
            process.close()
        for pipe in pipes:
            pipe.close()
        if self.error_queue is not None:
            self.error_queue.close()
            self.error_queue.join_thread()
        self._forget()

    def _forget(self) -> None:
        self.parent_pipes, self.processes = [], []
        self.error_queue = self.observations = None  # with them goes the shared memory
        self._state = AsyncState.DEFAULT


def _preload() -> None:
    """Let the fork server import what every worker needs, once, unless its owner has said what it imports.

    A worker then starts in hundredths of a second instead of tenths.
    """
    server = getattr(forkserver, "_forkserver", None)
    if getattr(server, "_preload_modules", None) == ["__main__"]:
        multiprocessing.set_forkserver_preload(["proctor.vector.env"])


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Start processes that do not run the caller's script again: they need nothing of it.

    So it needs no `if __name__ == "__main__"`, as everywhere in Proctor.
    """
    main = sys.modules["__main__"]
    kept: dict[str, Any] = {name: vars(main)[name] for name in ("__spec__", "__file__") if name in vars(main)}
    main.__spec__ = None
    vars(main).pop("__file__", None)
    try:
        yield
    finally:
        vars(main).update(kept)
