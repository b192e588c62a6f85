"""What a worker asks and a host answers crosses shared memory unchanged, and nothing is left behind."""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from numpy.typing import NDArray

from proctor.engine.eventfd import EventFd
from proctor.engine.messages import Channel, ChannelClosed, keep_end
from proctor.engine.transport import (
    REQUEST_BYTES,
    RESPONSE_BYTES,
    Phase,
    PhaseCell,
    Slot,
    new_memory,
)
from proctor.errors import PolicyLostError, SimulatorError

dtypes = st.sampled_from(["|u1", "|i1", "|b1", "<f4", "<f8", ">f8", "<f2", "<i8", ">i2", "<u4"])
arrays = dtypes.flatmap(
    lambda dtype: st_numpy.arrays(
        np.dtype(dtype), st_numpy.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)
    )
)
observations = st.dictionaries(st.text(max_size=12), arrays, max_size=3)


class Both:
    """The worker's end, the host's end of the same slot, and the bell that the worker rings at the host's."""

    def __init__(self) -> None:
        self.worker = Slot.create()
        self.host = Slot(*map(os.dup, self.worker.descriptors))
        self.bell, self._ended = EventFd(), EventFd()
        self._threads = ThreadPoolExecutor(max_workers=1)

    def ask(self, window: Sequence[dict[str, Any]], generation: int = 0, header: bytes = b"") -> Future[Any]:
        """Ask as a worker does, in a thread of its own; the answer or error is fetched with `.result()`."""
        self._asked = self._threads.submit(self.worker.ask, header, window, self.bell, generation)
        self._asked.add_done_callback(lambda _: self._ended.ring())
        return self._asked

    def wait(self) -> None:
        """Wait, as a host does, until the worker has rung. If it failed before that, raise what it met."""
        while True:
            ready, _, _ = select.select([self.bell, self._ended], [], [])
            if self.bell in ready:
                self.bell.wait()
                return
            self._ended.wait()
            if self._asked.done():
                self._asked.result()

    def close(self) -> None:
        self.host.announce(2**32 - 1)  # wakes a worker that a failed test has left waiting
        self._threads.shutdown()
        self.host.close()
        self.worker.close()
        self.bell.close()
        self._ended.close()


@contextlib.contextmanager
def both_ends() -> Iterator[Both]:
    ends = Both()
    try:
        yield ends
    finally:
        ends.close()


@pytest.fixture
def ends() -> Iterator[Both]:
    with both_ends() as both:
        yield both


def same(one: Any, other: Any) -> bool:
    """Whether two arrays are the same bit for bit, NaN included."""
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


CHUNK = np.arange(6, dtype=np.float32).reshape(3, 2)


@settings(deadline=None, max_examples=60)
@given(
    questions=st.lists(
        st.tuples(st.lists(observations, max_size=3), arrays, st.binary(max_size=5)), min_size=1, max_size=4
    )
)
def test_windows_and_their_answers_arrive_bit_for_bit_whatever_went_before(
    questions: list[tuple[list[dict[str, NDArray[Any]]], NDArray[Any], bytes]],
) -> None:
    with both_ends() as ends:
        for window, chunk, header in questions:
            asked = ends.ask(window, header=header)
            ends.wait()
            assert ends.host.asked()
            assert ends.host.request()[:2] == (0, header)
            _, _, shown = ends.host.request()
            assert [list(observation) for observation in shown] == [list(observation) for observation in window]
            for sent, seen in zip(window, shown, strict=True):
                assert all(same(sent[key], seen[key]) for key in sent)
            ends.host.answer(chunk)
            assert same(asked.result(), chunk)
            assert not ends.host.asked()


@settings(deadline=None, max_examples=40)
@given(
    values=st.lists(st.integers(0, 99), min_size=1, max_size=4),
    windows=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=5),
)
def test_an_observation_may_stand_anywhere_in_a_window_any_number_of_times(
    values: list[int], windows: list[list[int]]
) -> None:
    kept = [{"state": np.array([value, place])} for place, value in enumerate(values)]
    with both_ends() as ends:
        for places in windows:
            window = [kept[place % len(kept)] for place in places]
            asked = ends.ask(window)
            ends.wait()
            _, _, shown = ends.host.request()
            assert [seen["state"].tolist() for seen in shown] == [sent["state"].tolist() for sent in window]
            ends.host.answer(CHUNK)
            asked.result()


def test_a_single_number_keeps_its_shape(ends: Both) -> None:
    # A policy that runs inside the worker sees shape (); one in the host must see the same.
    asked = ends.ask([{"temperature": np.array(3.5)}])
    ends.wait()
    _, _, (observation,) = ends.host.request()
    ends.host.answer(CHUNK)
    asked.result()
    assert observation["temperature"].shape == ()
    assert observation["temperature"] == 3.5


