"""`make_env` and `make_env_config`: what they take, and what they say about what they do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proctor
from harness import SUPPORT
from proctor.benchmarks.metaworld.benchmark import MetaWorldSettings
from proctor.errors import ProctorError, UsageError
from proctor.installation import missing_package
from proctor.vector.hub import HubId, _load, _normalised, parse_hub_id
from proctor.vector.make import batch_size
from tiny_vectors import tiny


def test_settings_and_a_type_give_environments_by_group_and_task() -> None:
    made = proctor.make_env(tiny(task="a,b"), 2, use_async_envs=True)
    assert {group: list(tasks) for group, tasks in made.items()} == {"a": [0], "b": [0]}
    assert made["b"][0].call("task_description") == ("do b", "do b")
    easy = proctor.make_env(proctor.make_env_config("metaworld", task="easy"), n_envs=2)
    assert list(easy["easy"]) == list(range(28))
    assert proctor.make_env(f"{SUPPORT / 'tiny.py'}:Tiny")[""][0].num_envs == 1


def test_a_benchmarks_own_processors_stand_before_its_environments() -> None:
    settings = proctor.make_env_config(f"{SUPPORT / 'processed.py'}:ProcessedTiny", task="a")
    env, plain = settings.create_envs(2)["a"][0], tiny().create_envs(2)["a"][0]
    assert (env.single_action_space.shape, plain.single_action_space.shape) == ((1,), (2,))
    seen, before = env.reset(seed=1000)[0], plain.reset(seed=1000)[0]
    assert (seen["agent_pos"] == 2 * before["agent_pos"]).all()
    assert (seen["pixels"] == before["pixels"][:, ::-1, ::-1]).all()
    assert (seen["sum"] == seen["agent_pos"].sum(axis=1, keepdims=True)).all()
    env.step(np.zeros((2, 1), np.float32))
    env.close()
    plain.close()


def test_zero_environments_are_as_many_as_the_rule_says() -> None:
    assert proctor.make_env(tiny(), 0)["a"][0].num_envs == batch_size(0)


def test_settings_are_checked_as_flags_are() -> None:
    settings = proctor.make_env_config("metaworld", task=["reach-v3", "push-v3"], observation_height="64")
    assert isinstance(settings, MetaWorldSettings)
    assert (settings.type, settings.task, settings.observation_height) == ("metaworld", "reach-v3,push-v3", 64)


def test_a_benchmark_in_a_file_is_found_from_every_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SUPPORT)
    settings = proctor.make_env_config("tiny.py:Tiny", task="a")
    monkeypatch.chdir("/")
    assert settings.create_envs(1)["a"][0].call("task") == ("a",)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: proctor.make_env("metawrld"), "Did you mean 'metaworld'"),
        (lambda: proctor.make_env("metaworld"), "task is missing"),
        (lambda: proctor.make_env(proctor.make_env_config("metaworld", task="reach-v2")), "mean 'reach-v3'"),
        (lambda: proctor.make_env_config("metaworld", obs_typ="state"), "no setting 'obs_typ'.*mean 'obs_type'"),
        (lambda: proctor.make_env_config("metaworld", obs_type="stat"), "obs_type=stat: must be"),
        (lambda: proctor.make_env_config("metaworld", observation_height=0), "must be at least 1"),
        (lambda: proctor.make_env(tiny(), -1), "n_envs=-1: must be at least 1"),
        (lambda: tiny().create_envs(-1), "n_envs=-1: must be at least 1"),
        (lambda: MetaWorldSettings(task="reach-v3").create_envs(1), "name no benchmark"),
        (lambda: proctor.make_env({"type": "metaworld"}), "not dict"),  # type: ignore[arg-type]
        (lambda: tiny(python=sys.executable).create_envs(1), "run in this interpreter"),
        (lambda: proctor.make_env(tiny(), autoreset_mode="Never"), "must be one of NextStep, SameStep, Disabled"),
        (lambda: proctor.make_env("a/b", trust_remote_code=True, autoreset_mode="SameStep"), "as it likes"),
        (lambda: proctor.close_envs({"a": {0: "b"}}), "not str"),
    ],
)
def test_what_cannot_work_is_said_in_one_line(make: Any, words: str) -> None:
    with pytest.raises(ProctorError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


class Door:
    def __init__(self, complaint: str = "") -> None:
        self.complaint, self.closed = complaint, False

    def close(self) -> None:
        self.closed = True
        if self.complaint:
            raise OSError(self.complaint)


def test_closing_reaches_all_in_whatever_they_lie() -> None:
    made = proctor.make_env(tiny(task="a,b"), 2)
    for group in made.values():
        group[0].reset(seed=1)
    proctor.close_envs(made)
    assert all(group[0].closed for group in made.values())
    one = tiny().create_envs(1)["a"][0]
    one.reset(seed=1)
    proctor.close_envs(one)
    assert one.closed
    proctor.close_envs({})


def test_one_that_cannot_be_closed_keeps_no_other_open() -> None:
    doors = [Door(), Door("stuck"), Door("stuck too"), Door()]
    with pytest.raises(OSError, match=r"^stuck$"):
        proctor.close_envs({"first": doors[:2], "rest": {0: doors[2], 1: (doors[3],)}})
    assert all(door.closed for door in doors)
    still_open = Door()
    with pytest.raises(UsageError, match="takes environments"):
        proctor.close_envs([still_open, None])
    assert not still_open.closed


def without(package: str, statement: str) -> str:
    """Return what a statement says where a package is not installed."""
    code = f"import sys; sys.modules[{package!r}] = None; import proctor\ntry: {statement}\n"
    code += "except proctor.ProctorError as error: print(error)"
    hide = "import importlib.util as u; f = u.find_spec\n"
    hide += f"u.find_spec = lambda name, *a: None if name == {package!r} else f(name, *a)\n"
    done = subprocess.run([sys.executable, "-c", hide + code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_missing_packages_are_named_with_the_command_that_brings_them() -> None:
    said = without("gymnasium", "proctor.make_env('metaworld')")
    assert said == str(missing_package("a vector environment", "gymnasium", "vector"))
    said = without("huggingface_hub", "proctor.make_env('user/repo', trust_remote_code=True)")
    assert said == "user/repo:env.py is on the hub, which needs a package. Run: pip install huggingface_hub"


def test_code_from_the_hub_is_not_run_unasked() -> None:
    with pytest.raises(UsageError, match=r"Read it first .*/someone/pens.* then pass trust_remote_code=True"):
        proctor.make_env("someone/pens")


@pytest.mark.parametrize(
    "text", ["metaworld", "some.module:Bench", "dir/file.py:Bench", "/a/b.py:C", "a/b/c", "a/b@"]
)
def test_what_is_no_hub_id(text: str) -> None:
    assert parse_hub_id(text) is None


HUB = HubId("someone/pens", None, "env.py")

HOSTED = """
from __future__ import annotations
from dataclasses import dataclass
import gymnasium

