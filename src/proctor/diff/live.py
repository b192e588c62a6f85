"""One episode, stepped by another harness and by ours: `python -m proctor.diff.live`, where both have packages.

LeRobot's loop needs policy and simulator in one interpreter, and so does any other, so ours runs there too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proctor import __version__
from proctor.benchmarks.facts import asking, make_benchmark
from proctor.benchmarks.processors import processors_for, spec_behind
from proctor.benchmarks.protocol import Benchmark
from proctor.benchmarks.rendering import find_renderer
from proctor.blame import users_code
from proctor.config.load import build_settings
from proctor.config.registry import benchmark_path, load_object, policy_path
from proctor.config.settings import Settings
from proctor.diff.findings import LiveDiff
from proctor.diff.harness import OtherSide, load_harness
from proctor.diff.ours import OurPolicy, OurSimulators, closing
from proctor.diff.trace import record
from proctor.diff.walk import Subject, compare
from proctor.engine.process import STEADY
from proctor.errors import NoPicturesError, ProctorError, UsageError
from proctor.files import clip
from proctor.installation import install_command, other_version
from proctor.machine.processes import ask_module, reply
from proctor.plan import chosen
from proctor.policies.protocol import Policy
from proctor.replay.replayer import settings_of
from proctor.store.stored_run import StoredRun
from proctor.types import BenchmarkSpec, Episode, Task

LEROBOT = "proctor.diff.lerobot_harness:LeRobotHarness"

_RUNS_ELSEWHERE = ("python", "placement")
"""Settings of a policy or benchmark that say in which process it runs: here it is this one."""


@dataclass(frozen=True)
class LiveQuestion:
    """What is to be stepped.

    Attributes:
        settings: those of the run: policy, env, rename_map, seed.
        episode: the episode.
        harness: where the other harness is made.
        steps: how many are compared at most; 0: to the end.
        seeds: of the run's other episodes.
    """

    settings: dict[str, Any]
    episode: Episode
    harness: str = LEROBOT
    steps: int = 0
    seeds: tuple[int, ...] = ()


class OurSide:
    """Our benchmark and policy of a run.

    Args:
        settings: those of the run.
        policy: the policy, if it is loaded already; else it is.
    """

    def __init__(self, settings: Mapping[str, Any], policy: Policy | None = None) -> None:
        given = build_settings(json.loads(json.dumps(settings)))
        self._benchmark = make_benchmark(benchmark_path(given.env.type), given.env)
        with users_code(f"--env.type={given.env.type}: the benchmark could not be made ready"):
            self._benchmark.check_installed()
        if policy is None:
            kind: type[Policy] = load_object(policy_path(given.policy.type))
            plain = _spec_of(self._benchmark, None, given)
            with users_code("the policy could not be loaded"):
                policy = kind.from_settings(given.policy, plain)
        self._processors = policy.spec.env_processors
        self.spec = _spec_of(self._benchmark, self._processors, given)
        self.policy = OurPolicy(policy, self.spec)

    @property
    def tasks(self) -> Sequence[Task]:
        """The benchmark's tasks."""
        return self._benchmark.tasks()

    def compare(self, other: OtherSide, question: LiveQuestion) -> LiveDiff:
        """Let the other harness play an episode, and go through what it did."""
        episode = question.episode
        most = min(question.steps or episode.task.max_steps + 1, episode.task.max_steps + 1)
        try:
            trace = record(other, episode, most)
        finally:
            other.close()
        if not trace.steps:
            raise UsageError(
                f"the other harness ({clip(trace.name)}) has ended the episode before its first step."
            )
        with closing(OurSimulators(self._benchmark, episode.task, self._processors)) as simulators:
            return compare(Subject(simulators, self.policy, self.spec, episode, trace, question.seeds))


def _spec_of(benchmark: Benchmark, processors: Sequence[str] | None, given: Settings) -> BenchmarkSpec:
    with asking(given.env):
        plain = benchmark.spec
    return spec_behind(processors_for(benchmark, processors), plain).renamed(given.rename_map)


