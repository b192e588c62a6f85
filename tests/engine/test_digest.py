"""Equal digests mean the same episode: everything that can differ makes another, and pixels stay apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from proctor.engine.digest import Digest, EpisodeDigests
from proctor.engine.meter import Meter
from proctor.engine.rollout import LocalActor, PolicyView, run_episode
from proctor.policies.protocol import PolicySpec
from proctor.store.schema import EpisodeRecord
from proctor.store.trajectories import MARK, unpack_trajectory
from proctor.types import NO_LOOK, BenchmarkSpec, Episode, Feature, Look, Observation, Outcome, Task

STATE, IMAGE = "observation.state", "observation.image"
STEPS = 4


@dataclass
class Scripted:
    """A simulator in which nothing depends on anything, and an episode ends as told after four steps."""

    terminated: bool = False
    truncated: bool = False
    success: bool | None = False
    side: int = 4
    light: int = 100
    state: float = 0.5
    look: Look = NO_LOOK

    def reset(self, episode: Episode, look: Look) -> None:
        self.look, self.steps = look, 0

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        self.look, self.steps = look, self.steps + 1
        over = self.steps == STEPS
        return Outcome(1.0, over and self.terminated, over and self.truncated, self.success)

    def observe(self) -> Observation:
        seen = {STATE: np.full(2, self.state), IMAGE: np.full((self.side, self.side, 3), self.light, np.uint8)}
        return {key: seen[key] for key in self.look}

    def render(self) -> NDArray[np.uint8]:
        raise AssertionError("nobody films")

    def close(self) -> None:
        pass


class Still:
    """A policy that does nothing, in a type of number and in chunks of its own."""

    def __init__(self, keys: frozenset[str], dtype: str, chunk: int) -> None:
        self.spec = PolicySpec(observation_keys=tuple(sorted(keys)), action_size=2)
        self._chunk = np.zeros((chunk, 2), dtype)

    def begin(self, task: Task) -> None:
        return None

    def act(self, windows: Sequence[Any], memories: Sequence[Any], generators: Sequence[Any]) -> Any:
        return [self._chunk for _ in windows], list(memories)


def play(
    keys: frozenset[str] = frozenset({STATE, IMAGE}),
    dtype: str = "float32",
    chunk: int = 2,
    limit: int = 100,
    reports_success: bool = True,
    **simulator: Any,
) -> EpisodeRecord:
    scripted = Scripted(**simulator)
    features = {
        STATE: Feature((2,), "float64"),
        IMAGE: Feature((scripted.side, scripted.side, 3), "uint8", drawn=True),
    }
    spec = BenchmarkSpec("scripted", features, action_size=2)
    policy: Any = Still(keys, dtype, chunk)
    episode = Episode(Task("g", 0, "t", "do", limit, reports_success=reports_success), 0, 1000)
    return run_episode(scripted, episode, LocalActor(policy, 2), PolicyView.of(policy.spec, spec), Meter())


def test_every_way_to_end_has_a_digest_of_its_own() -> None:
    ends = [
        play(terminated=True),
        play(truncated=True),
        play(terminated=True, truncated=True),
        play(limit=STEPS),
        play(limit=STEPS, terminated=True),
        play(limit=STEPS, truncated=True),
        play(terminated=True, success=True),
        play(terminated=True, success=None, reports_success=False),
    ]
    assert {record.steps for record in ends} == {STEPS}
    assert {record.sum_reward for record in ends} == {float(STEPS)}
    assert len({record.digest for record in ends}) == len(ends)
    assert len({record.pixel_digest for record in ends}) == 1


def test_the_type_of_an_action_counts_and_its_chunk_does_not_beyond_the_looks() -> None:
    assert play(terminated=True).digest != play(terminated=True, dtype="float64").digest
    assert play(terminated=True).digest != play(terminated=True, dtype="int64").digest
    blind = frozenset[str]()
    assert play(blind, chunk=1, terminated=True).digests == play(blind, chunk=4, terminated=True).digests


def test_physics_and_pixels_are_apart() -> None:
    base = play(terminated=True)
    brighter, larger, elsewhere = (
        play(terminated=True, light=101),
        play(terminated=True, side=5),
        play(terminated=True, state=0.25),
    )
    assert brighter.digest == larger.digest == base.digest
    assert len({base.pixel_digest, brighter.pixel_digest, larger.pixel_digest}) == 3
    assert elsewhere.digest != base.digest
    assert elsewhere.pixel_digest == base.pixel_digest


def test_a_policy_that_looks_at_no_camera_has_no_digest_of_pixels() -> None:
    assert play(frozenset({STATE}), terminated=True).pixel_digest is None
    assert play(frozenset({IMAGE}), terminated=True).pixel_digest is not None


def test_when_a_picture_was_seen_counts() -> None:
    often, rarely = (play(frozenset({IMAGE}), chunk=chunk, terminated=True) for chunk in (1, 2))
    assert often.digest == rarely.digest
    assert often.pixel_digest != rarely.pixel_digest


Named = list[tuple[str, NDArray[Any]]]


def digest(sequence: Named) -> str:
    taken = Digest()
    for name, array in sequence:
        taken.add(name, array)
    return taken.hexdigest()


def contents(sequence: Named) -> list[Any]:
    return [(name, array.dtype.str, array.shape, array.tobytes()) for name, array in sequence]


shapes = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
dtypes = st.sampled_from(["<f4", "<f8", ">f8", "<i4", "<i8", "|u1", "|b1"])
named = st.tuples(st.sampled_from(["a", "ab", "b", ""]), arrays.arrays(dtypes, shapes, elements={}))
sequences = st.lists(named, max_size=4)


@given(sequences, sequences)
def test_only_equal_sequences_have_equal_digests(one: Named, other: Named) -> None:
    assert (digest(one) == digest(other)) == (contents(one) == contents(other))


@given(sequences.filter(bool), st.data())
def test_no_part_of_an_array_can_be_taken_for_another(sequence: Named, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(sequence) - 1))
    name, array = sequence[place]
    flat = array.reshape(-1)
    cut = data.draw(st.integers(0, flat.size))
    for instead in (
        [(name, array[None])],
        [(name, np.frombuffer(array.tobytes(), np.int8))],
        [(name + "a", array)],
        [(name, flat[:cut]), (name, flat[cut:])],
        [],
    ):
        assert digest([*sequence[:place], *instead, *sequence[place + 1 :]]) != digest(sequence)


@pytest.mark.parametrize("size", [4095, 4096, 70_000])
def test_large_and_small_arrays_are_taken_alike(size: int) -> None:
    plain = np.arange(2 * size, dtype=np.uint8)
    assert digest([("a", plain[::2]), ("b", plain)]) == digest([("a", plain[::2].copy()), ("b", plain.copy())])
    other = plain.copy()
    other[-1] ^= 1
    assert digest([("a", plain[::2]), ("b", plain)]) != digest([("a", plain[::2]), ("b", other)])


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 3000)), min_size=1, max_size=40))
def test_a_mark_is_the_beginning_of_the_digest_of_all_that_was_seen_and_done_before(
    events: list[tuple[bool, bool, int]],
) -> None:
    """Whatever is gathered: events are looks at a state or a picture of some size, or actions."""
    digests, physics, pixels = EpisodeDigests(frozenset([IMAGE]), keeps=True), Digest(), Digest()
    expected = b""
    for step, (looked, drawn, size) in enumerate(events):
        if looked:
            array = np.full(size, step, np.uint8 if drawn else np.float64)
            digests.saw(step, IMAGE if drawn else STATE, array)
            same = pixels if drawn else physics
            same.add(f"{step} {IMAGE}" if drawn else STATE, array)
            expected += bytes.fromhex(same.hexdigest())[:MARK]
        else:
            digests.acted(np.full(2, step, np.float32))
            physics.add("action", np.full(2, step, np.float32))
    # One more, so that there is an episode to be stored.
    digests.acted(np.zeros(2, np.float32))
    steps = 1 + sum(not looked for looked, _, _ in events)
    digests.asked(steps)
    digests.ended(np.zeros(steps), None, None, terminated=False, truncated=False, limited=True)
    assert unpack_trajectory(digests.trajectory).marks == expected
