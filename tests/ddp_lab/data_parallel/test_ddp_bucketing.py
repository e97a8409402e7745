"""Bucket assignment: torch's own function is the oracle."""

from random import Random

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st

from ddp_lab.data_parallel.bucketing import (
    FIRST_BUCKET_BYTES,
    MIB,
    Caps,
    ParamSpec,
    assign,
    offsets,
    reverse_plan,
)

DTYPES = [torch.float32, torch.float64, torch.float16]


def specs_of(tensors: list[torch.Tensor], sparse: list[bool] | None = None) -> list[ParamSpec]:
    marks = sparse or [False] * len(tensors)
    return [
        ParamSpec(f"p{i}", tuple(t.shape), t.element_size(), t.dtype, s)
        for i, (t, s) in enumerate(zip(tensors, marks, strict=True))
    ]


tensors_of = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from(DTYPES), st.booleans()), min_size=1, max_size=30
)
limits_of = st.lists(st.integers(1, 400), min_size=1, max_size=4)


@settings(max_examples=150)
@given(tensors_of, limits_of)
def test_buckets_in_order_of_registration_are_torchs(
    shapes: list[tuple[int, torch.dtype, bool]], limits: list[int]
) -> None:
    tensors = [torch.empty(n, dtype=d) for n, d, _ in shapes]
    sparse = [s for _, _, s in shapes]
    buckets, theirs = dist._compute_bucket_assignment_by_size(tensors, limits, sparse)
    plan = assign(specs_of(tensors, sparse), limits)
    assert [list(b) for b in plan.buckets] == buckets
    dense = [i for i, b in enumerate(buckets) if not sparse[b[0]]]
    assert [plan.limits[i] for i in dense] == [theirs[i] for i in dense]


@settings(max_examples=150)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=30), limits_of, st.randoms())
def test_buckets_in_observed_order_are_torchs(
    sizes: list[int], limits: list[int], random: Random
) -> None:
    order = list(range(len(sizes)))
    random.shuffle(order)
    tensors = [torch.empty(n) for n in sizes]
    shuffled = [tensors[i] for i in order]
    buckets, _ = dist._compute_bucket_assignment_by_size(
        shuffled, limits, [False] * len(sizes), order
    )
    assert [list(b) for b in assign(specs_of(tensors), limits, order).buckets] == buckets


def test_a_limit_one_byte_larger_gives_other_buckets() -> None:
    """The oracle's specimen: off by one is seen."""
    tensors = [torch.empty(1) for _ in range(6)]
    buckets, _ = dist._compute_bucket_assignment_by_size(tensors, [8], [False] * 6)
    assert [list(b) for b in assign(specs_of(tensors), [8]).buckets] == buckets
    assert [list(b) for b in assign(specs_of(tensors), [9]).buckets] != buckets


def test_the_last_layer_comes_first_in_the_reverse_plan() -> None:
    specs = specs_of([torch.empty(MIB // 8) for _ in range(5)])  # half a MiB each
    plan = reverse_plan(specs, [FIRST_BUCKET_BYTES, 3 * MIB // 2])
    assert plan.buckets == ((4, 3), (2, 1, 0))
    assert plan.bucket_bytes(specs) == [MIB, 3 * MIB // 2]


def test_every_parameter_is_in_exactly_one_bucket() -> None:
    specs = specs_of([torch.empty(n, dtype=d) for n in range(9) for d in DTYPES])
    plan = reverse_plan(specs, [40, 60])
    assert sorted(i for bucket in plan.buckets for i in bucket) == list(range(len(specs)))


def test_offsets_lie_side_by_side() -> None:
    specs = specs_of([torch.empty(2, 3), torch.empty(()), torch.empty(0), torch.empty(5)])
    assert offsets(specs, [3, 0, 2, 1]) == [0, 5, 11, 11, 12]


def test_default_caps_begin_with_a_small_bucket() -> None:
    assert Caps.from_mb(None).limits == [MIB, 25 * MIB]
    assert Caps.from_mb(1.5).limits == [3 * MIB // 2, 3 * MIB // 2]
    assert Caps.from_mb(None, [1, 2]).limits == [MIB, 2 * MIB]


def test_a_negative_cap_is_refused() -> None:
    with pytest.raises(ValueError, match=r"negative size: got \[-1\] MiB"):
        Caps.from_mb(-1)


def test_no_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="no bucket limit"):
        assign([], [])
