"""`proctor train`: train a policy, and evaluate its checkpoints beside."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import get_type_hints

from rich.console import Console

from proctor.cli.unforeseen import say
from proctor.config.help import flag_tables, settings_table
from proctor.config.help_pages import print_flags, print_words
from proctor.config.load import parsed_flags
from proctor.config.settings import Settings
from proctor.config.values import validated_value
from proctor.errors import UsageError
from proctor.files import check_folder, given_path
from proctor.report.console import PatientConsole, count
from proctor.training.compact.settings import NetworkSettings
from proctor.training.display import TrainingDisplay, make_training_display
from proctor.training.record import TRAINING, TrainingRecord
from proctor.training.run import TrainingOutcome, TrainingRun
from proctor.training.settings import Flags, TrainFlags, TrainingSettings, given_folder, training_settings

_WORDS = """Train a policy on a dataset, and evaluate its checkpoints beside: success with its interval over steps.

usage: proctor train --policy.type=TYPE --dataset.root=FOLDER --env.type=BENCHMARK --env.task=TASKS [flags]

  proctor train --policy.type=compact --dataset.root=outputs/demonstrations --env.type=metaworld --env.task=easy \\
    --steps=20000 --eval_freq=2000 --eval.n_episodes=10
  proctor train --policy.type=smolvla --policy.repo_id=me/x --policy.load_vlm_weights=true \\
    --dataset.repo_id=lerobot/metaworld_mt50 --env.type=metaworld --env.task=assembly-v3,dial-turn-v3 \\
    --output_dir=outputs/train/x --steps=100000 --batch_size=4 --eval.n_episodes=1 --eval_freq=1000
  proctor train --follow=outputs/train/x --env.type=metaworld --env.task=assembly-v3
  proctor train --resume=outputs/train/x

--policy.type=compact is trained by Proctor, every other type and --policy.path=CHECKPOINT by the installed lerobot
(--policy.python names an interpreter that has it). Flags are lerobot-train's: --dataset.*, --policy.*,
--optimizer.*, --batch_size, --num_workers and others go to it as typed; --env.*, --eval.* and --limits.* are those
of proctor eval. The best checkpoint by the lower end of its interval is checkpoints/best.
The same command goes on."""

_NO_EVALUATION = "nothing is evaluated beside: that takes --env.type, --env.task and an --eval_freq above 0"


class TrainCommand:
    """The command: sorts its flags, trains, and says what came of it."""

    def __call__(self, arguments: Sequence[str]) -> int:
        """Run it; returns the exit status."""
        flags = _resumed(parsed_flags(arguments, TrainFlags, "proctor train", say))
        settings = training_settings(flags)
        display = make_training_display(_display_kind(flags), PatientConsole())
        if settings.evaluation is None:
            display.note(_NO_EVALUATION)
        outcome = TrainingRun(settings, display).run()
        return _conclude(outcome, settings, display)

    def show_help(self, console: Console) -> None:
        """Print its words and a table for each kind of flags."""
        print_words(console, _WORDS)
        tables = [
            ("Training", settings_table("", TrainFlags)),
            ("The policy compact", settings_table("policy.", NetworkSettings)),
            *((title, table) for title, table in flag_tables() if title not in ("Policy", "General")),
        ]
        for title, flags in tables:
            print_flags(console, title, flags)


train_command = TrainCommand()


def _display_kind(flags: Flags) -> str:
    kind = flags.get("display", "auto")
    return str(validated_value("display", kind, get_type_hints(Settings, include_extras=True)["display"]))


def _resumed(flags: Flags) -> Flags:
    """Return the flags of the training that `--resume` names, with those beside it, and be where it was begun."""
    given = flags.get("resume")
    if given is None:
        return flags
    if given.lower() in ("true", "false"):
        raise UsageError(
            f"--resume={given}: the same command goes on by itself. Give it again, or name the training's folder: "
            "proctor train --resume=OUTPUT_DIR"
        )
    place = given_folder("resume", given)
    check_folder(place, "folder of a training")
    record = TrainingRecord.read(place)
    if record is None:
        raise UsageError(f"--resume={given}: no training of proctor train was begun here (no {TRAINING}).")
    if "output_dir" in flags:
        raise UsageError("--resume names the folder itself; leave --output_dir out.")
    with given_path(record.folder, remedy=f"The training in {place} was begun there, and its paths hold there."):
        os.chdir(record.folder)
    where = {"follow": str(place)} if "follow" in record.flags else {"output_dir": str(place)}
    others = {name: text for name, text in flags.items() if name != "resume"}
    return {**record.flags, **others, **where}


def _conclude(outcome: TrainingOutcome, settings: TrainingSettings, display: TrainingDisplay) -> int:
    place = settings.output_dir
    report = place / "report.html"
    display.ended(outcome.record.curve, report if report.is_file() else None)
    if outcome.stopped_by is not None:
        again = shlex.join(["proctor", "train", f"--resume={place}"])
        begun = (place / TRAINING).is_file()
        sys.stderr.write(f"stopped. To go on: {again}\n" if begun else "stopped before the training began\n")
    elif outcome.record.failures:
        failed = count(len(outcome.record.failures), "checkpoint")
        say(f"{failed} could not be evaluated. The same command tries again.")
    return outcome.status
