"""Every call of a policy is checked the same way, wherever it runs, and an episode's session is its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.engine.policy_session import PolicySession, answer, check_fit, looked_at
from proctor.engine.randomness import episode_generator
from proctor.errors import EXIT_FAILED, PolicyError, UsageError
from proctor.policies.protocol import Actions, Memory, Policy, PolicySpec, Window
from proctor.types import BenchmarkSpec, Episode, Feature, Observation, Task

TASK = Task("easy", 23, "reach-v3", "reach the goal", 500)
BENCHMARK = BenchmarkSpec(
    name="bench",
    features={
        "observation.image": Feature((4, 4, 3), "uint8", drawn=True),
        "observation.state": Feature((4,), "float64"),
    },
    action_size=2,
    privileged={"observation.environment_state": Feature((39,), "float64")},
)


def episode(index: int = 0) -> Episode:
    return Episode(TASK, index, 1000 + index)


class Scripted(Policy):
    """Returns what it is told to, and remembers what it was asked."""

    def __init__(self, *answers: Any, spec: PolicySpec | None = None) -> None:
        self._answers = list(answers)
        self._spec = spec or PolicySpec()
        self.asked: list[tuple[Sequence[Window], Sequence[Memory], Sequence[np.random.Generator]]] = []

    @property
    def spec(self) -> PolicySpec:
        return self._spec

    def begin(self, task: Task) -> Memory:
        return f"fresh memory for {task.name}"

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        self.asked.append((windows, memories, generators))
        reply = self._answers.pop(0)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, tuple):
            return reply  # type: ignore[return-value]
        return Actions([reply], ["next memory"])


class Thoughtful(Policy):
    """Uses everything: the window, the memory, the prompt and chance; chunk lengths differ."""

    @property
    def spec(self) -> PolicySpec:
        return PolicySpec(batch=8, stochastic=True)

    def begin(self, task: Task) -> Memory:
        return (len(task.prompt),)

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        chunks = [
            np.full((1 + len(memory) % 3, 2), window[-1]["x"] + sum(memory)) + generator.normal(size=2)
            for window, memory, generator in zip(windows, memories, generators, strict=True)
        ]
        return Actions(
            chunks, [(*memory, window[-1]["x"]) for window, memory in zip(windows, memories, strict=True)]
        )


def ask(policy: Policy, session: PolicySession | None = None, window: Sequence[Observation] = ({},)) -> list[Any]:
    return answer(policy, 2, [session or PolicySession(policy, episode())], [window])


# What a policy is shown.


def test_the_policy_sees_the_window_with_the_prompt_in_every_observation() -> None:
    policy = Scripted([[0.0, 0.0]])
    window = [{"observation.state": 1}, {"observation.state": 2}]
    ask(policy, window=window)
    ((shown,), _, _) = policy.asked[0]
    assert shown == (
        {"observation.state": 1, "task": "reach the goal"},
        {"observation.state": 2, "task": "reach the goal"},
    )
    assert window == [{"observation.state": 1}, {"observation.state": 2}]


def test_the_memory_that_a_call_returns_is_what_the_next_one_gets() -> None:
    policy = Scripted([[0.0, 0.0]], ([np.zeros((1, 2))], [{"any": "thing"}]), [[0.0, 0.0]])
    session = PolicySession(policy, episode())
    for _ in range(3):
        ask(policy, session)
    assert [list(memories) for _, memories, _ in policy.asked] == [
        ["fresh memory for reach-v3"],
        ["next memory"],
        [{"any": "thing"}],
    ]


def test_the_generator_is_the_episodes_own_and_goes_on_from_call_to_call() -> None:
    policy = Scripted([[0.0, 0.0]], [[0.0, 0.0]])
    session = PolicySession(policy, episode(3))
    drawn = []
    for _ in range(2):
        ask(policy, session)
        drawn.append(policy.asked[-1][2][0].random())
    alone = episode_generator(episode(3))
    assert drawn == [alone.random(), alone.random()]


@settings(deadline=None, max_examples=40)
@given(calls=st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=1, max_size=8), values=st.randoms())
def test_an_episodes_answers_do_not_depend_on_who_shares_its_batches(calls: list[set[int]], values: Any) -> None:
    policy = Thoughtful()
    together = [PolicySession(policy, episode(index)) for index in range(4)]
    alone = [PolicySession(policy, episode(index)) for index in range(4)]
    for rows in calls:
        order = values.sample(sorted(rows), len(rows))
        windows = [[{"x": values.random()}] for _ in order]
        batch = answer(policy, 2, [together[row] for row in order], windows)
        for row, window, chunk in zip(order, windows, batch, strict=True):
            (single,) = answer(policy, 2, [alone[row]], [window])
            assert np.array_equal(chunk, single)
    assert [session.memory for session in together] == [session.memory for session in alone]
    assert [session.step for session in together] == [session.step for session in alone]


# What a policy may answer.


@pytest.mark.parametrize(
    "chunk",
    [
        np.zeros((1, 2), np.float32),
        np.zeros((7, 2), np.float64),
        np.ones((1, 2), np.int64),
        np.zeros((3, 2), np.float16),
        np.full((2, 2), 3e38, np.float32),
        np.full((2, 2), 1.7e308),
        [[0.5, 1], [0, 0.25]],
    ],
)
def test_a_chunk_of_numbers_is_taken_as_it_is(chunk: Any) -> None:
    policy = Scripted(chunk)
    session = PolicySession(policy, episode())
    (taken,) = ask(policy, session)
    assert np.array_equal(taken, np.asarray(chunk))
    assert taken.dtype == np.asarray(chunk).dtype
    assert session.step == len(chunk)


@pytest.mark.parametrize(
    ("chunk", "words"),
    [
        ([0.0, 0.0], r"shape \(2,\); a chunk has shape \(steps, 2\)"),
        ([[0.0, 0.0, 0.0]], r"shape \(1, 3\)"),
        (np.zeros((0, 2)), r"shape \(0, 2\)"),
        (np.zeros((1, 1, 2)), r"shape \(1, 1, 2\)"),
        (0.0, r"shape \(\)"),
        (None, "returned None instead of an action"),
        ([[0.0, np.nan]], "NaN or infinity"),
        ([[np.inf, 0.0]], "NaN or infinity"),
        ([[np.inf, -np.inf]], "NaN or infinity"),
        ([["left", "right"]], "numbers are needed"),
        ([[True, False]], "numbers are needed"),
        ([[1j, 0]], "numbers are needed"),
        ([[None, 0.0]], "numbers are needed"),
    ],
)
def test_what_is_no_action_is_the_policys_fault_and_named_with_task_episode_and_step(
    chunk: Any, words: str
) -> None:
    policy = Scripted([[0.0, 0.0], [0.0, 0.0]], chunk)
    session = PolicySession(policy, episode(4))
    ask(policy, session)
    with pytest.raises(PolicyError, match=words) as caught:
        ask(policy, session)
    assert "(task reach-v3, episode 4, step 2)" in str(caught.value)
    assert caught.value.exit_status == EXIT_FAILED


class NoArray:
    """Like a tensor on a GPU, which NumPy cannot read."""

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


@pytest.mark.parametrize(
    "reply",
    [
        ([[[0.0, 0.0], [0.0]]], ["memory"]),
        ([NoArray()], ["memory"]),
        (None, None),
        (np.zeros((1, 1, 2)), None),
        (7, ["memory"]),
    ],
)
def test_what_cannot_even_be_read_is_the_policys_fault_too(reply: Any) -> None:
    # Were it the simulator's, the episode would be tried again in vain and end as an error.
    with pytest.raises(PolicyError, match=r"task reach-v3, episode 0, step 0"):
        ask(Scripted(reply))


@pytest.mark.parametrize(
    "reply",
    [
        ([], []),
        ([np.zeros((1, 2))] * 2, ["memory"] * 2),
        ([np.zeros((1, 2))], []),
        ([np.zeros((1, 2))], ["memory"] * 2),
    ],
)
def test_another_number_of_answers_than_questions_is_refused(reply: Any) -> None:
    with pytest.raises(PolicyError, match=r"chunks and \d memories for 1 episodes"):
        ask(Scripted(reply))


def test_a_policy_that_returns_no_pair_is_refused() -> None:
    with pytest.raises(PolicyError, match="task reach-v3"):
        ask(Scripted((1, 2, 3)))


def test_a_policy_that_raises_is_named_with_its_error() -> None:
    error = ValueError("I cannot see")
    with pytest.raises(PolicyError, match="raised ValueError: I cannot see") as caught:
        ask(Scripted(error))
    assert caught.value.__cause__ is error


def test_a_policy_that_cannot_begin_is_named_with_its_error() -> None:
    class Unwilling(Scripted):
        def begin(self, task: Task) -> Memory:
            raise KeyError(task.name)

    with pytest.raises(PolicyError, match=r"begin\(\) raised KeyError: 'reach-v3' .*episode 5, step 0"):
        PolicySession(Unwilling(), episode(5))


@pytest.mark.parametrize("length", [3, 7])
def test_a_policy_that_breaks_the_chunk_length_it_declared_is_refused(length: int) -> None:
    # The engine looks at just the steps that the declared length puts into windows; another length would
    # leave holes in them.
    spec = PolicySpec(observation_offsets=(-1, 0), action_steps=5)
    policy = Scripted(np.zeros((5, 2)), np.zeros((length, 2)), spec=spec)
    session = PolicySession(policy, episode())
    ask(policy, session)
    with pytest.raises(PolicyError, match=r"episode 0, step 5"):
        ask(policy, session)


# Fit with the benchmark.


def test_a_policy_that_declares_no_keys_looks_at_all_that_is_offered_and_nothing_privileged() -> None:
    assert looked_at(PolicySpec(), BENCHMARK) == {"observation.image", "observation.state"}


def test_a_policy_looks_at_what_it_declares_and_a_blind_one_at_nothing() -> None:
    assert looked_at(PolicySpec(observation_keys=("observation.state",)), BENCHMARK) == {"observation.state"}
    assert looked_at(PolicySpec(observation_keys=()), BENCHMARK) == frozenset()


@pytest.mark.parametrize(
    "spec",
    [
        PolicySpec(),
        PolicySpec(observation_keys=()),
        PolicySpec(observation_keys=("observation.state",), action_size=2),
        PolicySpec(observation_keys=("observation.environment_state",), action_size=2),
    ],
)
def test_a_policy_that_fits_is_let_in(spec: PolicySpec) -> None:
    check_fit(spec, BENCHMARK)


def test_a_policy_that_looks_at_what_is_not_there_is_refused_with_what_is() -> None:
    spec = PolicySpec(observation_keys=("observation.state", "observation.images.wrist"))
    with pytest.raises(UsageError) as caught:
        check_fit(spec, BENCHMARK)
    assert "looks at observation.images.wrist, which bench does not give" in str(caught.value)
    assert "It gives observation.image, observation.state" in str(caught.value)


def test_a_policy_with_another_action_size_is_refused_with_both() -> None:
    with pytest.raises(UsageError, match="actions of 7 numbers, bench takes 2"):
        check_fit(PolicySpec(action_size=7), BENCHMARK)


@pytest.mark.parametrize("offsets", [(), (-1,), (0, -1), (-1, -1, 0), (0, 1), (1, 0)])
def test_offsets_that_make_no_window_are_refused(offsets: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="ascend and end with 0"):
        PolicySpec(observation_offsets=offsets)


def test_a_spec_survives_the_way_between_processes() -> None:
    spec = PolicySpec(("a",), 4, (-1, 0), 8, True, 16, "f")
    assert PolicySpec.from_wire(spec.to_wire()) == spec
    assert PolicySpec.from_wire(PolicySpec().to_wire()) == PolicySpec()
