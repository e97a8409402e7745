"""The story of a run: rounds, partial sums, what each rank knows, bytes sent."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from ddp_lab import Link, launch
from ddp_lab.errors import InvalidArgument
from ddp_lab.show import tell, watch
from ddp_lab.show.story import NO_PARTIAL_SUM, PartialSum, explain, rounds_of, subset_sums


@dataclass
class Sent:
    src: int
    dst: int
    n_bytes: int
    sent_at: float
    received_at: float
    values: Any = None


def tiny(n: int, elements: int = 8) -> list[np.ndarray]:
    """Digit r of a sum says whether rank r is in it, its value which element it is."""
    return [np.arange(1.0, elements + 1) * 10**rank for rank in range(n)]


def ring(comm: Any, x: np.ndarray) -> np.ndarray:
    n, rank = comm.size, comm.rank
    chunks = np.array_split(x, n)
    for step in range(n - 1):
        comm.send(chunks[(rank - 1 - step) % n], (rank + 1) % n)
        chunks[(rank - 2 - step) % n] = chunks[(rank - 2 - step) % n] + comm.recv((rank - 1) % n)
    for step in range(n - 1):
        comm.send(chunks[(rank - step) % n], (rank + 1) % n)
        chunks[(rank - step - 1) % n] = comm.recv((rank - 1) % n)
    return np.concatenate(chunks)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8])
def test_a_ring_takes_two_rounds_a_neighbour_and_ends_with_everything_known(n: int) -> None:
    seen = watch(ring, tiny(n))
    story = seen.story()
    for result in seen.results:
        np.testing.assert_allclose(result, sum(tiny(n)))
    assert len(story.rounds) == 2 * (n - 1)
    assert all(cell == frozenset(range(n)) for rank in story.known[-1] for cell in rank)
    assert all({h.dst for h in hops} == set(range(n)) for hops in story.rounds)


def test_bytes_are_summed_by_sender() -> None:
    story = watch(ring, tiny(4)).story()
    assert story.sent[0] == (0, 0, 0, 0)
    assert story.sent[-1] == (96, 96, 96, 96)  # 2 * 3/4 of 64 bytes


def test_a_zero_among_the_values_is_told_from_what_is_not() -> None:
    sums = subset_sums([np.arange(4.0), 10 * np.arange(4.0)])
    assert explain(np.array([0.0]), sums) is not None
    assert explain(np.array([0.0, 1.0]), sums) == PartialSum(0, 2, frozenset({0}))
    assert explain(np.array([1.0, 0.0]), sums) == NO_PARTIAL_SUM


def test_each_message_is_explained_as_the_partial_sum_that_it_is() -> None:
    story = watch(ring, tiny(4)).story()
    last_of_reduce_scatter = next(h for h in story.rounds[2] if h.src == 0)
    assert last_of_reduce_scatter.sentence() == (
        "Rank 0 sends rank 1 elements 2 to 3 summed over ranks 0, 2 and 3 (16 bytes)."
    )


def test_a_message_that_is_no_partial_sum_is_called_that() -> None:
    def doubles(comm: Any, x: np.ndarray) -> None:
        comm.send(2 * x, 1) if comm.rank == 0 else comm.recv(0)

    (hop,) = watch(doubles, tiny(2)).story().rounds[0]
    assert hop.carried is not None and not hop.carried.ranks
    assert "no partial sum" in hop.sentence()


def test_messages_to_one_rank_take_a_round_each() -> None:
    to_root = [Sent(src, 0, 8, 0.0, 1.0) for src in (1, 2, 3)]
    back = [Sent(0, dst, 8, 2.0, 3.0) for dst in (1, 2, 3)]
    story = tell([*back, *to_root], 4)
    assert [[(h.src, h.dst) for h in hops] for hops in story.rounds] == [
        [(1, 0)], [(2, 0)], [(3, 0)], [(0, 1)], [(0, 2)], [(0, 3)],
    ]  # fmt: skip


@pytest.mark.parametrize("n", [2, 4, 8])
def test_halving_and_doubling_takes_two_rounds_a_bit_whoever_was_first(n: int) -> None:
    def body(comm: Any, x: np.ndarray) -> np.ndarray:
        return comm.all_reduce(x, algorithm="halving_doubling")

    story = watch(body, tiny(n)).story()
    assert len(story.rounds) == 2 * (n.bit_length() - 1)


def test_a_message_never_received_delays_nobody() -> None:
    story = tell([Sent(0, 1, 8, 0.0, float("nan")), Sent(1, 2, 8, 1.0, 2.0)], 3)
    assert len(story.rounds) == 1


def test_an_input_much_smaller_than_the_others_is_still_told_apart() -> None:
    sums = subset_sums([np.full(4, 1e-7), np.full(4, 1.0)])
    found = explain(np.full(4, 1e-7), sums)
    assert found is not None and found.ranks == frozenset({0})
    wrong = explain(np.full(4, -1e-7), sums)
    assert wrong is not None and not wrong.ranks


def test_the_function_may_work_in_place() -> None:
    def spoils(comm: Any, x: np.ndarray) -> None:
        x[:] = 0

    inputs = tiny(2)
    seen = watch(spoils, inputs)
    np.testing.assert_array_equal(seen.inputs[1], tiny(2)[1])
    np.testing.assert_array_equal(inputs[1], tiny(2)[1])


def test_a_run_without_messages_has_no_rounds() -> None:
    story = tell([], 3)
    assert story.rounds == () and story.sent == ((0, 0, 0),)


def test_too_many_messages_are_refused_with_the_number() -> None:
    with pytest.raises(InvalidArgument, match="got 20001, expected at most 20000"):
        tell([Sent(0, 1, 8, 0.0, 1.0)] * 20_001, 2)


def ring_messages(n: int) -> list[Sent]:
    """What a ring of `n` ranks sends when all work in step."""
    return [
        Sent(rank, (rank + 1) % n, 8, float(step), step + 1.0)
        for step in range(2 * (n - 1))
        for rank in range(n)
    ]


def test_a_ring_of_64_ranks_can_be_told() -> None:
    story = tell(ring_messages(64), 64)
    assert [len(hops) for hops in story.rounds] == [64] * 126
    assert story.sent[-1] == (8 * 126,) * 64


def obvious_rounds(messages: list[Sent]) -> list[int]:
    """Look at every earlier message for each one; quadratic, and what the rounds are held to."""
    rounds: list[int] = []
    for m in messages:
        before = list(zip(rounds, messages, strict=False))
        heard = [k + 1 for k, b in before if b.dst == m.src and b.received_at <= m.sent_at]
        at = max([0, *heard, *(k + 1 for k, b in before if b.src == m.src)])
        while any(k == at and b.dst == m.dst for k, b in before):
            at += 1
        rounds.append(at)
    return rounds


@pytest.mark.parametrize("seed", range(5))
def test_the_rounds_of_any_run_are_those_found_by_looking_at_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sent_at = np.sort(rng.integers(0, 40, size=150)).astype(float)
    lost = np.where(rng.random(150) < 0.1, np.nan, 0.0)
    taken = rng.integers(0, 15, size=150) + lost
    src, dst = rng.integers(0, 6, size=150), rng.integers(0, 6, size=150)
    rows = zip(src.tolist(), dst.tolist(), sent_at, sent_at + taken, strict=True)
    messages = [Sent(s, d, 8, at, end) for s, d, at, end in rows]
    assert rounds_of(messages) == obvious_rounds(messages)


def test_one_input_a_rank_is_needed() -> None:
    with pytest.raises(InvalidArgument, match="got 1, expected 2"):
        tell([], 2, tiny(1))


def test_a_recorded_launch_can_be_told_without_contents() -> None:
    run = launch(ring, 4, tiny(4)[0], transport="threads", record=True)
    story = tell(run.trace.messages, 4)
    assert len(story.rounds) == 6
    assert story.sent[-1] == tuple(traffic.bytes_sent for traffic in run.traffic)


def test_over_a_link_a_story_says_when_each_round_had_arrived() -> None:
    def body(comm: Any, x: np.ndarray) -> np.ndarray:
        return comm.all_reduce(x, algorithm="ring")

    story = watch(body, tiny(2), hosts=2, link=Link(1e-3, 0.0)).story()
    first, last = story.ended_s
    assert 1e-3 <= first < last  # no sooner than the link
    assert story.as_dict()["ended_ms"] == [round(1e3 * first, 1), round(1e3 * last, 1)]
    assert watch(body, tiny(2)).story().ended_s == ()


def test_a_round_has_ended_when_all_its_messages_and_those_before_have_arrived() -> None:
    messages = [Sent(0, 1, 8, 1.0, 9.0), Sent(2, 1, 8, 1.0, 3.0), Sent(3, 2, 8, 2.0, 4.0)]
    assert tell(messages, 4, timed=True).ended_s == (8.0, 8.0)
