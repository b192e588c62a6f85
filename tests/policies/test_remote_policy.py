"""A policy behind `proctor serve` is the policy itself: the same digests, whatever happens to its server."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness import SUPPORT, Digests, digests, flags, run_cli, run_tiny, tiny_tree, wait_until
from proctor.errors import PolicyHostError, UsageError
from proctor.events import Watcher
from servers import Served, served, start_server, stop_server
from tiny_policies import aside

MORTAL = f"{SUPPORT / 'tiny_policies.py'}:Mortal"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("workers", [3, 1])
def test_a_served_policy_has_the_digests_of_a_local_one(tmp_path: Path, reference: Digests, workers: int) -> None:
    with served() as server:
        evaluation = run_tiny(tmp_path / "run", policy={"path": server.url}, eval={"batch_size": workers})
    assert evaluation.error is None
    assert digests(evaluation) == reference
    assert evaluation.info["run"]["reproducible"] is True


@pytest.mark.parametrize("how", [{"policy": {"placement": "central"}}, {"eval": {"use_async_envs": False}}])
def test_nor_does_it_matter_who_asks(tmp_path: Path, reference: Digests, how: dict[str, Any]) -> None:
    with served(kwargs={"batch": 4}) as server:
        policy = {"path": server.url, **how.get("policy", {})}
        evaluation = run_tiny(tmp_path / "run", policy=policy, eval=how.get("eval"))
    assert evaluation.error is None
    assert digests(evaluation) == reference


def test_a_server_that_is_killed_and_started_again_costs_no_episode(tmp_path: Path, reference: Digests) -> None:
    kwargs = {"at": 30, "once": aside(tmp_path / "marker")}
    server = start_server(MORTAL, kwargs=kwargs)
    second: list[Served] = []

    def restart() -> None:
        server.process.communicate(timeout=60)
        second.append(start_server(MORTAL, kwargs=kwargs, port=server.port))

    nurse = threading.Thread(target=restart)
    nurse.start()
    evaluation = run_tiny(tmp_path / "run", policy={"path": server.url})
    nurse.join()
    stop_server(second[0])
    assert server.process.returncode == -signal.SIGKILL
    assert evaluation.error is None
    assert digests(evaluation) == reference
    assert max(record.attempts for record in evaluation.records) == 2


def test_a_server_that_is_gone_ends_the_run_and_the_same_command_goes_on(
    tmp_path: Path, reference: Digests
) -> None:
    kwargs = {"at": 60, "once": aside(tmp_path / "marker")}
    server = start_server(MORTAL, kwargs=kwargs)
    tree = tiny_tree(tmp_path / "run", policy={"path": server.url, "reconnect": 0.5})
    done = run_cli("eval", *flags(tree))
    server.process.communicate(timeout=60)
    assert done.returncode == 1, done.stderr
    assert f"proctor: the policy server at {server.url} is gone: Connection refused" in done.stderr
    assert "Start it again, the same command goes on." in done.stderr
    assert "Traceback" not in done.stderr
    assert 0 < len(digests(tmp_path / "run")) < 12
    again = run_cli("eval", *flags(tree))
    assert again.returncode == 2
    assert "no policy server there: Connection refused. Start it" in again.stderr
    assert len(again.stderr.strip().splitlines()) == 1
    second = start_server(MORTAL, kwargs=kwargs, port=server.port)
    done = run_cli("eval", *flags(tree))
    stop_server(second)
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "run") == reference


def test_a_server_that_comes_back_with_another_policy_ends_the_run(tmp_path: Path) -> None:
    server = start_server(MORTAL, kwargs={"at": 20, "once": aside(tmp_path / "marker")})
    second: list[Served] = []

    def restart() -> None:
        server.process.communicate(timeout=60)
        second.append(start_server(port=server.port))

    nurse = threading.Thread(target=restart)
    nurse.start()
    evaluation = run_tiny(tmp_path / "run", policy={"path": server.url})
    nurse.join()
    stop_server(second[0])
    assert isinstance(evaluation.error, PolicyHostError)
    assert "serves another policy now" in str(evaluation.error)


class CountingConnections(Watcher):
    """Notes how many connections the server has whenever an episode ends."""

    def __init__(self, pid: int) -> None:
        self.pid, self.most = pid, 0

    def episode(self, record: Any) -> None:
        self.most = max(self.most, connections(self.pid))


def connections(pid: int) -> int:
    found = psutil.Process(pid).net_connections("tcp")
    return sum(connection.status == psutil.CONN_ESTABLISHED for connection in found)


@pytest.mark.slow
def test_64_episodes_share_one_server_and_leave_no_connection(tmp_path: Path) -> None:
    local = run_tiny(tmp_path / "local", task="a,b", n_episodes=32, env={"max_steps": 15})
    with served(kwargs={"batch": 8}) as server:
        watcher = CountingConnections(server.process.pid)
        evaluation = run_tiny(
            tmp_path / "run",
            task="a,b",
            n_episodes=32,
            policy={"path": server.url},
            env={"max_steps": 15},
            eval={"batch_size": 8},
            watcher=watcher,
        )
        wait_until(lambda: not connections(server.process.pid))
    assert evaluation.error is None
    assert len(evaluation.records) == 64
    assert digests(evaluation) == digests(local)
    # One per worker, and one more while a worker changes from an episode to the next.
    assert 0 < watcher.most <= 16


def test_executing_less_of_each_chunk_is_another_policy(tmp_path: Path, reference: Digests) -> None:
    with served() as server:
        evaluation = run_tiny(tmp_path / "run", policy={"path": server.url, "n_action_steps": 1})
        assert evaluation.error is None
        assert digests(evaluation) != reference
        with pytest.raises(UsageError, match=r"policy\.fingerprint"):
            run_tiny(tmp_path / "run", policy={"path": server.url})


def test_other_names_on_the_way_change_nothing_that_the_policy_sees(tmp_path: Path, reference: Digests) -> None:
    renamed = f"{SUPPORT / 'tiny_policies.py'}:Renamed"
    keys = {"observation.state": "robot/state", "observation.image": "robot/image"}
    with served(renamed, rename_map=str(keys).replace("'", '"')) as server:
        evaluation = run_tiny(tmp_path / "run", policy={"path": server.url, "keys": keys})
    assert evaluation.error is None
    assert digests(evaluation) == reference
