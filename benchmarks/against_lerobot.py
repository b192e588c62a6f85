"""The same checkpoint, tasks and seeds through `lerobot-eval` and through Proctor, in turn.

    make benchmark-lerobot                                  n_action_steps 10, 50 and 100; an hour on 2 cores
    python benchmarks/against_lerobot.py 50 --batch=2       one of them, with a batch size that is known to be best

LeRobot runs as its users run it, with the better of its batch sizes 1 and 2 (found first, with the same command).
The checkpoint is an ACT of LeRobot's default size with random weights, so that no episode ends early: 500 steps
each, 480 px. Each side is a process of its own; drawings are counted in both by the same few lines, as calls of
MuJoCo's `mjr_render`. A round is Proctor with two episodes, LeRobot with the same two, and Proctor with more of
them, in an order that changes; ratios are of the rounds. They are of whole commands, start-up included, of the
episodes alone (`eval_s` of either side's eval_info.json), and of steps a second over the longer run: two episodes
are soon over, and building simulators is most of that. LeRobot's steps a second do not depend on how many there
are.

The floor is what no evaluation can go below: every core does nothing but one step, one drawing and one forward
pass for each chunk of actions, in bare processes. Proctor's own episodes must be equal from run to run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import psutil
from figures import report
from lerobot_floor import chunks_per_second

from proctor.machine.resources import usable_cores
from proctor.store.stored_run import StoredRun

EPISODES = 2
LONGER = {10: 8, 50: 16, 100: 16}
TASK = "reach-v3"
STEPS = 500
AIMS = {10: 10, 50: 40, 100: 70}
MOST_OFF = 0.01
"""By how much summed rewards may differ from LeRobot's, as a share."""
WHOLE_AIM = 15
"""For whole commands of two episodes at 50."""
COUNTER = """
import os, sys
class _Counted:
    def find_spec(self, name, path=None, target=None):
        if name != "mujoco":
            return None
        sys.meta_path.remove(self)
        import importlib.util
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module
        def exec_module(module):
            execute(module)
            render = module.mjr_render
            file = os.open(os.environ["DRAWINGS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            def counted(*args, **kwargs):
                os.write(file, b".")
                return render(*args, **kwargs)
            module.mjr_render = counted
        spec.loader.exec_module = exec_module
        return spec
sys.meta_path.insert(0, _Counted())
"""


class Measurements(NamedTuple):
    wall: float
    eval_s: float
    cpu: float
    memory: float
    drawings: int
    successes: list[bool]
    rewards: list[float]
    digests: list[tuple[str | None, str | None]]
    """Of Proctor's episodes, in the order of the plan; none of LeRobot's."""


def save_checkpoint(directory: Path) -> None:
    import torch
    from lerobot.configs import FeatureType, PolicyFeature
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.factory import get_policy_class, make_pre_post_processors

    torch.manual_seed(0)
    config = ACTConfig(
        input_features={
            "observation.image": PolicyFeature(FeatureType.VISUAL, (3, 480, 480)),
            "observation.state": PolicyFeature(FeatureType.STATE, (4,)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (4,))},
        device="cpu",
        push_to_hub=False,
        pretrained_backbone_weights=None,
    )
    plain = {"mean": torch.zeros(4), "std": torch.ones(4)}
    pictures = {"mean": torch.full((3, 1, 1), 0.5), "std": torch.full((3, 1, 1), 0.25)}
    stats = {"observation.image": pictures, "observation.state": plain, "action": plain}
    for part in (get_policy_class("act")(config), *make_pre_post_processors(config, dataset_stats=stats)):
        part.save_pretrained(directory)