def question_of(run: StoredRun, words: str, harness: str | None, steps: int) -> LiveQuestion:
    """Return what is to be stepped: an episode of a run, with the run's settings.

    Raises:
        UsageError: there is no such episode, or LeRobot's loop cannot play it.
    """
    episodes = chosen(run.plan, words) if words else run.plan[:1]
    if len(episodes) != 1:
        raise UsageError(
            f"{clip(words)} names {len(episodes)} episodes, and one is stepped at a time. Name it: "
            f"{run.plan[0].task.name}:{run.plan[0].index}."
        )
    if run.bundle is not None:
        raise UsageError(f"{run.shown} is a bundle, which does not bring its policy. Name the run directory.")
    policy = dict(run.settings.get("policy") or {})
    if harness is None and policy.get("type") != "lerobot":
        raise UsageError(
            f"--live steps LeRobot's own loop, which needs a LeRobot checkpoint, and the policy of {run.shown} is "
            f"{clip(run.policy)}. Name a harness of yours: --harness=file.py:factory (docs/diff.md)."
        )
    tree = {**settings_of(run), "policy": policy, "output_dir": None, "display": "none"}
    tree = {name: value for name, value in tree.items() if value is not None}
    for section in ("policy", "env"):
        tree[section] = {name: value for name, value in tree[section].items() if name not in _RUNS_ELSEWHERE}
    seeds = tuple(dict.fromkeys(episode.seed for episode in run.plan[:50]))
    return LiveQuestion(tree, episodes[0], harness or LEROBOT, steps, seeds)


def diff_live(question: LiveQuestion, python: str | None) -> LiveDiff:
    """Step an episode in a process of its own.

    Args:
        question: what is to be stepped.
        python: the interpreter that has what both sides need; `None`: this one.

    Raises:
        UsageError: something is not there or does not fit; says what to do.
    """
    asked = {
        "version": __version__,
        "settings": question.settings,
        "episode": question.episode.to_wire(),
        "harness": question.harness,
        "steps": question.steps,
        "seeds": list(question.seeds),
        "sys_path": [*(sys.path if python is None else []), str(Path.cwd())],
    }
    try:
        done = ask_module(
            "proctor.diff.live",
            python=python,
            variables={**STEADY, **_drawing(question, python)},
            question=json.dumps(asked),
            seconds=None,
        )
    except OSError as error:
        raise UsageError(f"--python={clip(python)}: {error.strerror or error}.") from None
    if done.reply is None:
        hint = f" Run: {install_command('lerobot', f'{python or sys.executable} -m pip')}"
        missing = "No module named" in done.last_words
        raise UsageError(
            f"the two harnesses could not be stepped: {clip(done.last_words)}.{hint if missing else ''}"
        )
    if "usage" in done.reply:
        raise UsageError(done.reply["usage"])
    return LiveDiff.from_wire(done.reply)


def _drawing(question: LiveQuestion, python: str | None) -> Mapping[str, str]:
    """Return the variables that choose a GL, where one is needed."""
    benchmark: type[Benchmark] = load_object(benchmark_path(str(question.settings["env"]["type"])))
    if not benchmark.uses_gl:
        return {}
    try:
        return find_renderer(python).env
    except NoPicturesError:
        return {}  # said by whoever draws


def main() -> None:
    """Answer our parent: one line of JSON on standard output."""
    asked = json.load(sys.stdin)
    sys.path.extend(path for path in asked["sys_path"] if path not in sys.path)
    answer: dict[str, Any]
    try:
        problem = other_version(asked["version"])
        if problem is not None:
            raise UsageError(problem)
        question = LiveQuestion(
            asked["settings"],
            Episode.from_wire(asked["episode"]),
            asked["harness"],
            asked["steps"],
            tuple(asked["seeds"]),
        )
        if question.harness == LEROBOT:
            from proctor.policies.lerobot.checkpoint import check_lerobot

            check_lerobot()
        ours = OurSide(question.settings)
        answer = ours.compare(load_harness(question.harness, question.settings), question).to_wire()
    except ProctorError as error:
        answer = {"usage": str(error)}
    reply(answer)


if __name__ == "__main__":
    main()
