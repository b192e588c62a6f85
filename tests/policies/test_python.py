"""A user's own policy works as it is: a class, an object, a function, with or without state."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proctor.engine.policy_session import PolicySession, answer
from proctor.errors import EXIT_USAGE, UsageError
from proctor.policies.protocol import Actions, Cost, Memory, Pass, Policy, PolicySpec, Window
from proctor.policies.python import PlainPolicy, PythonPolicy, PythonPolicySettings, as_policy
from proctor.types import BenchmarkSpec, Episode, Feature, Task

TASK = Task("easy", 23, "reach-v3", "reach the goal", 500)
BENCHMARK = BenchmarkSpec(name="bench", features={"observation.state": Feature((2,), "float64")}, action_size=2)


@pytest.fixture(autouse=True)
def path_and_modules_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loading a user's file adds its folder to the path; the next test must not see that."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in [name for name in sys.modules if name.startswith("proctor_user_")]:
        del sys.modules[name]


class Full(Policy):
    """The whole protocol."""

    def __init__(self, fingerprint: str | None = None) -> None:
        self._fingerprint = fingerprint

    @property
    def spec(self) -> PolicySpec:
        return PolicySpec(observation_offsets=(-1, 0), action_steps=3, batch=4, fingerprint=self._fingerprint)

    def begin(self, task: Task) -> Memory:
        return task.name

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        return Actions([np.full((3, 2), len(window)) for window in windows], memories)


class Counting:
    """Plain, with hidden state."""

    def __init__(self) -> None:
        self.count = 100

    def reset(self) -> None:
        self.count = 0

    def act(self, observation: dict[str, Any]) -> list[float]:
        self.count += 1
        return [float(self.count), float(observation["observation.state"][0])]


def play(policy: Policy, *states: float, index: int = 0) -> list[list[list[float]]]:
    """Return a policy's chunks over the states of one episode."""
    seat = PolicySession(policy, Episode(TASK, index, 1000 + index))
    return [
        answer(policy, 2, [seat], [({"observation.state": np.array([state, 0.0])},)])[0].tolist()
        for state in states
    ]


def write(directory: Path, source: str, name: str = "mine.py") -> str:
    (directory / name).write_text(source)
    return f"{directory / name}:Mine"


def load(path: str | None, **kwargs: Any) -> PythonPolicy:
    return PythonPolicy.from_settings(PythonPolicySettings(type="python", path=path, kwargs=kwargs), BENCHMARK)


def fingerprint(path: str, **kwargs: Any) -> str:
    for name in [name for name in sys.modules if name.startswith("proctor_user_")]:
        del sys.modules[name]  # as a new process would find them
    found = load(path, **kwargs).spec.fingerprint
    assert found is not None
    return found


# Plain ones.


def test_a_function_is_a_policy() -> None:
    def double(observation: dict[str, Any]) -> Any:
        return observation["observation.state"] * 2

    assert play(as_policy(double, "double"), 1.0, 3.0) == [[[2.0, 0.0]], [[6.0, 0.0]]]


def test_an_object_with_act_is_a_policy() -> None:
    class Plain:
        def act(self, observation: dict[str, Any]) -> Any:
            return [observation["observation.state"][0], 0.5]

    assert play(as_policy(Plain(), "plain"), 1.0) == [[[1.0, 0.5]]]


def test_a_plain_policy_sees_the_prompt() -> None:
    seen = []

    def act(observation: dict[str, Any]) -> Any:
        seen.append(observation["task"])
        return [0.0, 0.0]

    play(as_policy(act, "act"), 1.0)
    assert seen == ["reach the goal"]


def test_a_plain_policy_may_return_a_chunk() -> None:
    def three(observation: dict[str, Any]) -> Any:
        return np.arange(6.0).reshape(3, 2)

    assert play(as_policy(three, "three"), 1.0) == [[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]]


def test_an_action_may_be_a_tensor_that_needs_its_gradient_dropped() -> None:
    class Tensor:
        """As torch's: NumPy cannot read it before it is detached and brought to the CPU."""

        def __init__(self, steps: tuple[str, ...] = ()) -> None:
            self.steps = steps

        def detach(self) -> Tensor:
            return Tensor((*self.steps, "detach"))

        def cpu(self) -> Tensor:
            return Tensor((*self.steps, "cpu"))

        def numpy(self) -> Any:
            assert self.steps == ("detach", "cpu")
            return np.array([1.0, 2.0])

    assert play(as_policy(lambda observation: Tensor(), "tensor"), 0.0) == [[[1.0, 2.0]]]


