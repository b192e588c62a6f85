"""The trainers: how each is started, from the beginning or from its last whole checkpoint, watched and ended."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proctor.engine.process import STRAYS, ChildProcess, Readable, marked, wait_readable
from proctor.errors import UsageError
from proctor.machine.processes import describe_exit
from proctor.store.filesystem import write_json
from proctor.training.checkpoints import Checkpoint
from proctor.training.child import PARENT
from proctor.training.compact.settings import TrainerSettings
from proctor.training.settings import TrainingSettings, free_flags

COMPACT_SETTINGS = "trainer.json"
"""In the training's folder: what the trainer of compact policies is told."""

_LINES = 6
"""Of a trainer that fails, how many are shown."""

_WITHOUT_EFFECT = {"policy.type", "policy.repo_id", "dataset.repo_id", "job_name", "num_workers", "config_path"}
_NOT_FOR_COMPACT = "wandb."


def check_trainer(settings: TrainingSettings) -> None:
    """Refuse what a trainer cannot be told, as far as that is known without starting it."""
    if settings.python is not None and shutil.which(settings.python) is None:
        raise UsageError(f"--policy.python={settings.python}: there is no such program.")
    if settings.kind == "compact":
        _compact_settings(settings)


def trainer_command(settings: TrainingSettings, resumed: Checkpoint | None) -> list[str]:
    """Return the command that trains, from the beginning or from a checkpoint.

    Args:
        settings: of the training.
        resumed: the last whole checkpoint, if there is one.
    """
    # -P: a file in the user's directory must not shadow the standard library.
    python = [settings.python or sys.executable, "-P", "-m"]
    if settings.kind == "compact":
        file = settings.output_dir / COMPACT_SETTINGS
        write_json(file, _compact_settings(settings))
        return [*python, "proctor.training.compact", str(file)]
    flags = {**settings.trainer, "output_dir": str(settings.output_dir)}
    if resumed is not None:
        flags = {
            **free_flags(settings.trainer),
            "config_path": str(resumed.train_config),
            "resume": "true",
            "output_dir": str(settings.output_dir),
        }
    return [*python, "proctor.training.lerobot", *(f"--{name}={text}" for name, text in flags.items())]


def _compact_settings(settings: TrainingSettings) -> dict[str, Any]:
    """Return what the trainer of compact policies is told. Raises `UsageError` for what it does not know."""
    told: dict[str, Any] = {"output_dir": str(settings.output_dir)}
    network: dict[str, Any] = {}
    for name, text in settings.trainer.items():
        if name == "policy.push_to_hub":
            if text.lower() not in ("false", "no", "0", "off"):
                raise UsageError("--policy.push_to_hub: a compact policy stays on this machine. Leave it out.")
        elif name == "dataset.root":
            told["dataset_root"] = text
        elif name == "policy.device":
            told["device"] = text
        elif name.startswith("policy.") and name not in _WITHOUT_EFFECT:
            network[name.removeprefix("policy.")] = text
        elif name not in _WITHOUT_EFFECT and not name.startswith(_NOT_FOR_COMPACT):
            told[name] = text
    told["policy"] = network
    TrainerSettings.from_json(dict(told))
    return told


class TrainerProcess(ChildProcess):
    """A trainer. It ends with this process, and so does what it starts.

    Args:
        command: what to run.
        log: where its errors go, and all that it has to say to nobody in particular.
        progress: where it says how training goes.
    """

    def __init__(self, command: Sequence[str], log: Path, progress: Path) -> None:
        self._mark = STRAYS.admit()
        env = {**marked(self._mark), PARENT: str(os.getpid()), "PYTHONUNBUFFERED": "1"}
        try:
            progress.parent.mkdir(parents=True, exist_ok=True)
            with progress.open("ab") as output:
                super().__init__(command, log=log, env=env, stdout=output)
        except BaseException:
            STRAYS.dismiss(self._mark)
            raise

    def stop(self, seconds: float, hurry: Readable) -> None:
        """Ask it to stop, and end it after so long or when `hurry` can be read."""
        if not self.has_ended:
            self.process.send_signal(signal.SIGINT)
            wait_readable([self.pidfd, hurry], seconds)
        self.kill()
        self.reap()

    def reap(self, patience: float | None = 0.0) -> int | None:
        """Wait for the end likewise, and end what the trainer has left behind."""
        code = super().reap(patience)
        STRAYS.dismiss(self._mark)
        return code

    def complaint(self, code: int | None) -> str:
        """Say why it ended, in its own words."""
        lines = [line for line in self.printed() if line.strip()]
        if code == UsageError.exit_status and lines:
            return lines[-1].strip().removeprefix("proctor: ")
        said = "".join(f"\n  {line.strip()[:300]}" for line in lines[-_LINES:])
        return f"the trainer {describe_exit(code)}.{said}\nIts log: {self.log}"
