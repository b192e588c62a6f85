"""vla-eval and Proctor on the same world: two pictures of 256 px and eight numbers, chunks of 1 and of 10.

    python benchmarks/against_vla_eval.py --vla-eval=PYTHON [--rounds=3] [--episodes=10]

PYTHON is the interpreter of an environment that has vla-eval (`make bench` makes one). Each side runs its own
engine: vla-eval one model server and its `run --no-docker`, once or twice at a time; Proctor an evaluation with as
many workers. The two take turns, and who goes first changes. Steps a second are of the episodes alone, without
start-up, on both sides: vla-eval's are those of its own result files.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import yaml
from figures import report
from pictures import LENGTH

from engine import in_turn, run_proctor

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent / "src")])}
"""vla-eval's: the world is read from `pictures.py`, which takes Proctor's types but not its packages."""


@contextlib.contextmanager
def model_server(python: Path, chunk: int) -> Iterator[str]:
    """Start vla-eval's model server; gives its address."""
    command = [str(python), str(HERE / "pictures_vla_eval.py"), str(chunk)]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield f"ws://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def vla_eval_pace(python: Path, shards: int, chunk: int, episodes: int) -> float:
    """Run vla-eval so many times at once, against one server; returns steps a second, of all together."""
    with tempfile.TemporaryDirectory() as folder, model_server(python, chunk) as url:
        config = {
            "server": {"url": url},
            "output_dir": folder,
            "benchmarks": [{"benchmark": "pictures_vla_eval:PicturesBenchmark", "episodes_per_task": episodes}],
        }
        file = Path(folder) / "config.yaml"
        file.write_text(yaml.safe_dump(config))
        started = []
        for shard in range(shards):
            command = [str(python.with_name("vla-eval")), "run", "-c", str(file), "--no-docker", "--yes"]
            command += ["--output-dir", str(Path(folder) / str(shard))]
            started.append(
                subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            )
        for process in started:
            words, _ = process.communicate(timeout=600)
            assert process.returncode == 0, words.decode()[-2000:]
        paces = []
        for found in Path(folder).rglob("*.json"):
            ended = [one for task in json.loads(found.read_text())["tasks"] for one in task["episodes"]]
            paces.append(sum(one["steps"] for one in ended) / sum(one["elapsed_sec"] for one in ended))
            assert all(one["steps"] == LENGTH for one in ended)
        assert len(paces) == shards
        return float(sum(paces))


def proctor_pace(workers: int, chunk: int, episodes: int) -> float:
    """Run Proctor with so many workers; returns steps a second."""
    tree = {
        "policy": {"path": f"{HERE / 'pictures.py'}:PicturesPolicy", "kwargs": {"chunk": chunk}},
        "env": {"type": f"{HERE / 'pictures.py'}:Pictures", "task": "pictures"},
        "eval": {"n_episodes": episodes, "batch_size": workers},
    }
    return run_proctor(tree, warm=2 * workers)


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=10, help="of vla-eval, each [10]")
    parser.add_argument("--vla-eval", type=Path, required=True, help="the interpreter that has it")
    given = parser.parse_args()
    for shards in (1, 2):
        for chunk in (1, 10):
            ours_of = partial(proctor_pace, shards, chunk, 400)
            theirs_of = partial(vla_eval_pace, given.vla_eval, shards, chunk, given.episodes)
            pairs = in_turn(ours_of, theirs_of, given.rounds)
            ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
            report(
                f"two pictures of 256 px, chunks of {chunk}, {shards} at once, against vla-eval",
                [a / b for a, b in pairs],
                absolute=f"{ours:,.0f} against {theirs:,.0f} steps/s",
            )


if __name__ == "__main__":
    main()