def test_a_second_argument_is_the_episodes_own_generator() -> None:
    def act(observation: dict[str, Any], generator: np.random.Generator) -> Any:
        return generator.normal(size=2)

    policy = as_policy(act, "act")
    assert policy.spec.stochastic
    first, again, other = play(policy, 1.0, 2.0), play(policy, 1.0, 2.0), play(policy, 1.0, 2.0, index=1)
    assert first == again
    assert first != other
    assert first[0] != first[1]


def test_a_policy_without_a_second_argument_is_not_stochastic() -> None:
    def act(observation: dict[str, Any], temperature: float = 0.5) -> Any:
        return [temperature, 0.0]

    policy = as_policy(act, "act")
    assert not policy.spec.stochastic
    assert play(policy, 1.0) == [[[0.5, 0.0]]]


def test_a_plain_policy_looks_at_all_that_is_offered_unless_it_says_otherwise() -> None:
    class Blind:
        observation_keys = ()

        def act(self, observation: dict[str, Any]) -> Any:
            return [0.0, 0.0]

    assert as_policy(Counting(), "counting").spec.observation_keys is None
    assert as_policy(Blind(), "blind").spec.observation_keys == ()


def test_rows_of_a_plain_policy_never_share_a_call() -> None:
    assert as_policy(Counting(), "counting").spec.batch == 1


def test_a_policy_with_state_starts_every_episode_afresh_and_keeps_episodes_apart() -> None:
    plain = Counting()
    policy = PlainPolicy(plain)
    seats = [PolicySession(policy, Episode(TASK, index, index)) for index in range(2)]
    counts: list[list[float]] = [[], []]
    for turn in (0, 0, 1, 0, 1):
        (chunk,) = answer(policy, 2, [seats[turn]], [({"observation.state": np.zeros(2)},)])
        counts[turn].append(float(chunk[0, 0]))
    assert counts == [[1.0, 2.0, 3.0], [1.0, 2.0]]
    assert plain.count == 100


def test_a_policy_without_reset_is_shared_and_not_copied() -> None:
    class Heavy:
        def __deepcopy__(self, memo: Any) -> Any:
            raise AssertionError("the weights were copied")

        def act(self, observation: dict[str, Any]) -> Any:
            return [0.0, 0.0]

    assert play(as_policy(Heavy(), "heavy"), 1.0) == [[[0.0, 0.0]]]


# Full ones.


def test_a_full_policy_is_taken_as_it_is() -> None:
    policy = Full()
    assert as_policy(policy, "full") is policy


def test_a_policy_of_the_same_shape_need_not_be_derived_from_ours() -> None:
    class Duck:
        spec = PolicySpec(action_steps=1)

        def begin(self, task: Task) -> None:
            return None

        def act(self, windows: Any, memories: Any, generators: Any) -> Any:
            return [np.ones((1, 2)) for _ in windows], memories

    duck: Any = Duck()
    assert as_policy(duck, "duck") is duck
    assert play(as_policy(duck, "duck"), 0.0) == [[[1.0, 1.0]]]


@pytest.mark.parametrize("thing", [42, "text", None, object(), {"act": 1}])
def test_what_cannot_act_is_refused_by_name(thing: Any) -> None:
    with pytest.raises(UsageError, match="thing is no policy") as caught:
        as_policy(thing, "thing")
    assert caught.value.exit_status == EXIT_USAGE


# From a file.

PLAIN = "def Mine(observation):\n    return [1.0, 2.0]\n"
CLASS = (
    "class Mine:\n"
    "    def __init__(self, gain=1.0, bias=0.0):\n"
    "        self.gain, self.bias = gain, bias\n"
    "    def act(self, observation):\n"
    "        return [self.gain, self.bias]\n"
)


def test_a_function_of_a_file_is_loaded(tmp_path: Path) -> None:
    assert play(load(write(tmp_path, PLAIN)), 0.0) == [[[1.0, 2.0]]]


def test_a_class_of_a_file_is_built_with_its_arguments(tmp_path: Path) -> None:
    path = write(tmp_path, CLASS)
    assert play(load(path), 0.0) == [[[1.0, 0.0]]]
    assert play(load(path, gain=3.0, bias=-1.0), 0.0) == [[[3.0, -1.0]]]


def test_a_class_that_asks_for_the_benchmark_gets_it(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "class Mine:\n"
        "    def __init__(self, benchmark):\n"
        "        self.size = benchmark.action_size\n"
        "    def act(self, observation):\n"
        "        return [float(self.size)] * self.size\n",
    )
    assert play(load(path), 0.0) == [[[2.0, 2.0]]]


