"""`python -m proctor.training.compact SETTINGS.json`: trains a compact policy, from its last checkpoint on."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from proctor.errors import ProctorError, UsageError
from proctor.training.child import begin
from proctor.training.compact.settings import TrainerSettings


def main(arguments: list[str]) -> int:
    """Train; returns the exit status."""
    begin()
    try:
        settings = TrainerSettings.read(Path(arguments[0]))
        for package in ("torch", "pyarrow"):
            if importlib.util.find_spec(package) is None:
                raise UsageError(
                    f"training needs {package}, which {sys.executable} does not have. Run: {sys.executable} -m "
                    f"pip install {package} (or name another interpreter: --policy.python=PATH)"
                )
        from proctor.training.compact.demonstrations import read_demonstrations
        from proctor.training.compact.trainer import Trainer

        demonstrations = read_demonstrations(Path(settings.dataset_root))
        Trainer(settings, demonstrations, _tell).train()
    except ProctorError as error:
        sys.stderr.write(f"proctor: {error}\n")
        return error.exit_status
    except KeyboardInterrupt:
        return 130
    return 0


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
