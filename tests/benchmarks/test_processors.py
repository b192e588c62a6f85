"""Steps between a simulator and a policy: the benchmark's own, or those that the policy names instead."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import SUPPORT, digests, tiny_tree
from processed import SUM, Doubled, ProcessedTiny, SumAndMirror
from proctor.benchmarks.processors import (
    EnvProcessor,
    ProcessedSimulator,
    make_simulator,
    processors_for,
    spec_behind,
)
from proctor.config.content_hashes import source_hash
from proctor.config.load import build_settings
from proctor.engine.evaluation import evaluate_settings
from proctor.errors import UsageError
from proctor.policies.protocol import PolicySpec
from proctor.results import Evaluation
from proctor.types import Episode
from tiny import IMAGE, STATE, TinySettings

SOURCE = SUPPORT / "processed.py"


def run(output_dir: Path, name: str, **changes: Any) -> Evaluation:
    tree = tiny_tree(output_dir, env={"type": f"{SOURCE}:ProcessedTiny"}, **changes)
    tree["policy"]["path"] = f"{SOURCE}:{name}"
    return evaluate_settings(build_settings(tree))


def benchmark() -> ProcessedTiny:
    return ProcessedTiny(TinySettings(type="tiny", task="a"))


def test_the_spec_behind_the_steps_is_what_a_policy_sees() -> None:
    spec = spec_behind(processors_for(benchmark(), None), benchmark().spec)
    assert set(spec.features) == {STATE, IMAGE, SUM}
    assert (spec.action_size, benchmark().spec.action_size) == (1, 2)


def test_actions_that_a_step_changes_are_not_clipped_to_the_simulators_bounds() -> None:
    clipping = replace(benchmark().spec, clips_actions=True)
    steps = processors_for(benchmark(), None)
    assert any(type(step).action is not EnvProcessor.action for step in steps)
    assert not spec_behind(steps, clipping).clips_actions
    assert spec_behind([EnvProcessor()], clipping).clips_actions


def test_only_what_the_looked_at_keys_are_made_of_is_looked_at() -> None:
    (task,) = benchmark().tasks()
    plain: Any = benchmark().make_simulator(task)
    looked: list[frozenset[str]] = []
    observe_before = plain.observe
    behind = ProcessedSimulator(plain, [SumAndMirror(), Doubled()])

    def observe() -> Any:
        looked.append(plain._look)
        return observe_before()

    plain.observe = observe
    behind.reset(Episode(task, 0, 1), frozenset({SUM}))
    assert set(behind.observe()) == {SUM}
    assert looked == [frozenset({STATE})]


def test_actions_go_through_the_steps_from_the_policys_side() -> None:
    (task,) = benchmark().tasks()
    episode, look = Episode(task, 0, 1), frozenset({STATE})
    plain, behind = (
        benchmark().make_simulator(task),
        make_simulator(benchmark(), task, [SumAndMirror(), Doubled()]),
    )
    plain.reset(episode, look)
    behind.reset(episode, look)
    assert plain.step(np.array([0.3, 0.3]), look) == behind.step(np.array([0.3]), look)
    assert (2 * plain.observe()[STATE] == behind.observe()[STATE]).all()
    assert (plain.render() == behind.render()).all()


@pytest.mark.parametrize("placement", ["central", "worker"])
def test_a_run_is_the_same_wherever_the_policy_is(tmp_path: Path, placement: str) -> None:
    one = run(tmp_path / "one", "Follows", eval={"use_async_envs": False})
    other = run(tmp_path / placement, "Follows", policy={"placement": placement})
    assert one.error is None
    assert digests(one) == digests(other)


def test_a_policy_may_want_none(tmp_path: Path) -> None:
    without = run(tmp_path / "without", "WithoutAny")
    tree = tiny_tree(tmp_path / "plain", policy={"path": f"{SOURCE}:WithoutAny"})
    plain = evaluate_settings(build_settings(tree))
    assert without.error is None
    assert digests(without) == digests(plain)


def test_a_policy_may_name_others_by_their_class(tmp_path: Path) -> None:
    own, none = run(tmp_path / "own", "WithItsOwn"), run(tmp_path / "none", "WithoutAny")
    assert own.error is None
    assert digests(own) != digests(none)
    content = source_hash(f"{SOURCE}:Doubled")
    assert own.info["run"]["identity"]["policy"]["env_processors"] == [f"source {content}:Doubled"]


def test_what_it_names_may_be_missing_or_no_processor() -> None:
    with pytest.raises(UsageError, match=r"processed\.py has no 'Tripled'\."):
        processors_for(benchmark(), [f"{SOURCE}:Tripled"])
    with pytest.raises(UsageError, match=r"which is no proctor\.EnvProcessor"):
        processors_for(benchmark(), [f"{SOURCE}:Follows"])


def test_a_spec_names_them_for_other_processes() -> None:
    spec = PolicySpec(env_processors=(Doubled, "numpy:ndarray"))
    assert spec.env_processors == ("processed:Doubled", "numpy:ndarray")
    assert PolicySpec.from_wire(spec.to_wire()) == spec


def test_every_file_of_ours_that_the_walk_through_all_steps_names_is_there() -> None:
    root = Path(__file__).parents[2]
    walk = (root / "docs" / "processors.md").read_text().partition("## The whole way")[2].partition("\n## ")[0]
    named = [name for name in re.findall(r"`([\w/]+\.py)`", walk) if not name.startswith("lerobot/")]
    assert len(named) > 8
    assert [name for name in named if not (root / "src" / "proctor" / name).is_file()] == []
