"""A forward pass that is recorded gives the bits of the pass itself, also one that draws random numbers.

A tape stands in for the CUDA graph, so that no GPU is needed, and refuses what capturing refuses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from lerobot_runs import benchmark, load
from proctor.policies.lerobot import cuda_graph
from proctor.policies.lerobot.cuda_graph import RecordedPass
from proctor.policies.lerobot.equivalence import SyntheticInputs
from proctor.policies.lerobot.pass_script import CannotBeRecorded
from proctor.policies.lerobot.randomness import EpisodeRandomness, RowRandomness
from proctor.policies.lerobot.strategies import Recorded
from proctor.policies.lerobot.trial import _recorded_if_equal
from tape import Refused, taped

ROWS = 3


@pytest.fixture(autouse=True)
def _tape_instead_of_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_graph, "captured", taped)


@pytest.mark.parametrize(
    ("name", "way"), [("act", "as it is"), ("diffusion", "by its script"), ("smolvla", "by its script")]
)
def test_a_checkpoints_recorded_passes_are_its_passes(
    checkpoint: Callable[[str], Path], name: str, way: Recorded
) -> None:
    policy = load(checkpoint(name), batch_size=ROWS)
    plain = dataclasses.replace(policy._trial.forward, rows=ROWS)
    recorded = _recorded_if_equal(plain, policy._trial.synthetic)
    assert recorded.recorded == way
    synthetic = SyntheticInputs(benchmark(), policy.spec.observation_keys or ())
    memories = {one.recorded: [one.begin(seed) for seed in range(ROWS)] for one in (plain, recorded)}
    for turn in range(3):  # the same episodes go on: their generators moved alike
        for few in (range(ROWS), range(1)):
            windows = [synthetic.window(10 * turn, plain.strategy.offsets, 7 + row) for row in few]
            one, other = (
                forward(windows, [memories[forward.recorded][row] for row in few]) for forward in (plain, recorded)
            )
            assert [chunk.tobytes() for chunk in one] == [chunk.tobytes() for chunk in other]


def test_a_pass_without_random_numbers_that_waits_for_values_is_recorded_by_its_script() -> None:
    """As transformers' vision models do: positions are put in place by a mask that no input has a part in."""

    def ask(window: Sequence[dict[str, Any]]) -> Any:
        mask = torch.ones(ROWS, 4, dtype=torch.bool)
        places = torch.full((ROWS, 4), -1)
        places[mask] = torch.arange(4).repeat(ROWS)
        scale = torch.tensor(3.0)
        if bool(mask.all()):
            scale = scale * 2
        return window[0]["x"][:, places[0]] * scale

    with pytest.raises(Refused):
        _recording(ask, by_script=False)
    _assert_the_same(ask)


def test_memory_that_inputs_are_written_to_is_made_again() -> None:
    def ask(window: Sequence[dict[str, Any]]) -> Any:
        total = torch.zeros(ROWS, 4)
        padded = torch.ones(ROWS, 8)
        padded[:, :4] = window[0]["x"]
        for _ in range(3):
            total += window[0]["x"]
        return torch.cat([total, padded * 2], dim=1)

    _assert_the_same(ask)


def test_a_constant_that_changes_between_two_readings_is_read_as_it_was() -> None:
    def ask(window: Sequence[dict[str, Any]]) -> Any:
        time, x = torch.tensor(1.0), window[0]["x"]
        for _ in range(4):
            x = x + time * x
            time -= 0.25
        return x

    _assert_the_same(ask)


def test_a_view_of_a_constant_counts_as_the_constant() -> None:
    def ask(window: Sequence[dict[str, Any]]) -> Any:
        row = torch.zeros(2, 4)
        window_row = row[1]
        window_row += window[0]["x"][0]
        return row * 1.0

    _assert_the_same(ask)


DRAWS: dict[str, Callable[[torch.Tensor], Any]] = {
    "randn": lambda x: x + torch.randn(ROWS, 4),
    "rand of a size": lambda x: x + torch.rand(size=(ROWS, 4)),
    "randn_like": lambda x: x + torch.randn_like(x),
    "normal": lambda x: x + torch.normal(mean=0.0, std=2.0, size=(ROWS, 4)),
    "in place": lambda x: x + torch.empty(ROWS, 4).uniform_(-1, 1),
    "of a view": lambda x: x + torch.zeros(ROWS, 8)[:, ::2].normal_(),
    "changed afterwards": lambda x: x + torch.randn(ROWS, 4).mul_(2),
    "several": lambda x: torch.randn(ROWS, 4) * x + torch.rand(ROWS, 4) * torch.randn_like(x),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
def test_what_is_drawn_is_drawn_before_each_replay(draw: Callable[[torch.Tensor], Any]) -> None:
    _assert_the_same(lambda window: draw(window[0]["x"]))


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: torch.multinomial(x.abs() + 1, 2, replacement=True),
        lambda x: torch.bernoulli(x.abs() / x.abs().max()),
        lambda x: torch.normal(x, torch.ones_like(x)),
        lambda x: torch.empty_like(x).bernoulli_(x.abs() / x.abs().max()),
    ],
    ids=["multinomial", "bernoulli", "normal", "in place"],
)
def test_a_draw_by_values_of_the_pass_is_not_recorded(draw: Callable[[torch.Tensor], Any]) -> None:
    with pytest.raises(CannotBeRecorded, match="known only in the pass"):
        _recording(lambda window: draw(window[0]["x"]))


def test_a_branch_on_an_input_is_not_recorded() -> None:
    def ask(window: Sequence[dict[str, Any]]) -> Any:
        x = window[0]["x"]
        return x if bool((x > 0).all()) else -x

    with pytest.raises(Refused):
        _recording(ask)


def test_a_pass_that_does_something_else_each_time_is_not_recorded() -> None:
    calls = []

    def ask(window: Sequence[dict[str, Any]]) -> Any:
        calls.append(1)
        return window[0]["x"].abs() if len(calls) % 2 else window[0]["x"].neg()

    with pytest.raises(CannotBeRecorded, match="the same each time"):
        _recording(ask)


@pytest.mark.parametrize("by_script", [False, True])
def test_a_pass_does_not_see_that_it_is_recorded(monkeypatch: pytest.MonkeyPatch, by_script: bool) -> None:
    """As transformers' masks do: made out in full only then, which gives other bits."""

    def known() -> bool:  # torch's own fails without a driver
        return False

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", known)
    seen = []

    def ask(window: Sequence[dict[str, Any]]) -> Any:
        seen.append(torch.cuda.is_current_stream_capturing())
        return window[0]["x"] * 2

    _recording(ask, by_script)
    assert seen
    assert not any(seen)
    assert torch.cuda.is_current_stream_capturing is known


def _recording(ask: Callable[[Any], Any], by_script: bool = True) -> RecordedPass:
    with torch.inference_mode():
        return RecordedPass(ask, [{"x": torch.zeros(ROWS, 4)}], _generators(0), by_script, torch.device("cpu"))


def _assert_the_same(ask: Callable[[Any], Any]) -> None:
    recorded = _recording(ask)
    one, other = _generators(1), _generators(1)
    for seed in range(3):
        window = [{"x": torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(seed))}]
        with torch.inference_mode():
            again = recorded(window, one).clone()
            with RowRandomness(other):
                expected = ask(window)
        assert torch.equal(again, expected)


def _generators(first: int) -> list[EpisodeRandomness]:
    return [EpisodeRandomness(first + row) for row in range(ROWS)]