def test_views_that_are_not_contiguous_arrive_as_what_they_show(ends: Both) -> None:
    image = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    flipped, fortran = image[::-1, ::-1], np.asfortranarray(image)
    asked = ends.ask([{"flipped": flipped, "fortran": fortran, "every_second": image[:, ::2]}])
    ends.wait()
    _, _, (seen,) = ends.host.request()
    ends.host.answer(CHUNK[:, ::-1])
    assert np.array_equal(asked.result(), CHUNK[:, ::-1])
    assert np.array_equal(seen["flipped"], flipped)
    assert np.array_equal(seen["fortran"], image)
    assert np.array_equal(seen["every_second"], image[:, ::2])


def test_many_questions_in_turn_are_each_given_their_own_answer(ends: Both) -> None:
    for number in range(50):
        asked = ends.ask([{"number": np.array([number])}])
        ends.wait()
        _, _, (seen,) = ends.host.request()
        ends.host.answer(seen["number"][None] * 2.0)
        assert asked.result().tolist() == [[2.0 * number]]


def test_what_a_policy_was_shown_does_not_change_with_the_next_question(ends: Both) -> None:
    kept = []
    for number in range(3):
        asked = ends.ask([{"state": np.full(4, number)}])
        ends.wait()
        kept.append(ends.host.request()[2][0]["state"])
        ends.host.answer(CHUNK)
        asked.result()
    assert [array.tolist() for array in kept] == [[0] * 4, [1] * 4, [2] * 4]


def test_a_chunk_does_not_change_with_the_next_answer(ends: Both) -> None:
    chunks = []
    for number in range(3):
        asked = ends.ask([])
        ends.wait()
        ends.host.answer(np.full((1, 2), number))
        chunks.append(asked.result())
    assert [chunk.tolist() for chunk in chunks] == [[[0, 0]], [[1, 1]], [[2, 2]]]


def test_an_observation_that_stands_in_a_window_several_times_is_sent_once(ends: Both) -> None:
    # Three copies would not fit, one does: at the start of an episode the first observation is repeated.
    first = {"observation.image": np.zeros(REQUEST_BYTES * 2 // 5, np.uint8)}
    asked = ends.ask([first, first, first])
    ends.wait()
    ends.host.answer(CHUNK)
    assert same(asked.result(), CHUNK)


def test_a_window_that_does_not_fit_is_refused_with_its_size_and_the_slot_goes_on(ends: Both) -> None:
    large = [{"observation.image": np.zeros(REQUEST_BYTES, np.uint8)}]
    with pytest.raises(SimulatorError, match="256 MB; at most 256 MB fit"):
        ends.worker.ask(b"", large, ends.bell, 0)
    assert not ends.host.asked()
    asked = ends.ask([])
    ends.wait()
    ends.host.answer(CHUNK)
    assert same(asked.result(), CHUNK)


def test_an_answer_that_does_not_fit_is_refused(ends: Both) -> None:
    with pytest.raises(SimulatorError, match="at most 16 MB fit"):
        ends.host.answer(np.zeros(RESPONSE_BYTES, np.uint8))
    asked = ends.ask([])
    ends.wait()
    ends.host.answer(CHUNK)
    assert same(asked.result(), CHUNK)


def test_a_header_that_does_not_fit_is_refused(ends: Both) -> None:
    with pytest.raises(SimulatorError, match="a prompt and task of 100000 bytes"):
        ends.worker.ask(b"x" * 100_000, [], ends.bell, 0)
    assert not ends.host.asked()


def test_a_ring_without_an_answer_is_no_answer(ends: Both) -> None:
    ends.worker.bell.ring()  # left over from a host's announcement
    asked = ends.ask([])
    ends.wait()
    ends.host.bell.ring()
    assert not asked.done()
    ends.host.answer(CHUNK)
    assert same(asked.result(), CHUNK)


# Another incarnation of the host.


def test_a_worker_that_waits_for_a_dead_host_is_woken_and_told(ends: Both) -> None:
    asked = ends.ask([{"state": np.zeros(3)}])
    ends.wait()
    ends.host.announce(1)
    with pytest.raises(PolicyLostError):
        asked.result()
    assert not ends.host.asked()


def test_a_worker_whose_host_died_between_two_questions_is_told_at_the_next(ends: Both) -> None:
    ends.worker.announce(1)
    with pytest.raises(PolicyLostError):
        ends.worker.ask(b"", [], ends.bell, 0)
    assert not ends.host.asked()


def test_a_new_host_serves_where_the_old_one_died(ends: Both) -> None:
    asked = ends.ask([])
    ends.wait()
    ends.host.announce(7)
    with pytest.raises(PolicyLostError):
        asked.result()
    again = ends.ask([], generation=ends.worker.generation, header=b"again")
    ends.wait()
    assert ends.host.request()[:2] == (7, b"again")
    ends.host.answer(CHUNK)
    assert same(again.result(), CHUNK)


@settings(deadline=None, max_examples=40)
@given(lives=st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3), min_size=2, max_size=3))
def test_a_worker_reads_a_new_hosts_answers_as_the_new_host_wrote_them(lives: list[list[int]]) -> None:
    # Each host lives for some answers of the given lengths; the next one opens the slot afresh.
    with both_ends() as ends:
        for life in lives:
            with contextlib.closing(Slot(*map(os.dup, ends.worker.descriptors))) as host:
                for length in life:
                    asked = ends.ask([{"length": np.array([length])}])
                    ends.wait()
                    _, _, (seen,) = host.request()
                    assert seen["length"].tolist() == [length]
                    host.answer(np.full((length, 2), length))
                    assert asked.result().tolist() == [[length, length]] * length


