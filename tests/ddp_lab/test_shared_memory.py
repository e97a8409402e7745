"""The pieces of the shared-memory transport, each on its own."""

import errno
import gc
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ddp_lab
from ddp_lab.errors import OutOfSharedMemory, RankLost
from ddp_lab.transport.board import FAILED, RUNNING, inspect
from ddp_lab.transport.shm.board import ShmBoard, is_alive
from ddp_lab.transport.shm.ring_buffer import CAPACITY
from ddp_lab.transport.shm.segment import Arena, Segment, round_up
from ddp_lab.transport.shm.shm import SHORT_NAPS, ShmTransport

# a machine that stalls may take any time for an example, or to think of one


@pytest.fixture
def pair():
    segment = Segment.create(2, 64 << 20)
    ends = ShmTransport(segment, 0), ShmTransport(segment, 1)
    yield ends
    segment.close()


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 100, 5_000, 16_384, 16_385, 70_000]), st.integers(0, 2)),
        max_size=60,
    )
)
@settings(max_examples=40)
def test_messages_of_any_size_come_out_in_order_on_their_channels(sent) -> None:
    segment = Segment.create(2, 64 << 20)
    left, right = ShmTransport(segment, 0), ShmTransport(segment, 1)
    expected: dict[int, list[np.ndarray]] = {}
    room = 0
    for number, (n_bytes, channel) in enumerate(sent):
        array = np.full(n_bytes, number % 251, np.uint8)
        room += 256 + (n_bytes if n_bytes <= 16_384 else 0)
        if room > CAPACITY // 2:  # nobody reads meanwhile in this one process
            for c, arrays in expected.items():
                drain(right, c, arrays)
            room = 0
        left.isend(array, 1, channel=channel, header=b"h%d" % number)
        expected.setdefault(channel, []).append(array)
    for channel, arrays in expected.items():
        drain(right, channel, arrays)
    segment.close()


def drain(right: ShmTransport, channel: int, arrays: list[np.ndarray]) -> None:
    for array in arrays:
        np.testing.assert_array_equal(right.irecv(0, channel=channel).wait(5), array)
    arrays.clear()


def test_a_block_is_reused_when_its_last_view_is_gone() -> None:
    segment = Segment.create(1, 64 << 20)
    arena = Arena(segment, 0)
    array = arena.array((1000,), np.dtype(np.float64))
    at = segment.offset_of(array)
    view = array[10:20]
    del array
    gc.collect()
    other = arena.array((1000,), np.dtype(np.float64))
    assert segment.offset_of(other) != at
    del view
    gc.collect()
    assert segment.offset_of(arena.array((1000,), np.dtype(np.float64))) == at
    segment.close()


@given(st.integers(1, 1 << 40))
def test_rounding_wastes_at_most_a_quarter(n_bytes: int) -> None:
    size = round_up(n_bytes)
    assert n_bytes <= size <= max(64, 1.25 * n_bytes + 64)
    assert round_up(size) == size


def test_a_full_arena_is_an_error_with_advice(pair) -> None:
    left, _ = pair
    with pytest.raises(OutOfSharedMemory, match="Drop buffers"):
        left.empty(65 << 20, np.uint8)


def test_private_memory_is_not_taken_for_shared(pair) -> None:
    left, right = pair
    assert left.segment.offset_of(np.zeros(10)) == -1
    assert left.segment.offset_of(right.empty(10, np.uint8)) > 0


PLACES = {
    "both outside": (False, False, False),
    "in place, outside": (False, False, True),
    "in place, inside": (True, True, True),
    "from inside": (True, False, False),
    "into the inside": (False, True, False),
}


def reduce_everywhere(comm: ddp_lab.Communicator, count: int) -> list[str]:
    """Return the pairs of places for which a rank's sum is wrong; ranks differ in theirs."""
    wrong = []
    names = list(PLACES)
    for k in range(len(names) ** 2):
        name = names[k % len(names) if comm.rank % 2 else k // len(names)]
        x_inside, out_inside, same = PLACES[name]
        x = comm.empty(count, np.float32) if x_inside else np.empty(count, np.float32)
        out = comm.empty(count, np.float32) if out_inside else np.empty(count, np.float32)
        x[:] = np.arange(count) % 89 + comm.rank + k
        before, out = x.copy(), x if same else out
        result = comm.all_reduce(x, algorithm="two_shot", out=out)
        want = comm.size * (np.arange(count) % 89 + k) + sum(range(comm.size))
        kept = same or np.array_equal(x, before)
        if result is not out or not kept or not np.array_equal(out, want):
            wrong.append(f"{name} on rank {comm.rank}")
    return wrong


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("count", [5, 70_003])
def test_arrays_are_reduced_wherever_each_rank_has_its_own(ranks: int, count: int) -> None:
    assert list(ddp_lab.launch(reduce_everywhere, ranks, count)) == [[]] * ranks


def test_an_ordinary_array_is_reduced_through_one_block() -> None:
    def run(comm: ddp_lab.Communicator) -> int:
        arena = comm._transport.arena
        x = np.zeros(1 << 20, np.uint8)
        before = arena._next
        comm.all_reduce(x, out=x)
        return arena._next - before

    assert list(ddp_lab.launch(run, 2)) == [1 << 20] * 2


def test_the_board_keeps_the_first_word_about_an_end() -> None:
    segment = Segment.create(2, 64 << 20)
    board = ShmBoard(segment)
    assert board.read(1).state == RUNNING
    assert board.read(1).waits_for == -1
    board.end(1, FAILED, "first")
    board.end(1, FAILED, "second")
    assert board.read(1).why == "first"
    with pytest.raises(RankLost, match=r"rank 1 has failed \(first\)"):
        inspect(board, 0, 1)
    segment.close()


def test_a_wait_costs_no_look_at_the_board_until_it_has_lasted(pair) -> None:
    board, watch = pair[0].board, pair[0].watch(1)
    board.end(1, FAILED, "its process ended")
    for _ in range(SHORT_NAPS):
        assert watch()
    with pytest.raises(RankLost, match="rank 1 has failed"):
        watch()
    assert board.read(0).waits_for == 1
    watch.close()
    assert board.read(0).waits_for == -1


def test_an_entry_half_written_is_not_believed() -> None:
    segment = Segment.create(2, 64 << 20)
    board = ShmBoard(segment)
    board.enter(0, b"0.0|all_reduce|ring|float32|(4,)|sum\0a:1\0numpy", ())
    board.enter(1, b"0.0|broadcast|tree|float32|(4,)|root=0\0b:2\0numpy", ())
    with pytest.raises(ValueError, match="rank 1 has broadcast at b:2"):
        inspect(board, 0, 1)
    segment.words[segment.layout.board(1) // 8] += 1  # its writer is in the middle
    inspect(board, 0, 1)
    segment.close()


@pytest.mark.parametrize(
    ("found", "alive"),
    [
        (b"7 (rank) R 1", True),
        (b"7 (a) Z b) S 1", True),
        (b"7 (rank) Z 1", False),
        (b"7 (rank) X 1", False),
        (b"", False),
        (OSError(errno.ESRCH, "it ended between the opening of its file and the read"), False),
        (OSError(errno.ENOENT, "it has ended"), False),
        (OSError(errno.EACCES, "it is hidden"), True),
    ],
    ids=repr,
)
def test_a_process_that_ends_while_it_is_looked_at_is_not_alive(
    found: bytes | OSError, alive: bool
) -> None:
    def stat(pid: int) -> bytes:
        if isinstance(found, OSError):
            raise found
        return found

    assert is_alive(7, stat) == alive
    assert is_alive(os.getpid())
