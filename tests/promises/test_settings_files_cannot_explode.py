"""Promise: no settings, from a file or a flag, become more than they are, and a wrong one is one short line."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
import yaml

from harness import run_cli, tiny_tree
from hostile_runs import BOMB
from made_runs import make_run

TEXTS = {
    "aliases of aliases": BOMB,
    "aliases in a section": f"{BOMB}policy: *a8\nenv: *a8\n",
    "aliases in a value": f"{BOMB}env: {{type: metaworld, task: *a8}}\npolicy: {{type: zero}}\n",
    "merged maps": "a0: &a0 {x: 1}\n"
    + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 9)),
    "an alias of itself": "policy: &a [*a]\nenv: {type: metaworld}\n",
    "a hundred thousand levels": "a: " + "[" * 100_000,
    "a long text many times": "a: &a " + "x" * 100_000 + "\nb: [" + ", ".join(["*a"] * 1_400) + "]\n",
    "two megabytes": "a: '" + "x" * (2 << 20) + "'\n",
    "a section that is a long text": "policy: '" + "x" * 900_000 + "'\nenv: {type: metaworld}\n",
    "a value that is a long text": "env: {type: metaworld, task: reach-v3}\npolicy: {type: zero}\nseed: '"
    + "x" * 900_000
    + "'\n",
}


def limited() -> None:
    """Let a child have no more memory than any settings need; without it a failure would hurt the machine."""
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


def refused(*arguments: str) -> None:
    done = run_cli(*arguments, preexec_fn=limited)
    assert done.returncode == 2, done.stderr[-500:]
    assert done.stderr.startswith("proctor: ")
    assert len(done.stderr.splitlines()) == 1
    assert len(done.stderr) < 2000
    assert done.stdout == ""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("what", TEXTS)
def test_a_file_of_settings_is_refused_in_a_line(tmp_path: Path, what: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(TEXTS[what])
    refused("eval", f"--config_path={file}")
    if "long text" in what or "megabytes" in what:
        return
    run = make_run(tmp_path / "run", {"a": [True]})
    (run / "config.yaml").write_text(TEXTS[what])
    refused("eval", f"--resume={run}")


FLAG_BOMB = (
    "{a0: &a0 [x,x,x,x,x,x,x,x,x,x], "
    + ", ".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1} '] * 10)}]" for n in range(1, 9))
    + "}"
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("flag", ["rename_map", "env.kwargs", "env.kwargs.x", "policy.kwargs"])
def test_a_flag_is_refused_in_a_line(flag: str) -> None:
    kind = ["--env.type=gym", "--env.task=CartPole-v1", "--policy.path=x.py:Y"]
    refused("eval", *kind, f"--{flag}={FLAG_BOMB}")


def test_a_file_of_prompts_is_refused_in_a_line(tmp_path: Path) -> None:
    file = tmp_path / "prompts.yaml"
    for text in (BOMB, f"{BOMB}reach-v3: *a8\n", "x: [" * 1000):
        file.write_text(text)
        refused(
            "eval", "--env.type=metaworld", "--env.task=reach-v3", "--policy.type=zero", f"--env.prompts={file}"
        )


def test_anchors_and_merged_maps_of_an_ordinary_size_are_fine(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", task="a", n_episodes=1)
    text = yaml.safe_dump({key: value for key, value in tree.items() if key != "eval"})
    file = tmp_path / "settings.yaml"
    file.write_text(f"{text}eval: &common {{n_episodes: 1, batch_size: 1}}\nlimits: &l {{step: 30.0}}\n")
    again = file.read_text().replace("eval: &common {", "eval: {<<: &c {max_attempts: 2}, ")
    file.write_text(again)
    done = run_cli("eval", f"--config_path={file}")
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["eval"]["max_attempts"] == 2
