"""Where an evaluation runs: on this machine, or on the nodes of a cluster."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from proctor.config.settings import Settings
from proctor.engine.evaluation import Evaluation, Evaluator, evaluate_settings, run_directory
from proctor.errors import UsageError
from proctor.events import Watcher
from proctor.installation import missing_package
from proctor.policies.protocol import Policy


def evaluate_anywhere(
    settings: Settings, watchers: Sequence[Watcher] = (), live_policy: Policy | None = None
) -> Evaluation:
    """Run one evaluation where its settings say."""
    address = settings.cluster.address
    if address is None:
        return evaluate_settings(settings, watchers, live_policy)
    if live_policy is not None:
        raise UsageError(
            f"--cluster.address={address}: a live policy object cannot leave this process; "
            "give file.py:Name, which is sent to the nodes."
        )
    if importlib.util.find_spec("ray") is None:
        raise missing_package(f"--cluster.address={address}", "ray", "ray")
    from proctor.cluster.driver import Nodes

    directory = run_directory(settings)
    directory.check_begun(settings.resume)
    return Evaluator(settings, directory, Nodes(settings, directory), watchers).run()