# Another process at the other end.

HOST = """
import os, sys
from proctor.engine.transport import Slot
memory, slot_bell, bell = map(int, sys.argv[1:])
slot = Slot(memory, slot_bell)
for _ in range(3):
    os.eventfd_read(bell)
    assert slot.asked()
    generation, header, window = slot.request()
    slot.answer(float(header) * sum(observation["state"] for observation in window)[None])
"""


def test_a_host_in_another_process_answers(ends: Both) -> None:
    descriptors = [*ends.worker.descriptors, ends.bell.fileno()]
    with subprocess.Popen(
        [sys.executable, "-c", HOST, *map(str, descriptors)],
        pass_fds=descriptors,
        stderr=subprocess.PIPE,
        text=True,
    ) as host:
        for scale in (1.0, 2.0, 3.0):
            window = [{"state": np.array([1.0, 2.0])}, {"state": np.array([10.0, 20.0])}]
            answered = ends.worker.ask(str(scale).encode(), window, ends.bell, 0)
            assert answered.tolist() == [[11 * scale, 22 * scale]]
        assert host.wait() == 0, host.communicate()[1]


# Phases and counts.


def test_a_phase_and_its_beginning_are_seen_from_the_other_end(ends: Both) -> None:
    for phase in Phase:
        ends.worker.phase.write(phase, 100.25 + phase)
        assert ends.host.phase.read() == (phase, 100.25 + phase)


def test_several_phase_cells_lie_side_by_side() -> None:
    descriptor = new_memory("test", 4096)
    try:
        with mmap.mmap(descriptor, 4096) as memory, mmap.mmap(descriptor, 4096) as other:
            for number in range(3):
                PhaseCell(memory, 64 * number).write(Phase.ACT, float(number))
            assert [PhaseCell(other, 64 * number).read() for number in range(3)] == [
                (Phase.ACT, 0.0),
                (Phase.ACT, 1.0),
                (Phase.ACT, 2.0),
            ]
    finally:
        os.close(descriptor)


@settings(deadline=None, max_examples=20)
@given(steps=st.integers(0, 2**64 - 1), draws=st.integers(0, 2**64 - 1), generation=st.integers(0, 2**32 - 1))
def test_the_numbers_on_the_first_page_do_not_disturb_each_other(steps: int, draws: int, generation: int) -> None:
    with both_ends() as ends:
        ends.worker.count(steps, draws)
        ends.worker.phase.write(Phase.DRAW, 1.5)
        ends.worker.announce(generation)
        assert ends.host.counted() == (steps, draws)
        assert ends.host.phase.read() == (Phase.DRAW, 1.5)
        assert ends.host.generation == generation
        assert not ends.host.asked()


def test_a_fresh_slot_is_idle_free_and_at_zero(ends: Both) -> None:
    assert ends.host.phase.read() == (Phase.IDLE, 0.0)
    assert not ends.host.asked()
    assert ends.host.counted() == (0, 0)
    assert ends.host.generation == 0


# Nothing is left behind, and nobody can pull the memory away.


def test_nobody_can_shrink_or_grow_the_shared_memory(ends: Both) -> None:
    size = os.fstat(ends.worker.memory_fd).st_size
    for other in (0, size - 1, size + 1):
        with pytest.raises(PermissionError):
            os.ftruncate(ends.host.memory_fd, other)
    assert os.fstat(ends.worker.memory_fd).st_size == size


def test_a_slot_has_no_name_and_is_not_inherited(ends: Both) -> None:
    for descriptor in ends.worker.descriptors:
        assert not os.get_inheritable(descriptor)
    assert Path(f"/proc/self/fd/{ends.worker.memory_fd}").readlink().name.endswith("(deleted)")


