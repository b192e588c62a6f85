"""The same checkpoint, tasks and seeds through `lerobot-eval` and through Proctor, one after the other.

    make benchmark-lerobot                              n_action_steps 10, 50 and 100; 40 minutes on 2 cores
    python benchmarks/against_lerobot.py 50 batch=2     one of them, with a batch size that is known to be best

LeRobot runs as its users run it, with the better of its batch sizes 1 and 2 (found first, with the same command).
The checkpoint is an ACT of LeRobot's default size with random weights, so that no episode ends early: 500 steps
each, 480 px. Each side is a process of its own; drawings are counted in both by the same few lines, which MuJoCo's
viewer runs through. Ratios are printed for the same two episodes: of the whole commands, start-up included, and
of the episodes alone (`eval_s` of either side's eval_info.json); Proctor runs before and after LeRobot, and the
spread is over those. Two episodes are soon over, and building simulators is most of it. So Proctor also runs more
of them, and the steps a second of both are compared; LeRobot's do not depend on how many there are.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import psutil
from figures import report

EPISODES = 2
LONGER = {10: 8, 50: 16, 100: 16}
TASK = "reach-v3"
STEPS = 500
AIMS = {10: 10, 50: 40, 100: 70}

COUNTER = """
import os, sys
class _Counted:
    def find_spec(self, name, path=None, target=None):
        if name != "gymnasium.envs.mujoco.mujoco_rendering":
            return None
        sys.meta_path.remove(self)
        import importlib.util
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module
        def exec_module(module):
            execute(module)
            viewer = module.OffScreenViewer
            render = viewer.render
            file = os.open(os.environ["DRAWINGS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            def counted(*args, **kwargs):
                os.write(file, b".")
                return render(*args, **kwargs)
            viewer.render = counted
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


def measure(command: list[str], output_dir: Path, scratch: Path) -> Measurements:
    drawings = scratch / "drawings"
    drawings.unlink(missing_ok=True)
    drawings.touch()
    (scratch / "sitecustomize.py").write_text(COUNTER)
    paths = [str(scratch), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "DRAWINGS": str(drawings), "HF_HUB_OFFLINE": "1"}
    started = time.monotonic()
    with (scratch / "log").open("w") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        watched = _Watched(process.pid)
        status = process.wait()
    wall = time.monotonic() - started
    if status:
        sys.exit(f"{' '.join(command)}\nexited with {status}:\n{(scratch / 'log').read_text()[-3000:]}")
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
    )


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


def compare(checkpoint: Path, steps: int, batch: int, scratch: Path) -> bool:
    print(f"n_action_steps={steps}: {EPISODES} episodes of {TASK}, {STEPS} steps, 480 px")
    ours = [run_proctor(checkpoint, steps, scratch) for _ in range(2)]
    theirs = run_lerobot(checkpoint, steps, batch, EPISODES, scratch)
    ours += [run_proctor(checkpoint, steps, scratch) for _ in range(2)]
    longer = [run_proctor(checkpoint, steps, scratch, LONGER[steps]) for _ in range(2)]
    show("LeRobot", theirs)
    for one in ours:
        show("Proctor", one)
    whole = sorted(theirs.wall / one.wall for one in ours)
    alone = sorted(theirs.eval_s / one.eval_s for one in ours)
    same = sum(a == b for a, b in zip(theirs.successes, ours[0].successes, strict=True))
    off = max(abs(a - b) / max(1.0, abs(a)) for a, b in zip(theirs.rewards, ours[0].rewards, strict=True))
    print(f"  outcomes: {same}/{EPISODES} successes agree, rewards differ by at most {off:.1e} (relative)")
    what = f"against lerobot-eval, n_action_steps={steps}"
    report(f"whole commands of {EPISODES} episodes {what}", whole)
    report(f"CPU time of whole commands {what}", [theirs.cpu / one.cpu for one in ours])
    report(f"{EPISODES} episodes alone {what}", alone)
    for one in longer:
        show(f"{LONGER[steps]} eps.", one)
    rates = sorted(steps_per_second(one) / steps_per_second(theirs) for one in longer)
    own, peer = statistics.median(map(steps_per_second, longer)), steps_per_second(theirs)
    report(
        f"steps a second over {LONGER[steps]} episodes {what}",
        rates,
        goal=AIMS[steps],
        absolute=f"{own:.1f} against {peer:.1f} steps/s",
    )
    return rates[0] >= AIMS[steps]


def find_batch(checkpoint: Path, scratch: Path) -> int:
    tried = {batch: run_lerobot(checkpoint, 100, batch, batch, scratch).eval_s / batch for batch in (1, 2)}
    shown = ", ".join(f"batch {batch}: {seconds:.0f} s" for batch, seconds in tried.items())
    print(f"LeRobot, an episode at {shown}", flush=True)
    return min(tried, key=lambda batch: tried[batch])


def main() -> None:
    from proctor.benchmarks.rendering import find_renderer

    os.environ.update(find_renderer().env)
    known = [int(word.removeprefix("batch=")) for word in sys.argv[1:] if word.startswith("batch=")]
    wanted = [int(word) for word in sys.argv[1:] if word.isdigit()] or list(AIMS)
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        checkpoint = scratch / "checkpoint"
        save_checkpoint(checkpoint)
        best = known[0] if known else find_batch(checkpoint, scratch)
        results = [compare(checkpoint, steps, best, scratch) for steps in wanted]
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
