"""Real trackers. Without their packages these tests are not collected; `make test-trackers` has them."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = [
    f"test_{name}.py" for name in ("tensorboard", "trackio", "wandb") if importlib.util.find_spec(name) is None
]
