"""A Ray cluster of several raylets on this machine, in a process that takes orders on its standard input.

`add [NAME=VALUE ...]` starts a raylet with these environment variables, `remove PID` kills the raylet with this
number, without mercy. Each order is answered by a line. The end of the input ends the cluster.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from ray.cluster_utils import Cluster

STORE = 80 << 20


def main() -> None:
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": STORE},
    )
    nodes: dict[int, Any] = {}
    try:
        answer(f"{os.getpid()} {cluster.address}")
        for line in sys.stdin:
            order, *rest = line.split()
            if order == "add":
                pairs = dict(pair.split("=", 1) for pair in rest)
                os.environ.update(pairs)
                node = cluster.add_node(num_cpus=1, object_store_memory=STORE)
                for name in pairs:
                    del os.environ[name]
                pid = node.all_processes["raylet"][0].process.pid
                nodes[pid] = node
                answer(str(pid))
            elif order == "remove":
                cluster.remove_node(nodes.pop(int(rest[0])), allow_graceful=False)
                answer("removed")
    finally:
        cluster.shutdown()


def answer(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - the answer to the tests


if __name__ == "__main__":
    main()
