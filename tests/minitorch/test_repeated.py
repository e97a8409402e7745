"""Arithmetic of a large array and one that is repeated for it, against NumPy, bit for bit."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch
from minitorch.ops.elementwise import compiled

SHAPES = [
    ((300, 260), (260,)),
    ((300, 260), (300, 1)),
    ((260,), (300, 260)),
    ((300, 1), (1, 260)),
    ((3, 1, 260), (1, 170, 1)),
    ((2, 16, 50, 40), (16, 1, 1)),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("call", [operator.add, operator.sub, operator.mul, operator.truediv])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_a_repeated_row_or_column_gives_numpys_bits(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    call: Callable[[Any, Any], Any],
    dtype: str,
    threads: int,
) -> None:
    rng = np.random.default_rng(0)
    a, b = ((1 + 8 * rng.random(shape)).astype(dtype) for shape in shapes)
    before = minitorch.get_num_threads()
    minitorch.set_num_threads(threads)
    try:
        got = call(minitorch.tensor(a), minitorch.tensor(b)).numpy()
    finally:
        minitorch.set_num_threads(before)
    if dtype == "int64" and call is operator.truediv:
        a, b = a.astype("float32"), b.astype("float32")
    assert np.array_equal(got, call(a, b)) and got.dtype == call(a, b).dtype


def test_what_is_large_and_repeated_goes_to_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    kernel_of = compiled._kernel_of

    def note(name: str, arrays: Any) -> Any:
        found.append(name)
        return kernel_of(name, arrays)

    monkeypatch.setattr(compiled, "_kernel_of", note)
    x, row = minitorch.ones(300, 260), minitorch.ones(260)
    (x + row, row - x, x * row, x / row, x[:9, :100] * row[:100])
    assert found == ["add", "sub", "mul", "div"]
