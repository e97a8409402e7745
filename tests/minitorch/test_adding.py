"""Addition at an advanced index, against NumPy's own, which is slow and right."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch
from minitorch.errors import DTypeError
from minitorch.ops.shaping.adding import add_at

Array = np.ndarray[Any, Any]
ALL = slice(None)

INDICES: dict[str, Callable[[np.random.Generator], tuple[tuple[int, ...], tuple[Any, ...]]]] = {
    "rows": lambda rng: ((7, 24), (rng.integers(-7, 7, 90),)),
    "rows of a matrix each": lambda rng: ((7, 5, 3), (rng.integers(0, 7, (6, 9)),)),
    "short rows": lambda rng: ((70, 3), (rng.integers(0, 70, 200),)),
    "columns": lambda rng: ((6, 9), (ALL, rng.integers(-9, 9, 40))),
    "an axis in the middle": lambda rng: ((3, 9, 17), (ALL, rng.integers(0, 9, 40), ALL)),
    "elements": lambda rng: ((8, 9), (rng.integers(0, 8, 99), rng.integers(-9, 9, 99))),
    "a grid": lambda rng: ((8, 9), (np.arange(8)[:, None], rng.integers(0, 9, (8, 9)))),
    "arrays apart": lambda rng: ((8, 4, 9), (rng.integers(0, 8, 50), ALL, rng.integers(0, 9, 50))),
    "a mask": lambda rng: ((8, 9), (rng.random(8) > 0.5,)),
    "small integers": lambda rng: ((9, 16), (rng.integers(0, 9, 50).astype(np.uint8),)),
    "a stride": lambda rng: ((9, 16), (rng.integers(0, 9, 50)[::2],)),
    "no index": lambda rng: ((9, 16), (np.zeros(0, np.int64),)),
    "no columns": lambda rng: ((9, 0), (rng.integers(0, 9, 50),)),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
@pytest.mark.parametrize("name", INDICES)
def test_equal_indices_add_up(name: str, dtype: str, threads: int) -> None:
    rng = np.random.default_rng(len(name))
    shape, index = INDICES[name](rng)
    into = (rng.standard_normal(shape) * 8).astype(dtype)
    values = (rng.standard_normal(into[index].shape) * 8).astype(dtype)
    for given in (values, values[..., :1]):  # the second broadcasts
        want = into.copy()
        np.add.at(want, index, given)
        before = minitorch.get_num_threads()
        minitorch.set_num_threads(threads)
        try:
            got = add_at(into.copy(), index, given)
        finally:
            minitorch.set_num_threads(before)
        assert np.array_equal(got, want)  # in the same order, so the same bits


def test_threads_share_the_rows_of_a_large_sum_and_change_no_bit() -> None:
    rng = np.random.default_rng(0)
    rows, values = rng.integers(0, 500, 9_000), rng.standard_normal((9_000, 65)).astype("float32")
    want = np.zeros((500, 65), "float32")
    np.add.at(want, rows, values)
    minitorch.set_num_threads(2)
    try:
        assert np.array_equal(add_at(np.zeros_like(want), (rows,), values), want)
    finally:
        minitorch.set_num_threads(1)


def test_a_view_with_gaps_is_added_to_where_it_lies() -> None:
    whole = np.zeros((20, 40), "float32")
    add_at(whole[::2, 4:36], (np.array([1, 1, 3]),), np.ones((3, 32), "float32"))
    assert whole[2, 4:36].tolist() == [2.0] * 32
    assert whole.sum() == 96.0


@pytest.mark.parametrize("number", [5, -6, 2**40])
def test_an_index_outside_is_refused_and_nothing_is_written(number: int) -> None:
    into = np.zeros((5, 64), "float32")
    rows = np.array([0] * 9 + [number])
    with pytest.raises(IndexError, match="out of bounds"):
        add_at(into, (rows,), np.ones((10, 64), "float32"))
    assert not into.any() or into[1:].sum() == 0.0
    x = minitorch.zeros(5, 64)
    with pytest.raises(IndexError):
        x.index_add(0, minitorch.tensor(rows), minitorch.ones(10, 64))


@pytest.mark.parametrize("source", [None, "a", [1.0]])
def test_scatter_refuses_what_is_no_number_and_no_tensor(source: Any) -> None:
    with pytest.raises(DTypeError, match="expected a tensor, a node or a number"):
        minitorch.zeros(3).scatter(0, minitorch.tensor([0]), source)


@pytest.mark.parametrize("number", [4, -1])
def test_gather_and_scatter_refuse_what_is_outside(number: int) -> None:
    x, index = minitorch.zeros(4, 4), minitorch.tensor([[0, 1, number, 2]])
    for call in (
        lambda: x.gather(0, index),
        lambda: x.scatter(0, index, minitorch.ones(1, 4)),
        lambda: x.scatter_add(1, index, minitorch.ones(1, 4)),
    ):
        with pytest.raises(IndexError):
            call()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("index_dtype", ["int64", "int32"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_elements_along_an_axis_are_picked_and_added_where_the_index_says(
    dim: int, index_dtype: str, dtype: str
) -> None:
    rng = np.random.default_rng(dim)
    shape, many = (5, 6, 7), tuple(9 if d == dim else n for d, n in enumerate((5, 6, 7)))
    x = (rng.standard_normal(shape) * 8).astype(dtype)
    index = rng.integers(0, shape[dim], many).astype(index_dtype)
    values = (rng.standard_normal(many) * 8).astype(dtype)
    given = minitorch.tensor(x)
    for part in (slice(None), slice(0, 5, 2), slice(0, 0)):  # whole, smaller in other axes, empty
        cut, source = index[part], values[part]
        places = tuple(cut if d == dim else line for d, line in enumerate(np.indices(cut.shape)))
        got = minitorch.gather(given, dim, minitorch.tensor(cut))
        assert np.array_equal(got.numpy(), x[places])
        want = x.copy()
        np.add.at(want, places, source)
        got = given.scatter_add(dim, minitorch.tensor(cut), minitorch.tensor(source))
        assert np.array_equal(got.numpy(), want) and np.array_equal(given.numpy(), x)
        for number in (None, 3):
            want = x.copy()
            want[places] = (
                source if number is None else number
            )  # of equal places the last one counts
            put = minitorch.tensor(source) if number is None else number
            got = given.scatter(dim, minitorch.tensor(cut), put)
            assert np.array_equal(got.numpy(), want) and np.array_equal(given.numpy(), x)


@pytest.mark.parametrize("wrong", [7, -1, 2**40])
def test_a_place_that_is_none_is_told_by_picking_and_by_adding(wrong: int) -> None:
    x, index = minitorch.zeros(6, 7), minitorch.zeros(6, 3, dtype=minitorch.int64)
    index[5, 2] = wrong
    for call in (
        lambda: x.gather(1, index),
        lambda: x.scatter_add(1, index, x[:, :3]),
        lambda: x.scatter(1, index, 1),
    ):
        with pytest.raises(minitorch.errors.AxisError, match=f"index {wrong} is out of bounds"):
            call()


def test_picked_elements_have_a_second_derivative() -> None:
    index = minitorch.tensor([[1, 1, 4], [0, 2, 2]])

    def picked(x: minitorch.Tensor) -> minitorch.Tensor:
        return (x.gather(1, index) ** 3).sum()

    x = minitorch.arange(10.0, dtype=minitorch.float64).reshape(2, 5).requires_grad_()
    assert minitorch.autograd.gradgradcheck(picked, (x,))