def test_a_slot_takes_memory_only_for_what_was_written(ends: Both) -> None:
    asked = ends.ask([{"state": np.zeros(100)}])
    ends.wait()
    ends.host.answer(CHUNK)
    asked.result()
    assert os.fstat(ends.worker.memory_fd).st_blocks * 512 < 1 << 20


def test_dropping_a_slot_closes_its_descriptors() -> None:
    slot = Slot.create()
    descriptors = slot.descriptors
    for descriptor in descriptors:
        os.fstat(descriptor)
    del slot
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


# The control channel.


@pytest.fixture
def channels() -> Iterator[tuple[Channel, Channel]]:
    ours, theirs = Channel.pair()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_messages_keep_their_order_and_their_boundaries(channels: tuple[Channel, Channel]) -> None:
    ours, theirs = channels
    sent = [{"type": "episode", "number": number, "text": "ä" * number} for number in range(20)]
    for message in sent:
        ours.send(message)
    assert theirs.receive() == (sent[0], [])
    assert theirs.receive_all() == sent[1:]
    assert theirs.receive_all() == []


def test_both_ends_may_talk(channels: tuple[Channel, Channel]) -> None:
    ours, theirs = channels
    ours.send({"type": "to them"})
    theirs.send({"type": "to us"})
    assert ours.receive()[0] == {"type": "to us"}
    assert theirs.receive()[0] == {"type": "to them"}


def test_descriptors_travel_beside_a_message_and_are_not_inherited(channels: tuple[Channel, Channel]) -> None:
    ours, theirs = channels
    bell = os.eventfd(0, os.EFD_CLOEXEC)
    try:
        ours.send({"type": "attach"}, [bell, bell])
        message, received = theirs.receive()
        assert message == {"type": "attach"}
        assert len(received) == 2
        assert not any(map(os.get_inheritable, received))
        os.eventfd_write(received[0], 5)
        assert os.eventfd_read(bell) == 5
        for descriptor in received:
            os.close(descriptor)
    finally:
        os.close(bell)


def test_the_end_of_the_other_side_is_told_after_its_last_words(channels: tuple[Channel, Channel]) -> None:
    ours, theirs = channels
    theirs.send({"type": "done"})
    theirs.close()
    assert ours.receive_all() == [{"type": "done"}, {"type": "closed"}]
    with pytest.raises(ChannelClosed):
        ours.receive()
    with pytest.raises(ChannelClosed):
        ours.send({"type": "anybody?"})


@pytest.mark.parametrize("length", [100_000, 131_060, 131_072, 200_000, 5_000_000])
def test_a_message_of_any_length_arrives_with_what_is_beside_it(
    channels: tuple[Channel, Channel], length: int
) -> None:
    ours, theirs = channels
    with open(os.devnull) as beside:
        ours.send({"text": "x" * length}, [beside.fileno()])
        message, descriptors = theirs.receive()
    assert message == {"text": "x" * length}
    assert [os.fstat(number).st_rdev for number in descriptors] == [Path(os.devnull).stat().st_rdev]
    for number in descriptors:
        os.close(number)
    ours.send({"text": "y" * length})
    ours.send({"after": 1})
    assert theirs.receive_all() == [{"text": "y" * length}, {"after": 1}]


def test_text_that_is_no_unicode_arrives_as_it_is(channels: tuple[Channel, Channel]) -> None:
    ours, theirs = channels
    ours.send({"text": "caf\udce9 \ud800"})
    assert theirs.receive()[0] == {"text": "caf\udce9 \ud800"}


def test_a_long_text_is_clipped_at_its_beginning() -> None:
    assert keep_end("short") == "short"
    assert keep_end("0123456789", 4) == "[...]6789"


def test_a_watcher_never_sees_a_phase_without_its_time() -> None:
    """A healthy worker was once killed because of a time that was zero for a moment."""
    code = (
        "import mmap, sys\n"
        "from proctor.engine.transport import Phase, PhaseCell\n"
        "cell = PhaseCell(mmap.mmap(int(sys.argv[1]), 4096))\n"
        "print('.', flush=True)\n"
        "while True:\n"
        "    cell.write(Phase.STEP, 1000.0)\n"
        "    cell.write(Phase.DRAW, 2000.0)\n"
    )
    descriptor = new_memory("proctor-test", 4096)
    with mmap.mmap(descriptor, 4096) as memory:
        cell = PhaseCell(memory)
        with subprocess.Popen(
            [sys.executable, "-c", code, str(descriptor)], pass_fds=[descriptor], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.read(1)
            seen = {cell.read() for _ in range(300_000)} - {(Phase.IDLE, 0.0)}
            writer.kill()
        cell.release()
    os.close(descriptor)
    assert seen == {(Phase.STEP, 1000.0), (Phase.DRAW, 2000.0)}
