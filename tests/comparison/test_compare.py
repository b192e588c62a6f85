"""Whether one policy is better than another, from stored runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import proctor
from harness import run_tiny
from made_runs import make_run
from proctor.comparison.compare import compare_many
from proctor.errors import UsageError
from proctor.installation import install_command
from proctor.stats.intervals import wilson
from proctor.stats.multiple_testing import holm
from proctor.stats.paired import Pairs, compare_pairs
from proctor.stats.planning import paired_power
from proctor.stats.unpaired import compare_rates

WIN, LOSS = True, False


def test_a_policy_that_wins_where_they_disagree_is_better_and_the_other_way_round_worse(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a", {"x": [LOSS] * 12 + [WIN] * 8})
    b = make_run(tmp_path / "b", {"x": [WIN] * 10 + [LOSS] * 2 + [WIN] * 8})
    found = proctor.compare(a, b)
    assert found.paired
    assert found.verdict == "better"
    assert found.overall.pairs == Pairs(both=8, first=0, second=10, neither=2)
    assert (found.overall.difference, found.overall.p_value) == compare_pairs(Pairs(8, 0, 10, 2))
    assert found.overall.first == wilson(8, 20)
    assert found.overall.second == wilson(18, 20)
    assert [(seed.episode_index, seed.seed, seed.winner) for seed in found.disagreements] == [
        (index, 1000 + index, "second") for index in range(10)
    ]
    turned = proctor.compare(b, a)
    assert turned.verdict == "worse"
    assert turned.overall.difference.value == -found.overall.difference.value
    assert str(found).startswith("better: +50.0 points (")


def test_what_cannot_be_told_comes_with_the_number_of_episodes_that_would_tell_it(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a", {"x": [WIN] * 10 + [LOSS] * 10})
    b = make_run(tmp_path / "b", {"x": [WIN] * 12 + [LOSS] * 8})
    row = proctor.compare(a, b).overall
    assert row.verdict == "cannot tell"
    assert row.needed is not None
    assert row.more == row.needed - 20
    assert paired_power(row.needed, 0.1, 0.1) >= 0.8
    assert paired_power(20, 0.1, 0.1) < 0.8


def test_equal_policies_disagree_nowhere_and_nothing_would_tell_them_apart(tmp_path: Path) -> None:
    a, b = (make_run(tmp_path / name, {"x": [WIN, LOSS, WIN]}) for name in "ab")
    found = proctor.compare(a, b)
    assert found.verdict == "cannot tell"
    assert found.disagreements == []
    assert found.overall.more is None


def test_tasks_and_groups_and_all_are_judged_each_kind_by_holm(tmp_path: Path) -> None:
    often = {f"easy/{name}": [LOSS] * 20 for name in "pqr"} | {f"hard/{name}": [LOSS] * 20 for name in "st"}
    gains = dict(zip(often, (6, 7, 8, 0, 1), strict=True))
    a = make_run(tmp_path / "a", often)
    b = make_run(tmp_path / "b", {name: [WIN] * gains[name] + [LOSS] * (20 - gains[name]) for name in often})
    found = proctor.compare(a, b)
    kinds = [(row.kind, row.name, row.tasks) for row in found.rows]
    assert kinds == [("task", name, 1) for name in "pqrst"] + [
        ("group", "easy", 3),
        ("group", "hard", 2),
        ("overall", "all", 5),
    ]
    tasks = list(found.per_task().values())
    assert [row.adjusted for row in tasks] == holm([row.p_value for row in tasks])
    # 6 wins of 6 tell alone (p = 0.03) and not among five tasks.
    assert tasks[0].p_value < 0.05 < tasks[0].adjusted
    assert [row.verdict for row in tasks] == ["cannot tell", "cannot tell", "better", "cannot tell", "cannot tell"]
    assert found.overall.pairs == Pairs(0, 0, 22, 78)
    assert found.overall.elsewhere is not None
    assert found.overall.elsewhere.value == pytest.approx(22 / 100)


def test_a_task_alone_in_the_runs_needs_no_row_of_its_group(tmp_path: Path) -> None:
    a, b = (make_run(tmp_path / name, {"easy/p": [WIN], "easy/q": [WIN]}) for name in "ab")
    assert [row.kind for row in proctor.compare(a, b).rows] == ["task", "task", "overall"]


def test_errors_are_left_out_of_pairs_and_counted(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a", {"x": [None, WIN, WIN, LOSS]})
    b = make_run(tmp_path / "b", {"x": [WIN, None, WIN, WIN]})
    found = proctor.compare(a, b)
    assert found.left_out == 2
    assert found.overall.pairs == Pairs(1, 0, 1, 0)


def test_other_seeds_are_compared_without_pairs(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a", {"x": [WIN] * 4 + [LOSS] * 16})
    b = make_run(tmp_path / "b", {"x": [WIN] * 17 + [LOSS] * 3}, seed=5000)
    found = proctor.compare(a, b)
    assert not found.paired
    assert found.overall.pairs is None
    assert (found.overall.difference, found.overall.p_value) == compare_rates((4, 20), (17, 20))
    assert found.verdict == "better"
    assert found.disagreements == []
    assert any("same --seed" in note for note in found.notes)


def test_an_index_with_another_seed_is_no_pair(tmp_path: Path) -> None:
    # Seed 1001 is index 1 of one and index 0 of the other: fixed initial states go by index.
    a = make_run(tmp_path / "a", {"x": [WIN] * 5})
    b = make_run(tmp_path / "b", {"x": [WIN] * 5}, seed=1001)
    assert not proctor.compare(a, b).paired


def test_of_an_unfinished_run_only_the_prefix_of_its_plan_is_compared(tmp_path: Path) -> None:
    # The later episodes that have ended are the quick successes: they must not count.
    a = make_run(tmp_path / "a", {"x": [LOSS] * 10, "y": [LOSS] * 10})
    b = make_run(tmp_path / "b", {"x": [LOSS, LOSS] + [WIN] * 8, "y": [LOSS] * 2 + [WIN] * 8}, missing=[("y", 2)])
    found = proctor.compare(a, b)
    assert found.overall.episodes == 5
    assert found.per_task()["x"].pairs == Pairs(0, 0, 1, 2)
    assert found.per_task()["y"].pairs == Pairs(0, 0, 0, 2)
    assert any("incomplete (19 of 20 episodes)" in note and "first 5" in note for note in found.notes)


def test_shards_are_one_run_without_merging(tmp_path: Path) -> None:
    from proctor.store.run_directory import Shard

    outcomes = {"x": [WIN, LOSS, WIN, LOSS], "y": [LOSS, LOSS, WIN, WIN], "z": [WIN] * 4}
    whole = make_run(tmp_path / "whole", outcomes)
    parts = tmp_path / "parts"
    for number in (0, 1, 2):
        make_run(parts, outcomes, shard=Shard(number, 3))
    found = proctor.compare(whole, parts)
    assert found.overall.pairs == Pairs(8, 0, 0, 4)
    assert found.second.complete
    alone = proctor.compare(whole, parts / "shard_1_of_3")
    assert alone.overall.episodes == 4
    assert alone.second.complete
    # Without one of them: the others are still whole, and nothing of them is lost.
    missing = tmp_path / "missing"
    for number in (0, 2):
        make_run(missing, outcomes, shard=Shard(number, 3))
    found = proctor.compare(whole, missing)
    assert found.overall.episodes == 8
    assert not found.second.complete


def test_only_shared_tasks_are_compared_and_a_task_is_known_by_its_name(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a", {"easy/p": [WIN] * 3, "easy/q": [WIN] * 3})
    b = make_run(tmp_path / "b", {"q": [WIN] * 3, "other": [WIN] * 3})
    found = proctor.compare(a, b)
    assert list(found.per_task()) == ["q"]
    assert sum("1 more task, not compared" in note for note in found.notes) == 2
    c = make_run(tmp_path / "c", {"r": [WIN]})
    with pytest.raises(UsageError, match="no task in common"):
        proctor.compare(a, c)


def test_tasks_of_one_name_are_told_apart_by_their_group(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a", {"one/p": [WIN] * 3, "two/p": [LOSS] * 3})
    b = make_run(tmp_path / "b", {"one/p": [LOSS] * 3, "two/p": [LOSS] * 3})
    found = proctor.compare(a, b)
    assert {name: row.pairs for name, row in found.per_task().items()} == {
        "one/p": Pairs(0, 3, 0, 0),
        "two/p": Pairs(0, 0, 0, 3),
    }


def test_tasks_can_be_chosen(tmp_path: Path) -> None:
    a, b = (make_run(tmp_path / name, {"push": [WIN], "pull": [WIN], "lift": [WIN]}) for name in "ab")
    for tasks in (["lift", "push"], "lift, push"):
        assert list(proctor.compare(a, b, tasks=tasks).per_task()) == ["push", "lift"]
    with pytest.raises(UsageError, match="Did you mean 'push'"):
        proctor.compare(a, b, tasks=["pusk"])
    for nothing in ((), "", " , "):
        with pytest.raises(UsageError, match=r"^tasks is empty\. Name tasks that the runs share, or leave it out"):
            proctor.compare(a, b, tasks=nothing)


def test_what_else_differs_is_told_and_the_policy_is_not(tmp_path: Path) -> None:
    changed = {
        "versions": {"mujoco": "3.8.1"},
        "env": {"type": "made", "obs_type": "pixels"},
        "policy": {"type": "lerobot", "fingerprint": "other", "batch": 8},
        "rename_map": {"a": "b"},
        "renderer": "llvmpipe",
    }
    a = make_run(tmp_path / "a", {"x": [WIN]})
    b = make_run(tmp_path / "b", {"x": [WIN]}, identity=changed, max_steps=50)
    found = {one.name: (one.first, one.second) for one in proctor.compare(a, b).circumstances}
    assert found == {
        "env.obs_type": ("'state'", "'pixels'"),
        "versions.mujoco": ("'3.3.0'", "'3.8.1'"),
        "step limit of x": ("100", "50"),
    }
    c = make_run(tmp_path / "c", {"x": [WIN]}, identity=changed | {"renderer": "NVIDIA"}, max_steps=50)
    assert [one.name for one in proctor.compare(b, c).circumstances] == ["renderer"]
    assert proctor.compare(a, a).circumstances == []


def test_three_runs_are_held_against_the_first_and_corrected_for_that(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a", {"x": [LOSS] * 20})
    b = make_run(tmp_path / "b", {"x": [WIN] * 6 + [LOSS] * 14})
    c = make_run(tmp_path / "c", {"x": [WIN] * 20})
    found = compare_many([a, b, c])
    assert [(one.first.path, one.second.path) for one in found.comparisons] == [(a, b), (a, c)]
    assert [one.overall.adjusted for one in found.comparisons] == holm(
        [one.overall.p_value for one in found.comparisons]
    )
    assert [one.verdict for one in found.comparisons] == ["better", "better"]
    assert found.letters is None
    pairs = compare_many([a, b, c], all_pairs=True)
    assert len(pairs.comparisons) == 3
    # Among three comparisons 6 wins of 6 still tell: Holm gives the largest p-value its full alpha.
    assert pairs.letters == ["c", "b", "a"]


def test_runs_that_are_not_there_are_a_users_mistake(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a", {"x": [WIN]})
    with pytest.raises(UsageError, match="no such run directory"):
        proctor.compare(a, tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no run"):
        proctor.compare(a, tmp_path / "empty")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.sqlite").write_bytes(b"this is no database, however long it may be" * 100)
    with pytest.raises(UsageError, match=r"cannot be compared: .*database"):
        proctor.compare(a, tmp_path / "broken")
    with pytest.raises(UsageError, match="alpha"):
        proctor.compare(a, a, alpha=2)


def test_without_scipy_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a = make_run(tmp_path / "a", {"x": [WIN]})
    for module in ("scipy", "scipy.special"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=re.escape(install_command("stats"))):
        proctor.compare(a, a)


def test_real_runs_with_videos_are_compared_and_not_written_to(tmp_path: Path) -> None:
    first = run_tiny(tmp_path / "a", eval={"max_episodes_rendered": 2})
    second = run_tiny(tmp_path / "b", policy={"path": "tiny_policies:plain"}, eval={"max_episodes_rendered": 2})
    assert first.error is None
    assert second.error is None
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    found = proctor.compare(tmp_path / "a", tmp_path / "b")
    assert found.paired
    assert found.overall.episodes == 12
    assert found.circumstances == []
    expected = {r.key: r.success for r in first.records}
    apart = [r for r in second.records if r.success != expected[r.key]]
    assert apart
    assert len(found.disagreements) == len(apart)
    shown = [seed for seed in found.disagreements if seed.first_video is not None]
    for seed in shown:
        assert seed.first_video is not None
        assert seed.first_video.exists()
        assert seed.second_video is not None
        assert seed.second_video.exists()
    assert bool(shown) == any(record.episode_index < 2 for record in apart)
    assert files == {path: path.stat().st_mtime_ns for path in files}
