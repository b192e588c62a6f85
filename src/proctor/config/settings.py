"""The typed settings of a run: plain frozen dataclasses, so that a worker reads them without pydantic.

`Annotated` carries the limits that are checked when settings are made, the help text, and the marker `EXECUTION`
on settings that may change between a run and its resume because they cannot change what an episode yields.
Everything else, in every section and in those of other packages, is identity (`identity.py`).
Names are LeRobot's wherever LeRobot has the thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args, get_type_hints

try:
    from annotated_types import Ge, Gt, Le
except ModuleNotFoundError:  # in a worker of an interpreter without pydantic: what reaches it is checked already
    Ge = Gt = Le = lambda bound: bound  # type: ignore[assignment,misc,return-value]

EXECUTION = "execution"

AtLeast, AtMost, MoreThan = Ge, Le, Gt
"""Bounds of a number, which pydantic checks."""

MOST_EPISODES = 1_000_000
"""Of one run: more would not fit into memory, and no benchmark has them."""

MOST_SEED = 2**32 - 1
"""Of an episode: NumPy's older generators, which many simulators use, take no larger one."""

MOST_PORT = 2**16 - 1


def identity_values(settings: Any) -> dict[str, Any]:
    """Return the values of a section that can change a result: all that are not marked `EXECUTION`."""
    hints = get_type_hints(type(settings), include_extras=True)
    return {
        field.name: getattr(settings, field.name)
        for field in fields(settings)
        if EXECUTION not in get_args(hints[field.name])
    }


def comma_list(text: str) -> list[str]:
    """Return the parts of a setting that is a comma list."""
    return [part.strip() for part in text.split(",") if part.strip()]


class Locates(NamedTuple):
    """Marks a setting that may name something on this disk: it is stored absolute, to mean the same from anywhere.

    A setting of type `Path` needs no mark. What no longer exists is an error later, and not looked for elsewhere.

    `folder`: a path, whatever it is; "none" is none. `program`: a path if it has a slash, else a name to look up.
    `source`: `file.py:Name`, or another name. `sources`: a comma list of these. `checkpoint`: a source, or a path
    if there is something at it. `values`: a dict whose values, at any depth, are paths where they have a slash and
    there is something at them. `given`: a path that no run stores, shown as the user wrote it.
    """

    kind: Literal["folder", "program", "source", "sources", "checkpoint", "values", "given"]


@dataclass(frozen=True, kw_only=True)
class EnvSettings:
    """The benchmark and its tasks (`--env.*`); each benchmark extends it with its own flags."""

    type: Annotated[str, Locates("source"), "benchmark: a known name, or file.py:Class or module:Class"] = ""
    # Not how tasks are named, but which they are, decides a result: they are in the identity, one by one.
    task: Annotated[str, EXECUTION, "task, group, or a comma list of them"] = ""
    python: Annotated[
        str | None,
        Locates("program"),
        EXECUTION,
        "interpreter that runs the simulators, with packages of its own [this one]",
    ] = None
    max_parallel_tasks: Annotated[
        int, AtLeast(0), EXECUTION, "how many tasks may be open at once, to save memory; 0: no limit"
    ] = 0

    def create_envs(
        self, n_envs: int, use_async_envs: bool = False, autoreset_mode: Any = "NextStep"
    ) -> dict[str, dict[int, Any]]:
        """Return a `gymnasium.vector.VectorEnv` for every task: {group: {task_id: environment}}."""
        made: dict[str, dict[int, Any]] = _vector("make:create_envs", self, n_envs, use_async_envs, autoreset_mode)
        return made

    # What LeRobot's configs have besides, for its code. It follows from the settings, and is none itself.

    @property
    def features(self) -> Mapping[str, Any]:
        """A LeRobot `PolicyFeature` for the action and for every part of an observation."""
        found: Mapping[str, Any] = _vector("lerobot_config:features", self)
        return found

    @property
    def features_map(self) -> Mapping[str, str]:
        """The policy's key of every feature."""
        found: Mapping[str, str] = _vector("lerobot_config:features_map", self)
        return found

    @property
    def fps(self) -> int:
        """Steps a second in the robot's own time."""
        return int(_vector("lerobot_config:fps", self))

    def get_env_processors(self) -> tuple[Any, Any]:
        """Return LeRobot's pipelines before and behind a policy: empty, the environments have done it already."""
        made: tuple[Any, Any] = _vector("lerobot_config:get_env_processors", self)
        return made


