"""The reference runs: what is run, in one table.

In arguments, TMP is a folder of the run's own, which is also the working directory; WORLD is the folder `world`
beside this file; PYTHON the interpreter; PORT where the run's policy server listens.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Command:
    """One call of `proctor`.

    Attributes:
        arguments: the command line, split at spaces.
        signal: is sent to it as soon as the file `when` is there.
        when: name of a file in TMP.
        serves: it is a policy server: left running, and interrupted after the last command.
    """

    arguments: str
    signal: int = 0
    when: str = ""
    serves: bool = False


@dataclass(frozen=True)
class Run:
    """Commands that follow each other in one folder, and what of their traces is not the same every time.

    Attributes:
        name: the test's, and that of the file in `expected`.
        commands: what is done.
        environment: variables beside those that all have.
        files: written to TMP beforehand, name to content.
        unstable: parts that are not stored, as dotted paths; `*` stands for every key and every item.
        slow: much of it is in another run, too; left to `make test-all`.
        draws: it needs a working GL.
    """

    name: str
    commands: tuple[Command, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    unstable: tuple[str, ...] = ()
    slow: bool = False
    draws: bool = False


def tiny(rest: str, policy: str = "Thoughtful", env: str = "Tiny", tasks: str = "a,b") -> str:
    """Return a command on the tiny benchmark; `policy` is a name in policies.py, or flags."""
    chosen = policy if policy.startswith("--") else f"--policy.path=WORLD/policies.py:{policy}"
    return (
        f"eval --env.type=WORLD/bench.py:{env} --env.task={tasks} --env.scratch=TMP {chosen} --display=none {rest}"
    )


def metaworld(rest: str) -> str:
    return f"eval --env.type=metaworld --output_dir=run --display=none {rest}"


def gym(rest: str) -> str:
    return f"eval --env.type=gym --output_dir=run --display=none {rest}"


def run(name: str, *commands: str | Command, **options: Any) -> Run:
    return Run(name, tuple(Command(c) if isinstance(c, str) else c for c in commands), **options)


INTO = "--output_dir=run"
ONE, TWO = f"{INTO} --eval.batch_size=1", f"{INTO} --eval.batch_size=2"
INLINE = f"{INTO} --eval.use_async_envs=false"
SMALL = "--env.observation_height=48 --env.observation_width=64"
SHARDS = "--eval.n_episodes=3 --output_dir=sweep --eval.num_shards=2 --eval.batch_size=1"
WAITS = "--eval.n_episodes=3 --env.mischief=step.wait!:b:1:3 --eval.stop_grace=0.1"
MIXED = "--env.max_steps=6"  # some succeed, some do not

RUNS = (
    # Placements, workers, lanes, batches: the same episodes in all of them.
    run("tiny-central", tiny(f"--eval.n_episodes=3 --policy.placement=central {TWO}", tasks="a,b,c")),
    run("tiny-worker", tiny(f"--eval.n_episodes=3 --policy.placement=worker {TWO}", tasks="a,b,c")),
    run("tiny-inline", tiny(f"--eval.n_episodes=3 {INLINE}", tasks="a,b,c")),
    run(
        "tiny-lanes-and-batches",
        tiny(
            f"--eval.n_episodes=3 --eval.batch_size=4 --policy.kwargs.batch=4 --policy.kwargs.lanes=2 {INTO}",
            tasks="a,b,c",
        ),
        slow=True,
    ),
    run(
        "tiny-other-interpreters",
        tiny(f"--eval.n_episodes=1 --env.python=PYTHON --policy.python=PYTHON {ONE}"),
        slow=True,
    ),
    run(
        "tiny-recycled",
        tiny(f"--eval.n_episodes=3 --eval.recycle_after=2 --env.max_parallel_tasks=1 {ONE}"),
        slow=True,
    ),
    # Benchmarks and policies.
    run(
        "metaworld-experts",
        metaworld(
            "--env.task=reach-v3,drawer-close-v3 --policy.type=expert --env.obs_type=state --eval.n_episodes=2 "
            "--eval.batch_size=2"
        ),
    ),
    run(
        "metaworld-pictures",
        metaworld(
            f"--env.task=reach-v3 --policy.path=WORLD/policies.py:Pixels --env.obs_type=pixels {SMALL} "
            "--env.episode_length=25 --eval.n_episodes=1 --eval.batch_size=1"
        ),
        draws=True,
    ),
    run(
        "metaworld-video",
        metaworld(
            "--env.task=drawer-close-v3 --policy.type=expert --eval.n_episodes=1 --eval.batch_size=1 "
            f"--eval.max_episodes_rendered=1 --eval.video_fps=10 --env.one_hot=true {SMALL}"
        ),
        draws=True,
    ),
    run(
        "gym-by-id",
        gym(
            "--env.task=CartPole-v1 --policy.path=WORLD/policies.py:Balancer --eval.n_episodes=3 "
            "--eval.batch_size=2 --env.episode_length=60"
        ),
        slow=True,
    ),
    run(
        "gym-own-package",
        gym(
            "--env.task=rooms/Plain-v0,rooms/Quiet-v0 --env.package=reference_rooms --env.metrics=deep.height "
            "--env.success_key=is_success --env.kwargs.reach=1.5 --policy.path=WORLD/policies.py:Walker "
            "--env.render_as=observation.view --eval.n_episodes=2 --eval.batch_size=2"
        ),
    ),
    run(
        "gym-random",
        gym("--env.task=Pendulum-v1 --policy.type=random --eval.n_episodes=2 --eval.batch_size=1"),
        slow=True,
    ),
    run("tiny-zero", tiny(f"--eval.n_episodes=2 {ONE}", "--policy.type=zero"), slow=True),
    run("processors", tiny(f"--eval.n_episodes=2 {TWO}", "Follows", "ProcessedTiny"), slow=True),
    run("processors-declined", tiny(f"--eval.n_episodes=2 {INLINE}", "WithoutAny", "ProcessedTiny"), slow=True),
    run(
        "renamed-keys-from-yaml",
        f"eval --config_path=settings.yaml --display=none {ONE}",
        files={
            "settings.yaml": "env: {type: 'bench:Tiny', task: 'a', scratch: TMP, initial_states: 2}\n"
            "policy: {path: 'WORLD/policies.py:Renamed'}\n"
            "rename_map: {observation.state: robot/state, observation.image: robot/image}\n"
            "eval: {n_episodes: 3}\nseed: 7\n"
        },
    ),
    run(
        "remote",
        Command(
            "serve --port=0 --env.type=WORLD/bench.py:Tiny --policy.path=WORLD/policies.py:Counting", serves=True
        ),
        tiny(f"--eval.n_episodes=2 {TWO}", "--policy.path=ws://127.0.0.1:PORT"),
        slow=True,
    ),
    # Faults.
    run("simulator-raises-once", tiny(f"--eval.n_episodes=2 --env.mischief=step.raise!:b:1:3 {ONE}"), slow=True),
    run(
        "simulator-raises-always",
        tiny(f"--eval.n_episodes=2 --env.mischief=step.raise:b:1:3 {TWO}"),
        f"eval --resume=run --env.mischief=step.raise:c:0:0 --display=none {INLINE}",
        slow=True,
    ),
    run(
        "simulator-raises-inline",
        tiny(f"--eval.n_episodes=2 --env.mischief=reset.raise:b:1:0 {INLINE}"),
        slow=True,
    ),
    run(
        "simulator-never-builds", tiny(f"--eval.n_episodes=10 --env.mischief=build.raise:*:*:-1 {ONE}"), slow=True
    ),
    run("simulator-killed", tiny(f"--eval.n_episodes=2 --env.mischief=step.kill!:b:0:3 {ONE}"), slow=True),
    run(
        "simulator-killed-with-policy",
        tiny(f"--eval.n_episodes=2 --env.mischief=step.kill!:b:0:3 --policy.placement=worker {ONE}"),
        slow=True,
    ),
    run(
        "simulator-hangs",
        tiny(f"--eval.n_episodes=1 --env.mischief=step.hang!:b:0:3 --limits.step=2 {ONE}"),
        slow=True,
    ),
    run(
        "observation-nan",
        tiny(f"--eval.n_episodes=2 --env.mischief=observe.nan:a:1:2 --eval.max_attempts=2 {TWO}"),
        slow=True,
    ),
    run("policy-raises", tiny(f"--eval.n_episodes=3 --policy.kwargs.how=raise {ONE}", "Faulty")),
    run(
        "policy-nan",
        tiny(f"--eval.n_episodes=3 --policy.kwargs.how=nan --policy.placement=worker {ONE}", "Faulty"),
        slow=True,
    ),
    run("policy-shape", tiny(f"--eval.n_episodes=3 --policy.kwargs.how=shape {INLINE}", "Faulty"), slow=True),
    run(
        "host-dies-once",
        tiny(f"--eval.n_episodes=2 --policy.kwargs.at=7 --policy.kwargs.once=aside:TMP/died {ONE}", "Mortal"),
    ),
    run("host-dies-always", tiny(f"--eval.n_episodes=2 --eval.max_attempts=2 {ONE}", "Doomed"), slow=True),
    # Stops, and going on.
    run(
        "stop-when-known",
        tiny(f"--eval.n_episodes=30 --eval.stop_when=ci<=0.3 --policy.kwargs.drawn=false {MIXED} {TWO}"),
        unstable=("runs.run.in_flight",),
        slow=True,
    ),
    run(
        "stopped-goes-on",
        tiny(f"--eval.n_episodes=12 --eval.stop_when=ci<=0.3 {MIXED} {INLINE}"),
        "eval --resume=run --display=none",
        "eval --resume=run --eval.stop_when=none --display=none",
        slow=True,
    ),
    run(
        "until-better-and-compared",
        tiny(
            f"--eval.n_episodes=20 --policy.kwargs.push=-3 {MIXED} --eval.use_async_envs=false --output_dir=old",
            "Constant",
        ),
        tiny(
            f"--eval.n_episodes=20 --policy.kwargs.push=3 {MIXED} --eval.use_async_envs=false --output_dir=new "
            "--eval.until_better_than=old",
            "Constant",
        ),
        "compare old new",
        "report old new --output=both.html",
    ),
    run(
        "interrupted",
        Command(tiny(f"{WAITS} {ONE}"), signal.SIGINT, "mischief-0"),
        "report run",
        "eval --resume=run --display=none",
    ),
    run("terminated", Command(tiny(f"{WAITS} {ONE}"), signal.SIGTERM, "mischief-0"), slow=True),
    run("main-killed", Command(tiny(f"{WAITS} {ONE}"), signal.SIGKILL, "mischief-0"), tiny(f"{WAITS} {INLINE}")),
    run(
        "extended",
        tiny(f"--eval.n_episodes=1 {INLINE}"),
        tiny(f"--eval.n_episodes=3 {TWO}"),
        tiny(f"--eval.n_episodes=2 {ONE}"),
    ),
    # Several processes.
    run(
        "shards-merged",
        tiny(f"{SHARDS} --eval.shard_id=0"),
        "merge sweep",
        tiny(f"{SHARDS} --eval.shard_id=1"),
        "merge sweep",
    ),
    run(
        "parallel",
        tiny("--eval.n_episodes=3 --output_dir=run --eval.batch_size=1 --num-shards=2").replace(
            "eval", "parallel", 1
        ),
    ),
    run(
        "ray", tiny(f"--eval.n_episodes=2 --cluster.address=local {TWO}"), unstable=("runs.run.notes",), slow=True
    ),
    # What is kept beside results, and what is told.
    run(
        "recording-and-videos",
        tiny(f"--eval.n_episodes=2 --eval.recording=true --eval.max_episodes_rendered=1 {TWO}"),
    ),
    run("tracker", tiny(f"--eval.n_episodes=2 --report_to=WORLD/policies.py:Notebook {ONE}"), slow=True),
    run("for-programs", tiny(f"--eval.n_episodes=1 {ONE}").replace("--display=none", "--display=json")),
    run(
        "for-people",
        tiny(f"--eval.n_episodes=2 --env.mischief=step.raise!:b:1:3 {ONE}").replace("=none", "=plain"),
    ),
    run("benchmark-checked", "check-benchmark WORLD/bench.py:Tiny --tasks=a --env.task=a --steps=5", slow=True),
    run("tasks-listed", "list metaworld"),
    # Refused.
    run(
        "refused",
        tiny(f"--eval.n_episode=2 {ONE}"),
        tiny(f"--eval.n_episodes=x {ONE}"),
        "merge nowhere",
        "comparee a b",
    ),
    run(
        "another-seed",
        tiny(f"--eval.n_episodes=1 {INLINE}"),
        tiny(f"--eval.n_episodes=1 --seed=7 {INLINE}"),
        slow=True,
    ),
)
