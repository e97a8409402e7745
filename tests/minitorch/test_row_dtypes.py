"""Rows of the elementwise table: the dtype that is inferred is the one that is computed."""

import numpy as np
import pytest
import torch

import minitorch
import minitorch.graph as tf
from minitorch.errors import AxisError, DTypeError
from minitorch.ops.elementwise.rows import ROWS, Binary, Unary

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_row_computes_what_it_infers_or_refuses(name: str) -> None:
    row = ROWS[name]
    count = {Unary: 1, Binary: 2}.get(type(row), 3)
    for dtype in DTYPES:
        arrays = [np.array([1, 2, 3, 1]).astype(dtype) for _ in range(count)]
        inputs = [tf.placeholder(dtype, [4]) for _ in arrays]
        feeds = dict(zip(inputs, arrays, strict=True))
        try:
            node = row(*inputs)
        except DTypeError:
            continue
        for executor in ("interpreter", "compiled"):
            with np.errstate(all="ignore"):
                got = tf.Session(executor=executor).run(node, feeds)
            assert got.dtype == node.dtype, f"{name} of {dtype} by the {executor}"


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float32"])
def test_division_towards_zero_keeps_integers(dtype: str) -> None:
    a = np.array([7, -7, 7, -7, 6, 0, -1, 1]).astype(dtype)
    b = np.array([2, 2, -2, -2, 3, 5, 100, -100]).astype(dtype)
    want = torch.div(torch.tensor(a), torch.tensor(b), rounding_mode="trunc").numpy()
    got = minitorch.div(minitorch.tensor(a), minitorch.tensor(b), rounding_mode="trunc").numpy()
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    x, y = tf.placeholder(dtype, [8]), tf.placeholder(dtype, [8])
    for executor in ("compiled", "interpreter", "tokens"):
        quotient = minitorch.div(x, y, rounding_mode="trunc")
        value = tf.Session(executor=executor).run(quotient, {x: a, y: b})
        assert value.dtype == want.dtype
        np.testing.assert_array_equal(value, want)


def test_division_towards_zero_is_exact_beyond_the_precision_of_floats() -> None:
    a = np.array([2**62 + 1, -(2**62) - 1])
    got = minitorch.div(minitorch.tensor(a), minitorch.tensor([1, 1]), rounding_mode="trunc")
    np.testing.assert_array_equal(got.numpy(), a)


def test_arithmetic_of_bools_is_refused_with_the_line() -> None:
    b = tf.placeholder(tf.bool, [2])
    with pytest.raises(DTypeError, match=r"neg: got bool, expected integers or floats.*\.py:\d+"):
        minitorch.neg(b)
    with pytest.raises(DTypeError, match="bitwise_not: got float32, expected bools or integers"):
        minitorch.bitwise_not(tf.placeholder(tf.float32, [2]))


def test_an_index_outside_a_known_size_is_refused_where_it_is_built() -> None:
    x = tf.placeholder(tf.float32, [2, 3])
    for index in (2, -3, (0, 3), (slice(None), -4)):
        with pytest.raises(AxisError, match=r"index: out of range.*\.py:\d+"):
            x[index]
    assert x[-2, -3].shape == ()
    assert tf.placeholder(tf.float32, [None, 3])[7].shape == (3,)


@pytest.mark.parametrize("mask", [True, False])
def test_a_single_bool_as_an_index_takes_all_or_nothing(mask: bool) -> None:
    x = tf.placeholder(tf.float32, [2, 2])
    picked = x[mask]
    assert picked.shape.as_list() == [None, 2, 2]
    value = np.ones((2, 2), "f")
    np.testing.assert_array_equal(tf.Session().run(picked, {x: value}), value[mask])


def test_softplus_reaches_its_straight_part_before_half_precision_overflows() -> None:
    x = np.linspace(-20, 30, 201).astype(np.float16)
    want = torch.nn.functional.softplus(torch.tensor(x).double()).numpy()
    p = tf.placeholder(tf.float16, [201])
    value, slope = tf.Session().run([y := tf.nn.softplus(p), *tf.gradients(y, p)], {p: x})
    assert value.dtype == slope.dtype == np.float16
    np.testing.assert_allclose(value, want, rtol=2e-3, atol=1e-3)
    np.testing.assert_allclose(slope, 1 / (1 + np.exp(-x.astype(float))), rtol=2e-3, atol=1e-3)
