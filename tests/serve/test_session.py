"""What a connection remembers, and how a message becomes a question."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

from proctor.policies.protocol import PolicySpec
from proctor.serve.session import ClientSession, PolicyNeeds, Refusal
from proctor.types import BenchmarkSpec, Feature, Task

BENCHMARK = BenchmarkSpec(name="bench", features={"x": Feature((1,), "float32")}, action_size=2)
TASK = Task("group", 3, "push-v3", "push it", 50)


def session(offsets: tuple[int, ...] = (0,), benchmark: BenchmarkSpec = BENCHMARK) -> ClientSession:
    return ClientSession(PolicyNeeds.of(PolicySpec(observation_offsets=offsets), benchmark, [TASK]))


def step(number: float, **more: Any) -> dict[str, Any]:
    return {"x": np.array([number], np.float32), **more}


def seen(question: Any) -> list[float]:
    return [float(observation["x"][0]) for observation in question.window]


def numbered(number: int, value: float | None = None, **more: Any) -> dict[str, Any]:
    return step(number if value is None else value, **{"proctor/step": number, **more})


def test_a_client_that_numbers_every_step_has_its_history_as_the_window() -> None:
    talk = session((-2, -1, 0))
    windows = [seen(talk.read(numbered(number))) for number in range(4)]
    assert windows == [[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3]]
    assert seen(talk.read(numbered(0, 9, reset=True))) == [9, 9, 9]


def test_a_plain_client_is_refused_by_a_policy_that_looks_at_several_steps() -> None:
    with pytest.raises(Refusal, match="looks at 2 steps \\(-1, 0\\), and this client does not say which"):
        session((-1, 0)).read(step(0))
    assert seen(session((0,)).read(step(4))) == [4]


def test_a_step_that_is_missing_from_the_window_is_named() -> None:
    talk = session((-1, 0))
    talk.read(numbered(0))
    with pytest.raises(Refusal, match="at step 8 the policy looks at step 7, which was not sent"):
        talk.read(numbered(8))
    # One that the policy does not look at need not be sent.
    sparse = session((-2, 0))
    sparse.read(numbered(0))
    assert seen(sparse.read(numbered(2))) == [0, 2]


@pytest.mark.parametrize("number", [-1, 0, 1.0, "2", True, None, 1 << 40])
def test_steps_are_whole_numbers_that_grow(number: Any) -> None:
    talk = session((-1, 0))
    talk.read(numbered(0))
    with pytest.raises(Refusal):
        talk.read({**step(1), "proctor/step": number})


@pytest.mark.parametrize("offsets", [(0,), (-1, 0)])
@pytest.mark.parametrize("key", ["proctor/window", "proctor/episode", "proctor/step", "proctor/seed", "prompt"])
@pytest.mark.parametrize("value", [np.array([1, 2]), np.float64(2), 2.0, [2], {"a": 1}, np.array(2), True])
def test_what_is_no_plain_value_is_taken_or_refused_in_words(
    key: str, value: Any, offsets: tuple[int, ...]
) -> None:
    talk = session(offsets)
    for number in range(2):  # the second is compared with the first
        with contextlib.suppress(Refusal):
            talk.read(numbered(number, **{key: value}))


def test_a_window_that_the_client_sends_is_taken_as_it_is() -> None:
    talk = session((-5, 0))
    window = {"x": np.array([[1], [2]], np.float32), "proctor/window": 2}
    assert seen(talk.read(window)) == [1, 2]


def test_only_the_first_message_and_a_new_episode_open_one() -> None:
    talk = session()
    messages = [
        step(0),
        step(1),
        step(2, reset=True),
        step(3, reset=False),
        step(4, **{"proctor/episode": "a"}),
        step(5, **{"proctor/episode": "a"}),
        step(6),
        step(7, **{"proctor/episode": "b"}),
    ]
    opened = [talk.read(message).start is not None for message in messages]
    assert opened == [True, False, True, False, True, False, False, True]


def test_a_refused_first_message_opens_nothing() -> None:
    talk = session()
    with pytest.raises(Refusal):
        talk.read({})
    assert talk.read(step(0)).start is not None


def test_a_known_prompt_is_its_task_and_another_is_a_task_by_that_name() -> None:
    known = session().read(step(0, prompt="push it")).start
    assert known is not None
    assert known.task == TASK
    other = session().read(step(0, prompt="dance")).start
    assert other is not None
    assert (other.task.name, other.task.prompt) == ("dance", "dance")


def test_the_seed_is_the_key_of_the_episodes_generator() -> None:
    local = np.random.Generator(np.random.Philox(key=2**100 + 7))
    key = [int(word) for word in local.bit_generator.state["state"]["key"]]
    opening = session().read(step(0, **{"proctor/seed": key})).start
    assert opening is not None
    assert np.array_equal(opening.generator.normal(size=5), local.normal(size=5))


def test_a_renamed_observation_is_found_under_both_names() -> None:
    renamed = BENCHMARK.renamed({"x": "robot.x"})
    value = np.array([4], np.float32)
    for name in ("x", "robot.x"):
        question = session(benchmark=renamed).read({name: value})
        assert question.window[0]["robot.x"] == value


def test_what_the_policy_does_not_look_at_may_come_too() -> None:
    question = session().read(step(0, camera=np.zeros((9, 9, 3), np.uint8), note="hello"))
    assert question.window[0].keys() == {"x"}
