"""`python -m proctor.training.lerobot FLAGS`: LeRobot's own trainer, without its evaluation, in this interpreter.

Nothing of training is done here: the flags go to `lerobot-train` as they are. The output folder may be there
already, because Proctor keeps its lock and its log in it; what cannot be had from the hub is one line; and of all
that LeRobot logs, only how training goes is put out, for the terminal. The rest is for the log.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, TextIO

from proctor.training.child import begin

_USAGE = 2
_REPOSITORY = ("repo_id", "path_or_repo_id", "pretrained_model_name_or_path")
"""What the hub's and transformers' functions call the repository that they are asked for."""


def main(arguments: list[str]) -> int:
    """Train; returns the exit status: 2 if the command is to blame, and the last line says why."""
    begin()
    if importlib.util.find_spec("lerobot") is None:
        return _complain(
            f"LeRobot's policies are trained by lerobot, which {sys.executable} does not have. Install it there, "
            "or name an interpreter that has it: --policy.python=PATH"
        )
    sys.argv = ["lerobot-train", *arguments]
    progress = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        config = _configured()
        _train(config, progress)
    except ImportError as error:
        if (error.name or "").partition(".")[0] in ("proctor", "lerobot"):
            raise
        return _complain(f"{sys.executable} lacks a package that this training needs: {error}")
    except Exception as error:
        missing = _missing_from_hub(error)
        if missing is None:
            raise
        return _complain(missing)
    return 0


def _configured() -> Any:
    """Return the training's config as LeRobot reads it off the command line. Its complaint is the last line."""
    from lerobot.configs import parser
    from lerobot.configs.train import TrainPipelineConfig
    from lerobot.scripts import lerobot_train

    lerobot_train.register_third_party_plugins()

    def read(config: Any) -> Any:
        return config

    read.__annotations__["config"] = TrainPipelineConfig
    try:
        return parser.wrap()(read)()
    except SystemExit as ended:
        sys.exit(_USAGE if ended.code else 0)


class _Progress(logging.Handler):
    """Puts out what LeRobot's trainer tracks: step, loss and pace."""

    def __init__(self, output: TextIO) -> None:
        from lerobot.utils.logging_utils import MetricsTracker

        super().__init__()
        self._output, self._kind = output, MetricsTracker

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.msg, self._kind):
            self._output.write(f"{record.msg}\n")


def _train(config: Any, progress: TextIO) -> None:
    from lerobot.scripts import lerobot_train

    validate, bar, init_logging = config.validate, lerobot_train.tqdm, lerobot_train.init_logging

    def validate_in_place() -> None:
        """Check everything but that the folder is new."""
        place, config.output_dir = config.output_dir, None
        try:
            validate()
        except ValueError as error:
            sys.exit(_complain(str(error)))
        config.output_dir = place

    def show_progress(*given: Any, **named: Any) -> None:
        """Set up LeRobot's logging, which removes what was there, and add ours."""
        init_logging(*given, **named)
        logging.getLogger().addHandler(_Progress(progress))

    config.validate = validate_in_place
    config.env = None
    for name in ("env_eval_freq", "eval_freq"):  # the name in this version, and in earlier ones
        if hasattr(config, name):
            setattr(config, name, 0)
    # A progress bar is for a terminal, and this goes into a log.
    lerobot_train.init_logging = show_progress
    lerobot_train.tqdm = lambda *given, **named: bar(*given, **{**named, "disable": True})
    lerobot_train.train(config)


def _missing_from_hub(error: BaseException) -> str | None:
    """Say what could not be had from the hub, if that is behind an error."""
    from huggingface_hub import constants, errors

    httpx: Any = sys.modules.get("httpx")  # what the hub's package speaks through, in its recent versions
    transport = () if httpx is None else (httpx.TransportError,)
    unreachable = (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, *transport)
    for one in _chain(error):
        if not isinstance(one, (errors.HfHubHTTPError, errors.EntryNotFoundError, *unreachable)):
            continue
        repository = _repository(error)
        what = "the hub" if repository is None else f"'{repository}', which is to come from the hub,"
        if isinstance(one, errors.GatedRepoError):
            return f"{what} asks for an agreement first: accept it on its page, then run: hf auth login"
        if isinstance(one, unreachable):
            why = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "there is no connection"
            return f"{what} is not on this machine and cannot be fetched: {why}."
        if isinstance(one, errors.RepositoryNotFoundError):
            return f"{what} is not there, or is private: check its name, or run: hf auth login"
        return f"{what} cannot be had: {' '.join(str(one).split())[:300]}"
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it came from, the outermost first."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [cause for cause in (one.__cause__, one.__context__) if cause is not None]


def _repository(error: BaseException) -> str | None:
    """Return the repository that was asked for: it is what the innermost function that has one was called with."""
    found: str | None = None
    for one in _chain(error):
        told = getattr(one, "repo_id", None)
        if isinstance(told, str):
            return told
        trace = one.__traceback__
        while trace is not None:
            found = _asked(trace.tb_frame) or found
            trace = trace.tb_next
    return found


def _asked(frame: FrameType) -> str | None:
    for name in _REPOSITORY:
        value = frame.f_locals.get(name)
        if isinstance(value, str):
            return value
    return None


def _complain(words: str) -> int:
    sys.stderr.write(f"proctor: {words}\n")
    return _USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