def test_a_full_policy_of_a_module_keeps_its_spec_and_its_memory() -> None:
    policy = load(f"{__name__}:Full", fingerprint="inner")
    assert policy.spec.observation_offsets == (-1, 0)
    assert (policy.spec.action_steps, policy.spec.batch) == (3, 4)
    assert policy.begin(TASK) == "reach-v3"
    assert policy.spec.fingerprint is not None
    assert policy.spec.fingerprint.endswith(":inner")


def test_what_a_full_policy_has_measured_is_passed_on() -> None:
    class Measured(Full):
        cost = Cost(1.0, 0.1, 2.0, 1000)

        def passes(self, sizes: Sequence[int]) -> list[Pass]:
            return [Pass(rows, 0.1, 0.1) for rows in sizes]

    policy = PythonPolicy(Measured(), "print")
    assert policy.cost == Measured.cost
    assert policy.passes([1, 4]) == [Pass(1, 0.1, 0.1), Pass(4, 0.1, 0.1)]
    plain = PythonPolicy(PlainPolicy(lambda observation: 0.0), "print")
    assert (plain.cost, plain.passes([1])) == (None, [])


def test_a_ready_object_of_a_file_may_be_named_too(tmp_path: Path) -> None:
    path = write(tmp_path, CLASS.replace("class Mine", "class Other") + "Mine = Other(gain=7.0)\n")
    assert play(load(path), 0.0) == [[[7.0, 0.0]]]


def test_arguments_for_something_that_is_no_class_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--policy\.kwargs .* is not a class"):
        load(write(tmp_path, PLAIN), gain=1.0)


def test_a_python_policy_without_a_path_is_refused_with_the_flag() -> None:
    with pytest.raises(UsageError, match=r"--policy\.path=file\.py:Name"):
        load(None)


def test_a_name_that_is_not_in_the_file_gets_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path, PLAIN).replace(":Mine", ":Mne")
    with pytest.raises(UsageError, match=r"has no 'Mne'\. Did you mean 'Mine'\?"):
        load(path)


# The fingerprint decides whether a run may be resumed.


def test_the_same_source_and_arguments_have_the_same_fingerprint(tmp_path: Path) -> None:
    path = write(tmp_path, CLASS)
    assert fingerprint(path, gain=1.0, bias=2.0) == fingerprint(path, bias=2.0, gain=1.0)


def test_another_source_has_another_fingerprint(tmp_path: Path) -> None:
    before = fingerprint(write(tmp_path, CLASS))
    assert fingerprint(write(tmp_path, CLASS + "# changed\n")) != before


def test_other_arguments_have_another_fingerprint(tmp_path: Path) -> None:
    path = write(tmp_path, CLASS)
    assert len({fingerprint(path), fingerprint(path, gain=2.0), fingerprint(path, bias=2.0)}) == 3


def test_a_changed_checkpoint_file_among_the_arguments_has_another_fingerprint(tmp_path: Path) -> None:
    path, weights = write(tmp_path, CLASS), tmp_path / "weights.bin"
    weights.write_bytes(b"before")
    before = fingerprint(path, gain=str(weights))
    weights.write_bytes(b"after!")
    assert fingerprint(path, gain=str(weights)) != before


def test_a_changed_checkpoint_directory_among_the_arguments_has_another_fingerprint(tmp_path: Path) -> None:
    # Checkpoints of LeRobot and of most others are directories.
    path, weights = write(tmp_path, CLASS), tmp_path / "checkpoint" / "model.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(b"before")
    before = fingerprint(path, gain=str(weights.parent))
    os.utime(weights, (0, 0))
    assert fingerprint(path, gain=str(weights.parent)) == before
    weights.write_bytes(b"after!")
    assert fingerprint(path, gain=str(weights.parent)) != before


def test_where_a_checkpoint_among_the_arguments_lies_does_not_matter(tmp_path: Path) -> None:
    path = write(tmp_path, CLASS)
    found = []
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "weights").write_text("1")
        found.append(fingerprint(path, gain=str(tmp_path / place / "weights")))
    assert found[0] == found[1] != fingerprint(path, gain="no such file")


def test_an_empty_argument_is_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, CLASS)
    monkeypatch.chdir(tmp_path)
    before = fingerprint(path, gain="")
    (tmp_path / "unrelated").write_text("new")
    assert fingerprint(path, gain="") == before


def test_a_live_object_without_a_fingerprint_has_none() -> None:
    assert as_policy(Counting(), "counting").spec.fingerprint is None


def test_a_live_object_may_bring_its_own_fingerprint() -> None:
    plain = Counting()
    plain.fingerprint = "mine-7"  # type: ignore[attr-defined]
    assert as_policy(plain, "counting").spec.fingerprint == "mine-7"
