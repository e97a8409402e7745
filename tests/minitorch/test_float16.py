"""float16: computed in float32 and rounded once, as by PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch.arrays.library import float16, float32
from minitorch.ops.elementwise import compiled

NUMBERS = np.arange(2**16, dtype=np.uint16).view(np.float16)
"""All that there are, infinities and NaN included."""


def test_float16_becomes_float32_and_back_bit_by_bit_as_numpy_says() -> None:
    wide = NUMBERS.astype(np.float32)
    np.testing.assert_array_equal(compiled.convert(NUMBERS, float32), wide)
    finite = wide[np.isfinite(wide)]
    between = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2, finite * 1.0004, finite * 2])
    with np.errstate(all="ignore"):
        expected = between.astype(np.float16)
    rounded = compiled.convert(between, float16)
    np.testing.assert_array_equal(rounded.view(np.uint16), expected.view(np.uint16))


def test_what_numbers_are_left_over_by_vectors_is_converted_too() -> None:
    for size in (257, 271, 300):
        wide = compiled.convert(NUMBERS[:size], float32)
        np.testing.assert_array_equal(wide, NUMBERS[:size].astype(np.float32))
        np.testing.assert_array_equal(compiled.convert(wide, float16), NUMBERS[:size])


ROWS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mul": lambda lib, x, y: x * y,
    "a number": lambda lib, x, y: 2.5 * x,
    "a vector": lambda lib, x, y: x + y[0],
    "div": lambda lib, x, y: x / y,
    "silu": lambda lib, x, y: lib.nn.functional.silu(x),
    "sigmoid": lambda lib, x, y: lib.sigmoid(x),
    "compared": lambda lib, x, y: lib.where(x > y, x, y),
}


@pytest.mark.parametrize("shape", [(2, 3), (40, 50)])
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_float16_are_rounded_once(name: str, shape: tuple[int, int]) -> None:
    a, b = np.random.default_rng(0).uniform(0.1, 2, (2, *shape)).astype(np.float16)
    results = []
    for lib in (minitorch, torch):
        x, y = (lib.tensor(array, requires_grad=True) for array in (a, b))
        result = ROWS[name](lib, x, y)
        result.sum().backward()
        results.append((result.detach().numpy(), x.grad.numpy()))
    (ours, slope), (theirs, expected) = results
    np.testing.assert_array_equal(ours, theirs)
    assert slope.dtype == np.float16
    np.testing.assert_allclose(slope, expected, rtol=2e-3)