def _vector(name: str, *arguments: Any) -> Any:
    """Call a function of a layer above this one, which knows benchmarks."""
    from proctor.config.registry import VECTOR, load_object

    return load_object(f"{VECTOR}.{name}")(*arguments)


@dataclass(frozen=True, kw_only=True)
class PolicySettings:
    """The policy (`--policy.*`); each kind extends it with its own flags."""

    type: Annotated[str, Locates("source"), "kind of policy; found from --policy.path where that is given"] = ""
    path: Annotated[
        str | None,
        Locates("checkpoint"),
        "file.py:Name, module:Name, a LeRobot checkpoint (directory or hub id), or ws://HOST:PORT",
    ] = None
    python: Annotated[
        str | None,
        Locates("program"),
        EXECUTION,
        "interpreter that runs it, with packages of its own [the one Proctor runs in]",
    ] = None
    OPEN: ClassVar[str | None] = None
    """The field of a kind that takes every `--policy.NAME` it does not know itself."""

    placement: Annotated[
        Literal["auto", "central", "worker"],
        EXECUTION,
        "where it runs: one host process for all, or inside every worker; same results",
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class DevicePolicySettings(PolicySettings):
    """A policy that computes on a device, in batches of one shape. Both are part of what it says of itself."""

    device: Annotated[
        str | None, EXECUTION, "cpu, cuda, cuda:0, or a comma list for one host each [the checkpoint's]"
    ] = None
    batch_size: Annotated[
        int, AtLeast(0), EXECUTION, "rows in one forward pass, part of the result; 0: 1 on a CPU, 16 on a GPU"
    ] = 0


def chosen_device(policy: PolicySettings) -> str | None:
    """Return the device that a policy's settings name, if they name one."""
    return policy.device if isinstance(policy, DevicePolicySettings) else None


@dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """How many episodes, and how they are run (`--eval.*`); LeRobot's `EvalConfig`, and more."""

    n_episodes: Annotated[int, EXECUTION, AtLeast(1), AtMost(MOST_EPISODES), "episodes per task"] = 50
    batch_size: Annotated[
        int,
        EXECUTION,
        AtLeast(0),
        AtMost(10_000),
        "simulator workers; 0: one per core, more while that makes the run faster",
    ] = 0
    use_async_envs: Annotated[
        bool, EXECUTION, "false: everything in this process, one episode at a time, for debuggers"
    ] = True
    video: Annotated[
        str,
        EXECUTION,
        "what is filmed: failures, all, none, or a number: the first so many episodes of every task. Filmed after "
        "the run, from stored actions",
    ] = "none"
    max_episodes_rendered: Annotated[int | None, EXECUTION, AtLeast(0), "LeRobot's name for --eval.video=N"] = None
    video_fps: Annotated[
        int, EXECUTION, AtLeast(1), "most frames a second drawn for a video; it plays in real time"
    ] = 30
    recording: Annotated[
        bool,
        EXECUTION,
        "keep every episode as one LeRobotDataset in the run directory; draws every camera at every step, which "
        "costs time but changes no result",
    ] = False
    only_success: Annotated[bool, EXECUTION, "record successful episodes only"] = False
    demonstrations: Annotated[
        int,
        EXECUTION,
        AtLeast(0),
        "record until so many episodes of every task have succeeded, of at most n_episodes; 0: record all",
    ] = 0
    noise: Annotated[
        str,
        "noise added to the policy's actions: its standard deviation as a share of half their range; of a comma "
        "list each episode takes one",
    ] = "0"
    noise_share: Annotated[float, AtLeast(0), AtMost(1), "share of the steps that noise is added to"] = 0.5
    recording_repo_id: Annotated[
        str | None, EXECUTION, "as in LeRobot, but nothing is uploaded: the dataset stays with the run"
    ] = None
    recording_private: Annotated[bool, EXECUTION, "as in LeRobot, of what is uploaded"] = False
    store_actions: Annotated[
        bool,
        EXECUTION,
        "keep every episode's actions, a few kilobytes each, so that it can be replayed, filmed and verified",
    ] = True
    max_attempts: Annotated[
        int, EXECUTION, AtLeast(1), "how often an episode is tried before it is stored as an error"
    ] = 3
    recycle_after: Annotated[
        int, EXECUTION, AtLeast(0), "episodes after which a worker is replaced by a fresh one; 0: never"
    ] = 0
    shard_id: Annotated[
        int,
        EXECUTION,
        AtLeast(0),
        "run every num_shards-th episode of the plan from this one on; slurm: the array task's",
    ] = 0
    num_shards: Annotated[
        int,
        EXECUTION,
        AtLeast(1),
        AtMost(MOST_EPISODES),
        "how many processes share the plan; proctor merge puts them together",
    ] = 1
    stop_when: Annotated[
        str,
        EXECUTION,
        'end early, "ci<=0.05": when the success rate is known to plus or minus 5 points; none: never',
    ] = "none"
    until_better_than: Annotated[
        str,
        EXECUTION,
        Locates("folder"),
        "run directory of the same tasks and seed: end when this policy is shown to be better, or not to be",
    ] = "none"
    stop_grace: Annotated[
        float, EXECUTION, AtLeast(0), "seconds that Ctrl-C gives the episodes in flight to finish"
    ] = 10.0

    def __post_init__(self) -> None:
        if self.recording_repo_id is not None and not self.recording:
            raise ValueError("recording_repo_id needs recording=true")
        if (self.only_success or self.demonstrations) and not self.recording:
            name = "only_success" if self.only_success else "demonstrations"
            raise ValueError(f"{name} needs recording=true; proctor record sets both")
        if self.demonstrations > self.n_episodes:
            raise ValueError(
                f"demonstrations={self.demonstrations} of at most n_episodes={self.n_episodes} episodes: "
                "ask for more episodes"
            )


@dataclass(frozen=True, kw_only=True)
class LimitSettings:
    """Seconds after which a process counts as hung and is replaced (`--limits.*`)."""

    start: Annotated[float, EXECUTION, MoreThan(0), "a child process's start"] = 60.0
    build: Annotated[float, EXECUTION, MoreThan(0), "building a simulator, or closing it"] = 180.0
    reset: Annotated[float, EXECUTION, MoreThan(0), "one reset"] = 120.0
    step: Annotated[float, EXECUTION, MoreThan(0), "one step"] = 60.0
    draw: Annotated[float, EXECUTION, MoreThan(0), "one drawing, or encoding and keeping what was filmed"] = 120.0
    load: Annotated[float, EXECUTION, MoreThan(0), "loading the policy"] = 1800.0
    act: Annotated[float, EXECUTION, MoreThan(0), "one call of the policy"] = 600.0
    respond: Annotated[float, EXECUTION, MoreThan(0), "taking up what waits: an order, a question, an answer"] = (
        60.0
    )


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """On which machines the episodes run (`--cluster.*`)."""

    address: Annotated[
        str | None,
        EXECUTION,
        "spread the plan over a Ray cluster: auto (the running one), HOST:PORT, or local (Ray on this machine)",
    ] = None
    min_nodes: Annotated[
        int, EXECUTION, AtLeast(1), "nodes that must be ready before the first episode; more may join"
    ] = 1


@dataclass(frozen=True, kw_only=True)
class WandBConfig:
    """How Weights & Biases is told of a run (`--wandb.*`), as in LeRobot.

    WANDB_* variables hold for what is left open.
    """

    enable: Annotated[bool, EXECUTION, "the same as wandb in --report_to"] = False
    project: Annotated[str | None, EXECUTION, "project, of trackio too [WANDB_PROJECT, or proctor]"] = None
    entity: Annotated[str | None, EXECUTION, "user or team [WANDB_ENTITY, or your own]"] = None
    mode: Annotated[
        Literal["online", "offline", "disabled"] | None,
        EXECUTION,
        "online, offline or disabled [WANDB_MODE, or online]",
    ] = None
    run_id: Annotated[str | None, EXECUTION, "id of the run to go on with [the one of the run directory]"] = None
    notes: Annotated[str | None, EXECUTION, "words beside the run [WANDB_NOTES]"] = None
    add_tags: Annotated[bool, EXECUTION, "tag the run with its policy, benchmark and seed"] = True
    disable_artifact: Annotated[
        bool, EXECUTION, "leave out the table of episodes, which wandb keeps as an artifact"
    ] = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of one run."""

    policy: PolicySettings
    env: EnvSettings
    eval: EvalConfig = field(default_factory=EvalConfig)
    limits: LimitSettings = field(default_factory=LimitSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    wandb: WandBConfig = field(default_factory=WandBConfig)
    seed: Annotated[int, AtLeast(0), AtMost(MOST_SEED), "episode i of every task runs with seed + i"] = 1000
    rename_map: Annotated[dict[str, str], "renamed observation keys, as JSON: {benchmark's key: policy's key}"] = (
        field(default_factory=dict)
    )
    trust_remote_code: Annotated[bool, EXECUTION, "let a checkpoint run code that comes with it"] = False
    only: Annotated[
        str | None,
        EXECUTION,
        "run these episodes of the plan alone: TASK, TASK:7 or TASK:0-4, a comma list [all]",
    ] = None
    failed: Annotated[
        Path | None,
        Locates("given"),
        EXECUTION,
        "run directory whose failures are run again, as a new run, with its settings where none are given",
    ] = None
    output_dir: Annotated[
        Path | None,
        Locates("given"),
        EXECUTION,
        "run directory [outputs/eval/DATE/TIME_JOB]; an existing run is resumed",
    ] = None
    job_name: Annotated[str | None, EXECUTION, "name in the run directory's path [BENCHMARK_POLICY]"] = None
    tags: Annotated[
        str | None, EXECUTION, "words to find the run by and to group it with others, a comma list"
    ] = None
    description: Annotated[str | None, EXECUTION, "one line on what the run is for, shown beside its name"] = None
    notes: Annotated[str | None, EXECUTION, "what is to be remembered of the run"] = None
    resume: Annotated[
        Path | None, Locates("given"), EXECUTION, "run directory to finish, with its own settings"
    ] = None
    exitfirst: Annotated[
        bool, EXECUTION, "also -x: stop at the first episode that ends in an error, after its attempts"
    ] = False
    min_success: Annotated[
        float | None,
        EXECUTION,
        MoreThan(0),
        AtMost(1),
        "success rate that the run must reach, such as 0.8; else the exit status is 4",
    ] = None
    min_success_by: Annotated[
        Literal["rate", "lower"], EXECUTION, "what must reach it: the rate, or the lower end of its interval"
    ] = "rate"
    junit: Annotated[
        Path | None, Locates("given"), EXECUTION, "file for the result as JUnit XML, a test case per task"
    ] = None
    report_to: Annotated[
        str | None,
        Locates("sources"),
        EXECUTION,
        "trackers to tell of the run, a comma list of wandb, trackio, tensorboard, or file.py:Class of your own",
    ] = None
    display: Annotated[
        Literal["auto", "live", "plain", "json", "none"],
        EXECUTION,
        "progress on the terminal; json: an object per line, for programs",
    ] = "auto"
    passed_over: Annotated[tuple[str, ...], EXECUTION] = ()
    """What was given in LeRobot's words and means nothing here, with what holds instead. No flag."""

    @property
    def passed_over_note(self) -> str | None:
        """One line for all that was passed over, if there is something."""
        words = "; ".join(self.passed_over)
        return f"LeRobot settings with no effect here: {words}." if words else None