@dataclass
class Size:
    n: int

class Pen(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 9, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

def make_env(n_envs, use_async_envs):
    kind = gymnasium.vector.AsyncVectorEnv if use_async_envs else gymnasium.vector.SyncVectorEnv
    options = {"context": "forkserver"} if use_async_envs else {}
    return kind([Pen] * Size(n_envs).n, **options)
"""


def test_a_hosted_file_may_start_workers_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "env.py"
    file.write_text(HOSTED)
    made = _normalised(_load(file, HUB).make_env(2, True), HUB)
    env = made["hub_env"][0]
    try:
        assert env.reset(seed=1)[0].shape == (2, 1)
    finally:
        env.close()


def test_a_hosted_file_may_give_one_environment_a_vector_or_a_table(tmp_path: Path) -> None:
    file = tmp_path / "env.py"
    file.write_text(HOSTED)
    module = _load(file, HUB)
    single = module.Pen()
    assert _normalised(single, HUB)["hub_env"][0].envs == [single]
    vector = module.make_env(2, False)
    assert _normalised(vector, HUB) == {"hub_env": {0: vector}}
    assert _normalised({"pens": {3: vector}}, HUB) == {"pens": {3: vector}}
    with pytest.raises(UsageError, match="returned list"):
        _normalised([vector], HUB)


def test_a_package_that_a_hosted_file_lacks_is_named(tmp_path: Path) -> None:
    file = tmp_path / "env.py"
    file.write_text("import no_such_package_at_all\n")
    with pytest.raises(UsageError, match=r"someone/pens:env\.py needs the package no_such_package_at_all"):
        _load(file, HUB)
