"""Proof that a process works with the policy and the benchmark that its run began with.

It is given when a process has loaded them, and again whenever a file has changed that it may have read since: a
module imported late, weights opened at the first question. A process that cannot give it ends the run, before any
result of it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from proctor.benchmarks.protocol import Benchmark
from proctor.config.content_hashes import UnreadFiles
from proctor.config.plain_values import to_plain
from proctor.config.settings import PolicySettings, identity_values
from proctor.identity import benchmark_identity, check_unchanged, policy_code, policy_identity
from proctor.policies.protocol import Policy


class BenchmarkProof:
    """The benchmark that a worker has loaded. Called, it raises `ChangedError` if that may have become another.

    Args:
        path: where its class is.
        benchmark: the object.
        expected: what the run began with.
    """

    def __init__(self, path: str, benchmark: Benchmark, expected: Mapping[str, Any]) -> None:
        self._path, self._settings, self._expected = path, benchmark.settings, expected
        code = [path, *(f"{module}:" for module in expected["modules"])]
        self._unread = UnreadFiles(code, to_plain(identity_values(benchmark.settings)))
        self._check()

    def __call__(self) -> None:
        """Give it again, if anything has changed."""
        if self._unread.changed():
            self._check()
            self._unread.look_again()

    def _check(self) -> None:
        names = self._expected["versions"], self._expected["modules"]
        now = benchmark_identity(self._path, self._settings, *names)
        check_unchanged("benchmark", self._expected, now)


class PolicyProof:
    """The policy that a process has loaded. Called, it raises `ChangedError` if that may have become another.

    Args:
        path: where its class is.
        settings: its settings.
        load: loads it.
        expected: what the run began with; `None`: this process is the first.
    """

    def __init__(
        self, path: str, settings: PolicySettings, load: Callable[[], Policy], expected: Mapping[str, Any] | None
    ) -> None:
        self._path, self._settings = path, settings
        before = policy_code(path, settings)
        unread = _unread(path, settings)
        self.policy = load()
        self.identity = policy_identity(policy_code(path, settings), self.policy.spec)
        if unread.changed():  # edited while it was loaded
            check_unchanged("policy", before, policy_code(path, settings))
        check_unchanged("policy", self.identity if expected is None else expected, self.identity)
        self._unread = _unread(path, settings)

    def __call__(self) -> None:
        """Give it again, if anything has changed."""
        if self._unread.changed():
            code = policy_code(self._path, self._settings)
            check_unchanged("policy", {key: self.identity[key] for key in code}, code)
            self._unread.look_again()


def _unread(path: str, settings: PolicySettings) -> UnreadFiles:
    return UnreadFiles([path], to_plain(identity_values(settings)))
