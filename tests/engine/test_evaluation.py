"""What is refused in one line before any cluster is touched, and that nothing of Ray is needed without one."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import flags, run_cli, tiny_tree
from proctor.config.load import build_settings
from proctor.engine.evaluation import evaluate_settings
from proctor.errors import UsageError
from proctor.installation import install_command
from tiny_policies import Thoughtful

CLUSTER = {"address": "auto"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cluster": {"address": "nowhere"}}, "must be auto, local or HOST:PORT"),
        ({"cluster": {"address": "ray://head:10001"}}, "must be auto, local or HOST:PORT"),
        ({"cluster": {"address": "auto", "min_nodes": 0}}, "must be at least 1"),
        ({"cluster": CLUSTER, "eval": {"use_async_envs": False}}, "use_async_envs=false"),
        ({"cluster": CLUSTER, "eval": {"num_shards": 2}}, "both split the plan"),
    ],
)
def test_settings_that_a_cluster_cannot_keep_are_refused(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        build_settings(tiny_tree(tmp_path / "run", **options))


def test_a_live_policy_object_is_refused(tmp_path: Path) -> None:
    settings = build_settings(tiny_tree(tmp_path / "run", cluster=CLUSTER))
    with pytest.raises(UsageError, match="live policy object"):
        evaluate_settings(settings, live_policy=Thoughtful())


def test_without_ray_the_command_that_installs_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = build_settings(tiny_tree(tmp_path / "run", cluster=CLUSTER))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=re.escape(install_command("ray"))):
        evaluate_settings(settings)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no-such-host.invalid:6379"])
def test_a_wrong_address_is_refused_in_one_line_and_leaves_nothing(tmp_path: Path, address: str) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'proctor-eval[ray]'")
    done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", cluster={"address": address})))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"proctor: --cluster.address={address}: nothing answers at {address}")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_run_without_a_cluster_does_not_import_ray() -> None:
    script = "import sys, proctor.api, proctor.cli.main, proctor.cli.run; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