def measure(
    command: list[str],
    output_dir: Path,
    scratch: Path,
    counts: bool = True,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Measurements:
    """Run a command that writes an eval_info.json; `counts`: its drawings, with a sitecustomize of our own."""
    drawings = scratch / "drawings"
    drawings.unlink(missing_ok=True)
    drawings.touch()
    env = {**os.environ, **variables, "DRAWINGS": str(drawings), "HF_HUB_OFFLINE": "1"}
    if counts:
        (scratch / "sitecustomize.py").write_text(COUNTER)
        env["PYTHONPATH"] = os.pathsep.join([str(scratch), *filter(None, [os.environ.get("PYTHONPATH")])])
    started = time.monotonic()
    with (scratch / "log").open("w") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        watched = _Watched(process.pid)
        status = process.wait()
    wall = time.monotonic() - started
    if status:
        sys.exit(f"{' '.join(command)}\nexited with {status}:\n{(scratch / 'log').read_text()[-3000:]}")
    if counts and not drawings.stat().st_size:
        sys.exit("no drawing was counted: MuJoCo is not drawn with as this script thinks")
    cpu, memory = watched.stop()
    info = json.loads((output_dir / "eval_info.json").read_text())
    metrics = [task["metrics"] for task in info["per_task"]]
    return Measurements(
        wall=wall,
        eval_s=info["overall"]["eval_s"],
        cpu=cpu,
        memory=memory,
        drawings=drawings.stat().st_size,
        successes=[success for one in metrics for success in one["successes"]],
        rewards=[reward for one in metrics for reward in one["sum_rewards"]],
        digests=digests(output_dir),
    )


def digests(output_dir: Path) -> list[tuple[str | None, str | None]]:
    """Return the digests of a run of Proctor, by episode."""
    if not (output_dir / "run.sqlite").exists():
        return []
    run = StoredRun.open(output_dir)
    return [record.digests for record in sorted(run.records, key=lambda record: record.key)]


class _Watched:
    """What a process and all it started take: CPU-seconds, and the most memory at once (shared pages once)."""

    def __init__(self, pid: int) -> None:
        self._root, self._peak, self._over = psutil.Process(pid), 0, threading.Event()
        self._cpu: dict[int, float] = {}
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(1.0):
            total = 0
            try:
                for process in (self._root, *self._root.children(recursive=True)):
                    times = process.cpu_times()
                    self._cpu[process.pid] = times.user + times.system
                    total += process.memory_full_info().pss
            except psutil.Error:
                continue
            self._peak = max(self._peak, total)

    def stop(self) -> tuple[float, float]:
        self._over.set()
        self._thread.join()
        return sum(self._cpu.values()), self._peak / 2**30


def run_lerobot(checkpoint: Path, steps: int, batch: int, episodes: int, scratch: Path) -> Measurements:
    output_dir = Path(tempfile.mkdtemp(dir=scratch)) / "run"
    command = [sys.executable, "-m", "lerobot.scripts.lerobot_eval", f"--eval.batch_size={batch}"]
    command += ["--eval.use_async_envs=true", *_common(checkpoint, steps, episodes, output_dir)]
    return measure(command, output_dir, scratch)


def run_proctor(checkpoint: Path, steps: int, scratch: Path, episodes: int = EPISODES) -> Measurements:
    output_dir = Path(tempfile.mkdtemp(dir=scratch)) / "run"
    command = [sys.executable, "-m", "proctor", "eval", "--display=none"]
    return measure([*command, *_common(checkpoint, steps, episodes, output_dir)], output_dir, scratch)


def _common(checkpoint: Path, steps: int, episodes: int, output_dir: Path) -> list[str]:
    return [
        f"--policy.path={checkpoint}",
        f"--policy.n_action_steps={steps}",
        "--policy.device=cpu",
        "--env.type=metaworld",
        f"--env.task={TASK}",
        f"--eval.n_episodes={episodes}",
        "--seed=1000",
        f"--output_dir={output_dir}",
    ]


def steps_per_second(one: Measurements) -> float:
    return len(one.successes) * STEPS / one.eval_s


def show(name: str, one: Measurements) -> None:
    rate = steps_per_second(one)
    print(
        f"  {name:<9} {one.wall:7.1f} s in all, episodes {one.eval_s:7.1f} s, {rate:6.1f} steps/s, "
        f"{one.drawings} drawings, {one.cpu:.0f} CPU-s, {one.memory:.1f} GiB",
        flush=True,
    )


def compare(checkpoint: Path, steps: int, batch: int, rounds: int, scratch: Path) -> None:
    """Run the rounds, and report."""
    print(f"n_action_steps={steps}: {EPISODES} episodes of {TASK}, {STEPS} steps, 480 px")
    floors = [chunks_per_second(checkpoint) * steps]
    found: dict[str, list[Measurements]] = {"Proctor": [], "LeRobot": [], f"{LONGER[steps]} eps.": []}
    sides = {
        "Proctor": partial(run_proctor, checkpoint, steps, scratch),
        "LeRobot": partial(run_lerobot, checkpoint, steps, batch, EPISODES, scratch),
        f"{LONGER[steps]} eps.": partial(run_proctor, checkpoint, steps, scratch, LONGER[steps]),
    }
    for number in range(rounds):
        for name in list(sides)[:: -1 if number % 2 else 1]:
            found[name].append(sides[name]())
            show(name, found[name][-1])
    floors.append(chunks_per_second(checkpoint) * steps)
    ours, theirs, longer = found.values()
    check(ours, theirs, longer)
    report_ratios(steps, ours, theirs, longer, floors)


def check(ours: list[Measurements], theirs: list[Measurements], longer: list[Measurements]) -> None:
    """Compare the episodes themselves."""
    for one in (*ours, *longer):
        assert one.digests[:EPISODES] == ours[0].digests, "Proctor's episodes differ from run to run"
    assert all(one.digests == longer[0].digests for one in longer), "Proctor's episodes differ from run to run"
    same = sum(a == b for a, b in zip(theirs[0].successes, ours[0].successes, strict=True))
    pairs = zip(theirs[0].rewards, ours[0].rewards, strict=True)
    off = max(abs(a - b) / max(1.0, abs(a)) for a, b in pairs)
    print(f"  outcomes: {same}/{EPISODES} successes agree, rewards differ by at most {off:.1e} (relative)")
    # LeRobot's forward passes use several threads, so that sums are rounded in another order.
    assert same == EPISODES, "LeRobot's outcomes are others"
    assert off < MOST_OFF, "LeRobot's rewards are others"


def report_ratios(
    steps: int,
    ours: list[Measurements],
    theirs: list[Measurements],
    longer: list[Measurements],
    floors: list[float],
) -> None:
    """Report the ratios of the rounds, the floor among them."""

    def middle(values: Iterable[float]) -> float:
        return statistics.median(values)

    what = f"against lerobot-eval, n_action_steps={steps}"
    pace, peer = (middle(map(steps_per_second, side)) for side in (longer, theirs))
    pairs = list(zip(ours, theirs, strict=True))
    report(
        f"steps a second over {LONGER[steps]} episodes {what}",
        [steps_per_second(own) / steps_per_second(one) for own, one in zip(longer, theirs, strict=True)],
        goal=AIMS[steps],
        absolute=f"{pace:.1f} against {peer:.1f} steps/s",
    )
    report(
        f"the floor, drawing and forward pass alone on {usable_cores()} cores, {what}",
        [floor / peer for floor in floors],
        absolute=f"{middle(floors):.1f} steps/s; Proctor runs at {pace / middle(floors):.2f} of it",
    )
    report(
        f"{EPISODES} episodes alone {what}",
        [one.eval_s / own.eval_s for own, one in pairs],
        absolute=f"{middle(o.eval_s for o in ours):.1f} against {middle(o.eval_s for o in theirs):.1f} s",
    )
    report(
        f"whole commands of {EPISODES} episodes {what}",
        [one.wall / own.wall for own, one in pairs],
        goal=WHOLE_AIM if steps == 50 else None,
        absolute=f"{middle(o.wall for o in ours):.1f} against {middle(o.wall for o in theirs):.1f} s",
    )
    report(
        f"CPU time of whole commands {what}",
        [one.cpu / own.cpu for own, one in pairs],
        absolute=f"{middle(o.cpu for o in ours):.0f} against {middle(o.cpu for o in theirs):.0f} CPU-s; "
        f"memory {max(o.memory for o in ours):.1f} against {max(o.memory for o in theirs):.1f} GiB; "
        f"drawings {ours[0].drawings} against {theirs[0].drawings}",
    )


def find_batch(checkpoint: Path, scratch: Path) -> int:
    tried = {batch: run_lerobot(checkpoint, 100, batch, batch, scratch).eval_s / batch for batch in (1, 2)}
    shown = ", ".join(f"batch {batch}: {seconds:.0f} s" for batch, seconds in tried.items())
    print(f"LeRobot, an episode at {shown}", flush=True)
    return min(tried, key=lambda batch: tried[batch])


def main() -> None:
    """Measure and print."""
    from proctor.benchmarks.rendering import find_renderer

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", type=int, default=list(AIMS), help="n_action_steps: 10, 50, 100 [all]")
    parser.add_argument("--batch", type=int, default=0, help="LeRobot's batch size [the better of 1 and 2]")
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    if unknown := set(given.steps) - set(AIMS):
        parser.error(f"n_action_steps {sorted(unknown)}: there are {', '.join(map(str, AIMS))}")
    os.environ.update(find_renderer().env)
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        checkpoint = scratch / "checkpoint"
        save_checkpoint(checkpoint)
        best = given.batch or find_batch(checkpoint, scratch)
        for steps in given.steps:
            compare(checkpoint, steps, best, given.rounds, scratch)


if __name__ == "__main__":
    main()
