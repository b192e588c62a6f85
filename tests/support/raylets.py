"""The tests' handle on a cluster, which lives outside their process: whatever is left in that is looked at."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil

from harness import tiny_tree


class Raylets:
    """Gives orders to `raylet_server.py`. It is nobody's child, because a child would count as left behind."""

    def __init__(self, log: Path) -> None:
        # Ray's sockets need a short path; what our nodes write must not lie with other people's.
        self._ray_home, self._nodes_home = Path(tempfile.mkdtemp(prefix="ray-")), log.parent
        script = Path(__file__).with_name("raylet_server.py")
        with log.open("w") as output:
            self._process = subprocess.Popen(
                ["setsid", "--fork", sys.executable, str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                env={**os.environ, "RAY_TMPDIR": str(self._ray_home), "TMPDIR": str(self._nodes_home)},
            )
        pid, self.address = self._answer().split()
        self._process.wait()
        self._cluster = psutil.Process(int(pid))
        self.added = [self.add(), self.add()]

    def add(self, **environment: str) -> psutil.Process:
        return psutil.Process(int(self._order("add", *(f"{name}={value}" for name, value in environment.items()))))

    def remove(self, raylet: psutil.Process) -> None:
        self._order("remove", str(raylet.pid))

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        family = [self._cluster, *self._cluster.children(recursive=True)]
        self._process.stdin.close()
        _, alive = psutil.wait_procs(family, timeout=60)
        self._process.stdout.close()
        for process in alive:  # some versions of Ray take their time
            process.kill()
        shutil.rmtree(self._ray_home)

    def engine_processes(self) -> list[psutil.Process]:
        """Return the workers and hosts that run on any raylet."""
        return [child for child in self._cluster.children(recursive=True) if is_engine(child)]

    def files(self, run: Path) -> list[Path]:
        """Return what a run has left on the nodes besides logs."""
        home = self._nodes_home / f"proctor-nodes-{os.getuid()}"
        assert home.exists()
        files = [file for folder in home.glob(f"{run.name}-*") for file in folder.rglob("*") if file.is_file()]
        return [file for file in files if file.name != "lock" and file.parent.name != "logs"]

    def tree(self, output_dir: Path, **options: Any) -> dict[str, Any]:
        """Return settings of a run on these raylets, with a worker per core that each has."""
        eval = {"batch_size": 0, **options.pop("eval", {})}
        return tiny_tree(output_dir, eval=eval, cluster={"address": self.address}, **options)

    def _order(self, *words: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, "the cluster died"
        return line


def is_engine(process: psutil.Process) -> bool:
    try:
        return "proctor.engine.child" in process.cmdline()
    except psutil.Error:
        return False
