"""A trainer without torch that takes the place of the compact one: it writes real checkpoints, each when it may.

`--policy.python` names a program that is called like an interpreter; `make_interpreter` makes one that runs this
file. A checkpoint of step n is written when the file `may-N` in the training's parent folder exists for an N of at
least n; `damage-N` there spoils that of step N, and with `fail` there the trainer fails at its end.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from proctor.policies.compact.checkpoint import CompactCheckpoint, CompactConfig
from proctor.training.child import begin

TASKS = ("a", "b", "c")


def make_interpreter(folder: Path) -> Path:
    """Return a program that trains in this way."""
    program = folder / "stepwise-python"
    support = Path(__file__).parent
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(support)!r})\n"
        "from stepwise_trainer import main\nmain(sys.argv[-1])\n"
    )
    program.chmod(0o755)
    return program


def make_dataset(folder: Path) -> Path:
    """Return a folder that passes for a dataset; this trainer reads none."""
    (folder / "meta").mkdir(parents=True)
    (folder / "meta/info.json").write_text("{}")
    return folder


def allow(training: Path, step: int) -> None:
    """Let the trainer write its checkpoints up to a step."""
    (training.parent / f"may-{step}").touch()


def policy_of(step: int) -> CompactCheckpoint:
    """Return the policy after so many steps: the second of every three succeeds, and none is like another."""
    config = CompactConfig(
        inputs={"observation.state": (3,)}, action_size=2, tasks=TASKS, width=4, blocks=1, task_width=1,
        chunk_size=2, n_action_steps=1,
    )  # fmt: skip
    weights = {name: np.zeros(shape, np.float32) for name, shape in config.tensor_shapes().items()}
    weights["last.bias"][0::2] = 1.0 if step % 3 == 2 else -0.9 - step / 1000
    bounds = {"mean": np.zeros(3), "std": np.ones(3)}
    statistics = {f"observation.state.{name}": values for name, values in bounds.items()}
    statistics |= {"action.min": np.full(2, -3.0), "action.max": np.full(2, 3.0)}
    return CompactCheckpoint(config, weights, statistics)


def write_checkpoint(training: Path, step: int, *, last: bool = True) -> Path:
    """Write a checkpoint as LeRobot's trainer does, and call it the last one unless it is to be half written."""
    folder = training / "checkpoints" / f"{step:06d}"
    (folder / "pretrained_model").mkdir(parents=True, exist_ok=True)
    policy_of(step).write(folder / "pretrained_model")
    if last:
        link = folder.with_name("last")
        link.unlink(missing_ok=True)
        link.symlink_to(folder.name)
    return folder


def main(settings: str) -> None:
    """Train."""
    begin()
    told = json.loads(Path(settings).read_text())
    training, every, end = Path(told["output_dir"]), int(told["save_freq"]), int(told["steps"])
    last = training / "checkpoints" / "last"
    done = int(last.readlink().name) if last.is_symlink() else 0
    print(f"from step {done}", flush=True)  # noqa: T201
    for step in range(done + every, end + 1, every):
        while not any(int(file.name[4:]) >= step for file in training.parent.glob("may-*")):
            time.sleep(0.01)
        folder = write_checkpoint(training, step)
        if (training.parent / f"damage-{step}").exists():
            (folder / "pretrained_model/model.safetensors").write_bytes(b"no tensors")
        print(f"step {step}", flush=True)  # noqa: T201
    if (training.parent / "fail").exists():
        sys.stderr.write("Traceback of somebody else's\nValueError: the loss is no number\n")
        sys.exit(1)
