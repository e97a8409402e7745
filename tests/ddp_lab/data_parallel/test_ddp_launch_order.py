"""The fixed order of launches."""

import itertools
import random

import pytest

from ddp_lab.data_parallel.launch_order import LaunchOrder

BUCKETS = [(4, 3), (2,), (1, 0)]


def launches(buckets: list[tuple[int, ...]], arrivals: list[int]) -> list[int]:
    order = LaunchOrder(buckets)
    launched = [bucket for index in arrivals for bucket in order.mark(index)]
    assert order.complete
    return launched


@pytest.mark.parametrize("arrivals", list(itertools.permutations(range(5))))
def test_buckets_go_in_order_whatever_the_arrivals(arrivals: tuple[int, ...]) -> None:
    assert launches(BUCKETS, list(arrivals)) == [0, 1, 2]


def test_launching_when_full_would_differ_between_ranks() -> None:
    """The specimen: without the rule, two arrival orders give two launch orders."""

    def when_full(arrivals: list[int]) -> list[int]:
        pending = [set(bucket) for bucket in BUCKETS]
        launched = []
        for index in arrivals:
            for number, waiting in enumerate(pending):
                if index in waiting:
                    waiting.remove(index)
                    if not waiting:
                        launched.append(number)
        return launched

    assert when_full([4, 3, 2, 1, 0]) != when_full([0, 1, 2, 3, 4])


def test_mark_says_which_buckets_may_go() -> None:
    order = LaunchOrder(BUCKETS)
    assert not order.mark(2)  # full, but not its turn
    assert not order.mark(4)
    assert list(order.mark(3)) == [0, 1]
    assert order.missing == [0, 1]


def test_a_gradient_that_comes_twice_is_an_error() -> None:
    order = LaunchOrder(BUCKETS)
    order.mark(3)
    with pytest.raises(ValueError, match="gradient 3 is ready twice"):
        order.mark(3)


def test_reset_starts_over() -> None:
    order = LaunchOrder(BUCKETS)
    for index in random.Random(0).sample(range(5), 5):
        order.mark(index)
    order.reset()
    assert order.missing == [0, 1, 2, 3, 4]
    assert not order.complete


@pytest.mark.parametrize("seed", range(20))
def test_a_counter_counts_as_mark_does(seed: int) -> None:
    """Some gradients come twice, and some after the iteration has been closed."""
    chance = random.Random(seed)
    counted, marked = LaunchOrder(BUCKETS), LaunchOrder(BUCKETS)
    told: list[int] = []
    hooks = [counted.counter(index, lambda index=index: told.append(index)) for index in range(5)]
    for _ in range(3):
        counted.reset()
        marked.reset()
        for index in chance.choices(range(5), k=8):
            first, twice = not marked.ready, index in marked.ready
            fills = not twice and (marked.mark(index), bucket_is_full(marked, index))[1]
            told.clear()
            hooks[index](None)
            assert bool(told) == (first or twice or fills)
            if told and not twice:
                counted.mark(index)
            assert list(counted.ready) == list(marked.ready)
        counted.close()
        before = list(counted.ready)
        told.clear()
        for hook in hooks:
            hook(None)
        assert told == list(range(5))
        assert list(counted.ready) == before


def bucket_is_full(order: LaunchOrder, index: int) -> bool:
    return set(BUCKETS[order.bucket_of[index]]) <= set(order.ready)


def test_a_counter_follows_other_buckets() -> None:
    order, told = LaunchOrder(BUCKETS), []
    hook = order.counter(2, lambda: told.append(2))
    order.arrange([(0, 1, 2), (3, 4)])
    order.mark(1)
    hook(None)
    assert not told
    assert order.mark(0)
