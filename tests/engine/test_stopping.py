"""A rule ends a run at the same episode of the plan, however many workers there are, and the run can go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import proctor
from harness import SUPPORT, digests, flags, run_cli, run_tiny, tiny_tree
from proctor.config.load import build_settings
from proctor.engine.stopping import StopRules, rules_for
from proctor.errors import UsageError
from proctor.plan import make_plan
from proctor.results import Evaluation
from proctor.store.outcomes import Outcomes
from proctor.store.schema import EpisodeRecord
from proctor.types import Episode, Task

PRECISE = "ci<=0.12"


def run(output_dir: Path, workers: int = 2, **options: Any) -> Evaluation:
    settings = {"batch_size": workers, "stop_when": PRECISE, **options.pop("eval", {})}
    return run_tiny(output_dir, n_episodes=options.pop("n_episodes", 60), eval=settings, **options)


def stopped(evaluation: Evaluation) -> dict[str, Any]:
    assert evaluation.error is None
    found: dict[str, Any] = evaluation.info["run"]["stopped"]
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    return run_tiny(tmp_path_factory.mktemp("whole") / "run", n_episodes=60, eval={"batch_size": 3})


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    """A run of one worker that a rule has ended."""
    return run(tmp_path_factory.mktemp("one") / "run", workers=1)


def test_a_run_ends_when_the_rate_is_known_well_enough(one: Evaluation, whole: Evaluation) -> None:
    stop = stopped(one)
    assert stop["rule"] == PRECISE
    assert stop["episodes"] % 3 == 0, "every task has had equally many"
    assert 9 < stop["episodes"] < 180
    known = stop["interval"]
    assert (known["high"] - known["low"]) / 2 <= 0.12
    first = [episode.key for episode in whole.plan[: stop["episodes"]]]
    assert digests(one) == {key: digests(whole)[key] for key in first}
    assert known["successes"] == sum(bool(r.success) for r in whole.records if r.key in first)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", [{"workers": 4}, {"eval": {"use_async_envs": False}}, {"workers": 8}])
def test_it_ends_at_the_same_episode_whoever_runs_it(
    tmp_path: Path, one: Evaluation, options: dict[str, Any]
) -> None:
    other = run(tmp_path / "other", **options)
    assert stopped(one) == stopped(other)
    assert digests(one) == digests(other)
    assert one.info["overall"]["pc_success"] == other.info["overall"]["pc_success"]


def test_the_same_command_again_runs_nothing_and_without_the_rule_the_rest(
    tmp_path: Path, whole: Evaluation
) -> None:
    first = run(tmp_path / "run", workers=3)
    again = run(tmp_path / "run", workers=1)
    assert stopped(again) == stopped(first)
    assert again.info["per_episode"] == first.info["per_episode"]
    rest = run(tmp_path / "run", eval={"stop_when": "none"})
    assert rest.info["run"]["stopped"] is None
    assert digests(rest) == digests(whole)


def test_errors_are_no_outcomes(tmp_path: Path) -> None:
    broken = {"mischief": "step.raise:a:0:1 step.raise:b:2:1"}
    evaluation = run(tmp_path / "run", env=broken, eval={"max_attempts": 1})
    stop = stopped(evaluation)
    assert evaluation.info["errors"]["n_errors"] == 2
    assert stop["interval"]["n_episodes"] == stop["episodes"] - 2


def test_a_rule_that_is_never_satisfied_lets_the_plan_end(tmp_path: Path) -> None:
    evaluation = run(tmp_path / "run", n_episodes=2)
    assert stopped(evaluation) is None
    assert len(evaluation.records) == 6


@pytest.mark.slow
def test_better_than_a_stored_run_on_the_same_seeds(tmp_path: Path) -> None:
    def race(place: str, push: float, **eval_: Any) -> Evaluation:
        policy = {"path": f"{SUPPORT / 'tiny_policies.py'}:Constant", "kwargs": {"push": push}}
        return run_tiny(tmp_path / place, n_episodes=80, policy=policy, eval={"batch_size": 4, **eval_})

    race("weak", 0.0)
    strong = race("strong", 3.0, until_better_than=str(tmp_path / "weak"))
    assert stopped(strong)["decision"] == "better"
    assert stopped(strong)["episodes"] < 240
    assert stopped(strong)["wins"] > stopped(strong)["losses"]
    assert stopped(strong)["e_value_better"] >= 20
    race("strong", 3.0, until_better_than="none")
    beaten = race("beaten", 0.0, until_better_than=str(tmp_path / "strong"))
    assert stopped(beaten)["decision"] in ("worse", "hopeless")
    same = race("same", 0.0, until_better_than=str(tmp_path / "weak"))
    assert stopped(same) is None or stopped(same)["decision"] == "hopeless"


@pytest.mark.parametrize(
    ("eval_", "words"),
    [
        ({"stop_when": "ci<=7"}, 'must be "ci<=X" with half the width'),
        ({"stop_when": "soon"}, 'must be "ci<=X" with half the width'),
        ({"stop_when": PRECISE, "num_shards": 2}, "which no shard sees"),
        ({"until_better_than": "/nowhere"}, "--eval.until_better_than=/nowhere: there is no run there."),
    ],
)
def test_rules_that_cannot_work_are_refused(tmp_path: Path, eval_: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        run_tiny(tmp_path / "run", eval=eval_)
    assert words in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_rival_with_other_seeds_is_refused(tmp_path: Path) -> None:
    run_tiny(tmp_path / "rival", seed=5)
    with pytest.raises(UsageError, match="shares no finished episode with this plan"):
        run_tiny(tmp_path / "run", eval={"until_better_than": str(tmp_path / "rival")})


def test_the_bound_may_be_written_in_points(tmp_path: Path) -> None:
    settings = build_settings(tiny_tree(tmp_path / "run", eval={"stop_when": " CI <= 12% "}))
    assert settings.eval.stop_when == " CI <= 12% "


def test_the_terminal_says_that_and_how_to_go_on(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", n_episodes=60, eval={"stop_when": PRECISE}, display="plain")
    done = run_cli("eval", *flags(tree))
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "of 180 episodes: ci<=0.12 is reached, the rate is" in text
    assert "--eval.stop_when=none --eval.until_better_than=none" in " ".join(done.stderr.split())
    assert "stopping:" not in text


def test_a_rule_is_refused_where_no_success_is_reported(tmp_path: Path) -> None:
    settings = build_settings(tiny_tree(tmp_path / "run", eval={"stop_when": PRECISE}))
    task = Task("g", 0, "t", "p", 10)
    assert rules_for(settings, make_plan([task], 1, 0)) is not None
    with pytest.raises(UsageError, match="reports no success"):
        rules_for(settings, make_plan([replace(task, reports_success=False)], 1, 0))


class Collects:
    text = "collects"

    def __init__(self) -> None:
        self.seen: list[int] = []

    def add(self, episode: Episode, success: bool | None) -> None:
        self.seen.append(episode.index)


@given(st.permutations(range(12)), st.integers(1, 12))
def test_rules_see_the_plans_order_whatever_the_order_of_the_endings(order: list[int], at_once: int) -> None:
    task = Task("g", 0, "t", "p", 10)
    plan = make_plan([task], 12, 0)
    rule = Collects()
    rules = StopRules(plan, lambda: [rule])
    for start in range(0, 12, at_once):
        rules.add(EpisodeRecord.failed(plan[place], 1, "e") for place in order[start : start + at_once])
    assert rule.seen == list(range(12))


class AtThreeSuccesses:
    text = "three successes"

    def __init__(self) -> None:
        self.successes = 0

    def add(self, episode: Episode, success: bool | None) -> dict[str, Any] | None:
        self.successes += bool(success)
        return {"decision": "precise"} if self.successes == 3 else None


@given(st.lists(st.sampled_from([True, False, None]), min_size=10, max_size=10), st.data())
def test_where_it_stops_depends_on_the_records_and_not_on_their_history(
    ended: list[bool | None], data: st.DataObject
) -> None:
    plan = make_plan([Task("g", 0, "t", "p", 10)], 10, 0)
    errors = [EpisodeRecord.failed(episode, 1, "e") for episode in plan]
    final = [
        error if success is None else replace(error, status="finished", success=success, error=None)
        for error, success in zip(errors, ended, strict=True)
    ]
    at_once = StopRules(plan, lambda: [AtThreeSuccesses()])
    at_once.add(final)
    successes = [place for place, success in enumerate(ended) if success]
    assert (at_once.stop.episodes if at_once.stop else None) == (successes[2] + 1 if len(successes) > 2 else None)

    before = data.draw(st.sets(st.integers(0, 9)), label="ended as errors before")
    # A session that will not try them again may have passed them; a record that replaces one is read all the same.
    replaced = StopRules(plan, lambda: [AtThreeSuccesses()])
    replaced.add(errors[place] for place in before)
    for place in data.draw(st.permutations(range(10)), label="order"):
        replaced.add([final[place]])
    assert replaced.stop == at_once.stop == replaced.decide(Outcomes.of(plan, final))

    # One that will waits for them, whatever else has ended.
    waiting = StopRules(plan, lambda: [AtThreeSuccesses()])
    stored = [errors[place] if place in before else final[place] for place in range(10)]
    waiting.begin(Outcomes.of(plan, stored))
    first = next((place for place, one in enumerate(stored) if one.status == "error"), 10)
    assert waiting.stop is None or waiting.stop.episodes <= first
    waiting.add(final[place] for place, one in enumerate(stored) if one.status == "error")
    assert waiting.stop == at_once.stop


def test_a_comparison_counts_what_the_rule_counted_and_says_so(tmp_path: Path, whole: Evaluation) -> None:
    ended = run(tmp_path / "ended", workers=4)
    found = proctor.compare(whole.directory, ended.directory)
    (note,) = [note for note in found.notes if "stopped early by a rule" in note]
    assert f"after {stopped(ended)['episodes']} episodes" in note
    assert found.second.complete
    assert found.second.used.ended == stopped(ended)["episodes"]
