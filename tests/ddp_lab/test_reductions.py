"""Reductions against torch, bfloat16 bit by bit."""

import numpy as np
import pytest
import torch

import ddp_lab
from ddp_lab.reduction import BFLOAT16, combiner, divide, from_float32, to_float32


def bfloat16(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values).to(torch.bfloat16)


def test_bfloat16_rounds_as_torch_does_for_every_float_pattern_tried() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint32)
    edges = np.array([0, 0x80000000, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0x3F808000], np.uint32)
    values = np.concatenate([bits, edges]).view(np.float32)
    want = bfloat16(values).view(torch.uint16).numpy()
    got = from_float32(values)
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(got[numbers], want[numbers])
    assert np.isnan(to_float32(got[~numbers])).all()


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max"])
def test_bfloat16_combines_as_torch_does(op: str) -> None:
    a, b = np.random.default_rng(1).normal(size=(2, 5000)).astype(np.float32)
    left, right = bfloat16(a), bfloat16(b)
    want = {"sum": left + right, "prod": left * right}.get(op)
    if want is None:
        want = torch.minimum(left, right) if op == "min" else torch.maximum(left, right)
    out = left.clone().view(torch.uint16).numpy().view(BFLOAT16)
    combiner(op, BFLOAT16)(out, right.view(torch.uint16).numpy().view(BFLOAT16), out)
    np.testing.assert_array_equal(out.view(np.uint16), want.view(torch.uint16).numpy())


def test_truncating_in_place_of_rounding_would_be_seen() -> None:
    values = np.float32([1.00390625, 1.01171875])
    truncated = (values.view(np.uint32) >> 16).astype(np.uint16)
    assert (from_float32(values) != truncated).any()


def test_integer_averages_round_toward_zero() -> None:
    array = np.array([7, -7, 6, -1, 0], np.int32)
    divide(array, 2)
    assert array.tolist() == [3, -3, 3, 0, 0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int32])
@pytest.mark.parametrize("algorithm", ddp_lab.algorithms("all_reduce"))
def test_tensors_of_every_dtype_come_back_as_such(dtype: torch.dtype, algorithm: str) -> None:
    def rank(comm):
        x = (torch.arange(11) + comm.rank).to(dtype)
        return comm.all_reduce(x, algorithm=algorithm)

    for result in ddp_lab.launch(rank, 3, transport="threads"):
        assert result.dtype == dtype
        assert result.tolist() == [3 * i + 3 for i in range(11)]


def test_bit_operations() -> None:
    def rank(comm):
        x = np.array([0b1100, 0b1010], np.uint8) >> comm.rank
        return [comm.all_reduce(x, op=op).tolist() for op in ("band", "bor", "bxor")]

    got = ddp_lab.launch(rank, 2, transport="threads")[0]
    assert got == [[0b0100, 0b0000], [0b1110, 0b1111], [0b1010, 0b1111]]
