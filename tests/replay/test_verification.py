"""`proctor verify` names what was forged, and says exactly what its sample proves."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
import shutil
import signal
import zlib
from pathlib import Path

import msgpack
import numpy as np
import pytest

from harness import SUPPORT, THOUGHTFUL, run_cli, run_tiny, start_cli
from proctor.engine.meter import Meter
from proctor.engine.rollout import PolicyView, run_episode
from proctor.engine.stored_actor import StoredActor
from proctor.plan import make_plan
from proctor.replay.replayer import Replay, ReplayLedger, replayable
from proctor.replay.verification import Sample, draw, new_seed, sample_of
from proctor.stats.sampling import most_bad
from proctor.store.bundles import _EPISODE, MAGIC, opened, write_bundle
from proctor.store.episodes import EpisodeTable
from proctor.store.stored_run import StoredRun
from proctor.store.trajectories import Trajectory
from proctor.types import Task
from replay.test_replay import forge, forge_trajectory, metaworld
from tiny import Tiny, TinySettings, TinySimulator

TINY = f"--env.type={SUPPORT / 'tiny.py'}:Tiny"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    run_tiny(path, task="a,b")
    return path


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def bundled(run: Path) -> str:
    path = run.parent / "shared.proctor"
    write_bundle(StoredRun.open(run), path)
    return str(path)


def test_a_sample_is_drawn_without_replacement_and_again_by_its_seed() -> None:
    plan = make_plan([Task("a", 0, "a", "", 9)], 500, 0)
    seed = new_seed()
    sample = draw(plan, 59, seed)
    assert len({episode.index for episode in sample}) == 59
    assert draw(plan, 59, seed) == sample != draw(plan, 59, new_seed())
    assert draw(plan, 501, seed) is plan


def test_each_episode_is_as_likely_as_any_other() -> None:
    plan = make_plan([Task("a", 0, "a", "", 9)], 20, 0)
    times = [0] * 20
    for seed in range(4_000):
        for episode in draw(plan, 5, seed):
            times[episode.index] += 1
    # 4,000 samples of a quarter each: five standard deviations of 27.
    assert all(abs(one - 1_000) < 137 for one in times)


def test_the_statement_says_what_was_proved() -> None:
    words = Sample(59, 500, 0).statement()
    assert words == "0 of 59 differ: with 95 % confidence fewer than 4.8 % of 500 episodes do"
    assert Sample(8, 8, 0).statement() == "0 of 8 differ: these are all episodes"


def test_where_some_differ_it_gives_the_bound_too() -> None:
    words = Sample(59, 500, 2).statement()
    assert words == "2 of 59 differ: with 95 % confidence fewer than 10.0 % of 500 episodes do"
    assert most_bad(2, 59, 500) == 49
    assert Sample(1, 500, 1).statement() == "1 of 1 differ: too few to say anything of the other 499"


def test_a_share_is_rounded_up_so_that_it_never_says_too_much() -> None:
    # 118 of 2,520 are 4.683 %: fewer than 4.7 %, and not fewer than 4.6 %.
    assert (most_bad(0, 59, 2_520) + 1) / 2_520 > 0.046
    for population in range(60, 600, 7):
        words = Sample(59, population, 0).statement()
        share = float(words.partition("fewer than ")[2].partition(" %")[0]) / 100
        assert most_bad(0, 59, population) < share * population


def test_episodes_that_could_not_be_looked_at_count_as_if_they_differed() -> None:
    unsure = Sample(59, 500, 0, {"could not be replayed": 2})
    assert unsure.most == most_bad(2, 59, 500)
    assert unsure.statement() == (
        "0 of 59 differ, 2 could not be replayed (counted as different): "
        "with 95 % confidence fewer than 10.0 % of 500 episodes do"
    )


def test_a_sample_that_was_cut_off_bounds_nothing() -> None:
    words = Sample(59, 500, 1, cut_off=40).statement()
    assert words == "1 of 19 differ; 40 more were not come to, so this says nothing of all 500"


def test_a_run_and_its_bundle_are_verified_with_and_without_the_policy(whole: Path) -> None:
    done = run_cli("verify", bundled(whole), TINY, "--sample=5", f"--policy.path={THOUGHTFUL}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "by replay: 0 of 5 differ: with 95 % confidence fewer than" in done.stdout
    assert "with the policy: 0 of 5 act otherwise: with 95 % confidence fewer than" in done.stdout
    assert "to be verified: success " in done.stdout
    assert "not covered" not in done.stdout
    assert "the actions are the policy's own" in done.stdout
    seed = done.stdout.partition("--sample-seed=")[2].split()[0]
    again = run_cli("verify", str(whole), "--sample=5", f"--sample-seed={seed}")
    assert (again.returncode, f"--sample-seed={seed}\n" in again.stdout) == (0, True)


def test_the_actions_of_another_policy_are_named(whole: Path) -> None:
    done = run_cli("verify", str(whole), "--sample=2", "--policy.type=random")
    assert done.returncode == 1, done.stderr
    assert "by replay: 0 of 2 differ" in done.stdout
    assert "with the policy: 2 of 2 act otherwise: too few to say anything of the other 6" in done.stdout
    assert "; the actions are not this policy's" in done.stdout
    assert ": step 0, action: stored " in done.stdout
    assert "policy.type: 'python' in the run, 'random' here" in done.stdout


class ForgedBundles:
    """A run of 40 episodes in a bundle, and a forger who changes the outcomes of some and puts the hash right."""

    def __init__(self, folder: Path) -> None:
        run_tiny(folder / "run", task="a,b", n_episodes=20, env={"max_steps": 3})
        self.path = folder / "forged.proctor"
        write_bundle(StoredRun.open(folder / "run"), self.path)
        unpacker = msgpack.Unpacker(strict_map_key=True)
        unpacker.feed(zlib.decompress(self.path.read_bytes().partition(b"\n")[2]))
        self._values = list(unpacker)
        settings = TinySettings(task="a,b", max_steps=3)
        self._simulators = {task.name: TinySimulator(task, settings) for task in Tiny(settings).tasks()}

    def write(self, forged: set[int]) -> None:
        header, *episodes = self._values
        success = _EPISODE.index("success")
        changed = [
            [not value if place in forged and column == success else value for column, value in enumerate(row)]
            for place, row in enumerate(episodes)
        ]
        packed = b"".join(map(msgpack.packb, [header, *changed]))
        name = hashlib.sha256(packed).hexdigest().encode()
        self.path.write_bytes(MAGIC + name + b"\n" + zlib.compress(packed))

    def verified(self, size: int, seed: int) -> Sample:
        """Return what `verify` makes of a sample, which is replayed in this process: a thousand times is often."""
        with opened(self.path) as directory:
            run = StoredRun.open(directory)
            whole, _ = replayable(run)
            plan = draw(whole, size, seed)
            assert run.policy_spec is not None
            view, found = PolicyView.of(run.policy_spec, Tiny(TinySettings()).spec, keeps=True), Replay(size, "")
            with run.table() as table:
                ledger = ReplayLedger(table, view, view, found)
                for episode in plan:
                    trajectory = table.trajectory(episode.key)
                    assert trajectory is not None
                    simulator = self._simulators[episode.task.name]
                    ledger.write([run_episode(simulator, episode, StoredActor(trajectory), view, Meter())])
            return sample_of(found, len(whole))


@pytest.mark.parametrize("bundles", [50, pytest.param(1_000, marks=pytest.mark.slow)])
def test_bundles_with_a_twentieth_forged_pass_as_often_as_the_hypergeometric_says(
    tmp_path: Path, bundles: int
) -> None:
    population, size, forged = 40, 31, 2
    made, rng = ForgedBundles(tmp_path), np.random.default_rng(0)
    times, wrong = [0, 0, 0], 0
    for seed in range(bundles):
        made.write(set(rng.choice(population, forged, replace=False).tolist()))
        sample = made.verified(size, seed)
        times[sample.differing] += 1
        said = re.search(r"with 95 % confidence fewer than ([0-9.]+) % of 40 episodes do", sample.statement())
        assert said is not None
        wrong += forged >= float(said[1]) / 100 * population
    for found, count in enumerate(times):
        ways = math.comb(forged, found) * math.comb(population - forged, size - found)
        chance = ways / math.comb(population, size)
        # Four standard deviations of a count.
        assert abs(count - bundles * chance) < 4 * (bundles * chance * (1 - chance)) ** 0.5
    assert wrong == times[0], "it says too little only where the sample has none of them"
    assert math.comb(38, 31) / math.comb(40, 31) < 0.05


def test_the_command_finds_what_it_finds_in_this_process(tmp_path: Path) -> None:
    made = ForgedBundles(tmp_path)
    made.write({3, 30})
    flags = (f"--env.type={SUPPORT / 'tiny.py'}:Tiny", "--sample=31")
    for seed in range(3):
        done = run_cli("verify", str(made.path), *flags, f"--sample-seed={seed}")
        assert f"by replay: {made.verified(31, seed).statement()}" in done.stdout


def push(trajectory: Trajectory) -> Trajectory:
    return dataclasses.replace(trajectory, actions=[trajectory.actions[0] + 1])


@pytest.mark.parametrize("what", ["outcome", "action", "seed", "digest"])
def test_each_forgery_in_a_bundle_is_named(copy: Path, what: str) -> None:
    match what:
        case "outcome":
            forge(copy, "b", 2, success=0)
            words = "b episode 2: success: stored False, now True"
        case "action":
            forge_trajectory(copy, "b", 2, push)
            words = "b episode 2: step 1, reward: stored"
        case "seed":
            forge(copy, "b", 2, seed=5)
            words = "b episode 2: seed: stored 5, now 1002"
        case _:
            forge(copy, "b", 2, digest="0" * 64)
            words = "b episode 2: digest: stored 000"
    done = run_cli("verify", bundled(copy), TINY)
    assert done.returncode == 1, done.stderr
    assert words in done.stdout
    assert "by replay: 1 of 8 differ: these are all episodes; they are not what is stored" in done.stdout


def test_a_bundle_names_no_code_to_run(whole: Path) -> None:
    for command in ("verify", "replay"):
        done = run_cli(command, bundled(whole))
        assert done.returncode == 2
        assert (
            "the bundle's benchmark is tiny.py:Tiny, which does not come with an installed package" in done.stderr
        )


def test_episodes_that_a_forger_made_unreplayable_stay_in_the_sample(whole: Path) -> None:
    done = run_cli("verify", str(whole), "--sample=6", "--sample-seed=1", "--env.mischief=reset.raise:b:*:0")
    assert done.returncode == 3, done.stdout + done.stderr
    failed = done.stderr.count("not replayed: b episode ")
    assert failed
    assert f"by replay: 0 of 6 differ, {failed} could not be replayed (counted as different): " in done.stdout
    assert "the outcomes follow from the stored actions" not in done.stdout


def test_ctrl_c_leaves_no_bound(whole: Path) -> None:
    process = start_cli("verify", str(whole), "--env.delay=0.5", "--workers=1")
    assert process.stderr is not None
    assert "/8 episodes" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    assert " more were not come to, so this says nothing of all 8" in out
    assert "confidence" not in out


def test_what_a_sample_says_nothing_of_is_named(tmp_path: Path) -> None:
    run_tiny(tmp_path / "run", task="a,b", env={"mischief": "reset.raise:b:1:0"}, eval={"max_attempts": 1})
    with EpisodeTable(tmp_path / "run" / "run.sqlite") as table, table._tables.transaction():
        row, kept = (table._tables.find(name, ("a", 0, 2)) for name in ("episodes", "trajectories"))
        assert row is not None
        assert kept is not None
        table._tables.replace("episodes", row, {**row, "trajectory_bytes": 0})
        table._tables.delete("trajectories", kept)
    done = run_cli("verify", str(tmp_path / "run"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "by replay: 0 of 6 differ: these are all episodes" in done.stdout
    assert "; the run's own is " in done.stdout
    words = "not covered: 1 episode finished without stored actions; 1 episode ended in an error; who acted"
    assert words in done.stdout


def set_meta(run: Path, key: str, value: object) -> None:
    with EpisodeTable(run / "run.sqlite") as table:
        table.set_meta(key, value)


def test_other_versions_and_a_run_that_is_not_reproducible_are_named(copy: Path) -> None:
    identity = StoredRun.open(copy).identity
    policy = {**identity["policy"], "device": "cuda"}
    policy["versions"] = {**policy["versions"], "numpy": "0.1"}
    versions = {**identity["versions"], "numpy": "0.2"}
    set_meta(copy, "identity", {**identity, "policy": policy, "versions": versions})
    set_meta(copy, "reproducible", False)
    done = run_cli("verify", str(copy), f"--policy.path={THOUGHTFUL}")
    assert done.returncode == 0, done.stdout + done.stderr
    replayed, _, again = done.stdout.partition("with the policy: ")
    assert "not as in the run: versions.numpy: '0.2' in the run" in replayed
    assert "policy.device: 'cuda' in the run, None here" in again
    assert "policy.versions.numpy: '0.1' in the run" in again
    assert "versions.numpy: '0.2' in the run" in again
    assert "the run is marked as not reproducible" in again


def test_the_actions_are_the_policys_own_though_another_renderer_drew_what_it_saw(copy: Path) -> None:
    set_meta(copy, "identity", {**StoredRun.open(copy).identity, "renderer": "another"})
    for index in range(4):
        forge(copy, "a", index, pixel_digest="0" * 64)
    done = run_cli("verify", str(copy), f"--policy.path={THOUGHTFUL}")
    assert done.returncode == 0, done.stdout + done.stderr
    words = "with the policy: 0 of 8 act otherwise: these are all episodes; the actions are the policy's own\n"
    assert f"{words}pixels not checkable here: they were drawn by another, and here is None" in done.stdout
    assert "renderer: 'another' in the run, None here" in done.stdout


def test_a_policy_that_saw_other_pictures_and_acts_otherwise_is_not_said_to_be_another(tmp_path: Path) -> None:
    run, tinted = tmp_path / "run", f"{SUPPORT / 'tinted.py'}:TintedTiny"
    run_tiny(run, task="a", env={"type": tinted, "tint": 90})
    done = run_cli("verify", str(run), "--env.tint=0", f"--policy.path={THOUGHTFUL}")
    assert done.returncode == 1, "the same renderer draws other pictures, so they were forged"
    assert "pixel_digest: stored " in done.stdout
    set_meta(run, "identity", {**StoredRun.open(run).identity, "renderer": "another"})
    done = run_cli("verify", str(run), "--env.tint=0", f"--policy.path={THOUGHTFUL}")
    assert done.returncode == 3, done.stdout + done.stderr
    assert (
        "with the policy: 0 of 4 act otherwise, 4 saw something else first (counted as different)" in done.stdout
    )
    assert "are not this policy's" not in done.stdout
    done = run_cli("verify", str(run), "--env.tint=0", "--policy.type=random")
    assert "the actions are not this policy's" in done.stdout, "this one looks at nothing"


@pytest.fixture(scope="module")
def expert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("metaworld")
    path = tmp_path_factory.mktemp("expert") / "run"
    metaworld(path, "reach-v3,push-v3", 2, obs_type="state")
    return path


def test_a_meta_world_bundle_is_proved_with_its_policy(expert: Path) -> None:
    done = run_cli("verify", bundled(expert), "--policy.type=expert")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "to be verified: success 100.0 % (4/4, 51.0–100.0)\n" in done.stdout
    assert "by replay: 0 of 4 differ: these are all episodes; the outcomes follow" in done.stdout
    assert "with the policy: 0 of 4 act otherwise: these are all episodes; the actions are the policy's own\n" in (
        done.stdout
    )
    assert "not as in the run" not in done.stdout
    done = run_cli("verify", bundled(expert), "--policy.type=zero", "--sample=3")
    assert done.returncode == 1
    assert "with the policy: 3 of 3 act otherwise" in done.stdout


def test_a_meta_world_bundle_whose_forged_actions_cannot_be_replayed_proves_less(
    expert: Path, tmp_path: Path
) -> None:
    shutil.copytree(expert, tmp_path / "run")

    def cut(trajectory: Trajectory) -> Trajectory:
        return dataclasses.replace(trajectory, actions=[np.ascontiguousarray(trajectory.actions[0][:, :3])])

    forge_trajectory(tmp_path / "run", "push-v3", 1, cut)
    done = run_cli("verify", bundled(tmp_path / "run"))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "by replay: 0 of 4 differ, 1 could not be replayed (counted as different): these are all" in done.stdout
