"""simulate.ddp: hand-worked timelines and the limits that are known in closed form."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddp_lab import cost
from ddp_lab.simulate import ddp

LINK = 1.0  # seconds a byte; an all-reduce also costs a second to start


def all_reduce(n_bytes: float) -> float:
    return 1.0 + LINK * n_bytes


def test_a_timeline_worked_by_hand() -> None:
    # forward 0-3; layers ready at 5, 7, 8; two buckets (layers 0 and 1: 4 B; layer 2: 2 B)
    step = ddp(3.0, [2, 2, 1], [2, 2, 2], 4, all_reduce)
    assert [b.layers for b in step.buckets] == [(0, 1), (2,)]
    assert [(b.ready_at, b.began_at, b.ended_at) for b in step.buckets] == [
        (7.0, 7.0, 12.0),
        (8.0, 12.0, 15.0),
    ]
    assert step.step_time == 15.0
    assert step.compute_time == 8.0
    assert step.communication_time == 8.0
    assert step.exposed_communication == 7.0
    assert step.hidden_communication == 1.0


def test_without_overlap_communication_follows_compute() -> None:
    step = ddp(3.0, [2, 2, 1], [2, 2, 2], 4, all_reduce, overlap=False)
    assert step.step_time == 8.0 + 5.0 + 3.0
    assert step.hidden_communication == 0.0


def test_one_bucket_hides_nothing_and_many_drown_in_latency() -> None:
    layers = 10
    step = [ddp(0.0, [1.0] * layers, [1.0] * layers, size, all_reduce) for size in (0, 3, 1e9)]
    each, some, one = (s.step_time for s in step)
    assert one == 10.0 + 11.0
    assert each == 1.0 + 10 * 2.0
    assert some < min(one, each)


def test_a_link_without_cost_leaves_compute() -> None:
    assert ddp([1, 1], [2, 2], [5, 5], 1, lambda n: 0.0).step_time == 6.0


def test_the_cost_model_plugs_in() -> None:
    time = partial(
        lambda n, **k: cost.all_reduce_time("ring", n, **k), world_size=4, alpha=1e-5, beta=1e-9
    )
    step = ddp(0.01, [0.01], [4e6], 25e6, time)
    assert step.step_time == pytest.approx(0.02 + 6 * 1e-5 + 1.5 * 4e6 * 1e-9)


times = st.lists(st.integers(0, 50), min_size=1, max_size=12)


@given(times, st.integers(0, 40), st.integers(0, 60))
def test_overlap_never_hurts_and_never_beats_compute_or_the_link(
    backward: list[int], forward: int, bucket: int
) -> None:
    sizes = list(range(1, len(backward) + 1))
    with_it = ddp(forward, backward, sizes, bucket, all_reduce)
    without = ddp(forward, backward, sizes, bucket, all_reduce, overlap=False)
    assert with_it.step_time <= without.step_time
    assert without.step_time == without.compute_time + without.communication_time
    assert with_it.step_time >= with_it.compute_time
    assert with_it.step_time >= forward + backward[0] + with_it.communication_time
    hidden = with_it.communication_time - with_it.exposed_communication
    assert with_it.hidden_communication <= with_it.communication_time
    assert hidden <= with_it.hidden_communication + 1e-9
    assert [i for b in with_it.buckets for i in b.layers] == list(range(len(backward)))


def test_lengths_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="2 backward times and 1 sizes"):
        ddp(1.0, [1, 1], [1], 1, all_reduce)


@pytest.mark.parametrize("bad", [-1, float("nan")])
def test_a_negative_time_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="backward cannot be negative"):
        ddp(1.0, [bad], [1], 1, all_reduce)


def test_compute_that_is_slowed_beside_communication_by_hand() -> None:
    # two layers of 2 s and 2 B, a bucket each: 3 s of all-reduce from 2 on, half speed beside it:
    # by 5 the second layer has 1.5 of its 2 s, and is ready at 5.5; its bucket ends at 8.5
    step = ddp(0.0, [2, 2], [2, 2], 2, all_reduce, contention=0.5)
    assert step.ready_at == (2.0, 5.5)
    assert [(b.began_at, b.ended_at) for b in step.buckets] == [(2.0, 5.0), (5.5, 8.5)]
    assert (step.step_time, step.compute_time, step.exposed_communication) == (8.5, 4.0, 4.5)
    assert step.hidden_communication == 3.0


def test_where_the_only_core_moves_the_bytes_overlap_saves_nothing() -> None:
    times, sizes = [2.0, 1.0, 3.0, 1.0], [4.0, 1.0, 2.0, 5.0]
    for size in (0, 3, 100):
        beside = ddp(1.0, times, sizes, size, all_reduce, contention=1.0).step_time
        after = ddp(1.0, times, sizes, size, all_reduce, overlap=False).step_time
        assert beside == pytest.approx(after)


times = st.floats(0, 10)


@given(st.lists(st.tuples(times, st.floats(0, 20)), max_size=8), st.floats(0, 30), st.floats(0, 1))
def test_contention_only_costs_and_never_more_than_all_communication(
    layers: list[tuple[float, float]], bucket: float, contention: float
) -> None:
    backward, n_bytes = [t for t, _ in layers], [n for _, n in layers]
    free = ddp(1.0, backward, n_bytes, bucket, all_reduce).step_time
    after = ddp(1.0, backward, n_bytes, bucket, all_reduce, overlap=False).step_time
    slowed = ddp(1.0, backward, n_bytes, bucket, all_reduce, contention=contention).step_time
    assert free - 1e-9 <= slowed <= after + 1e-9


def test_contention_beyond_standing_still_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got 1\.5, expected at most 1"):
        ddp(0.0, [1], [1], 1, all_reduce, contention=1.5)
