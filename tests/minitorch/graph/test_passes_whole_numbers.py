"""What holds for floats and not for integers, which wrap; and what folding leaves alone."""

from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.arrays.library import DType, float32
from minitorch.op import Op, Spec

UNARY = {
    "abs of a square": lambda x: tf.abs(tf.square(x)),
    "abs of a negative": lambda x: tf.abs(-x),
    "square of a negative": lambda x: tf.square(-x),
    "square of an abs": lambda x: tf.square(tf.abs(x)),
    "twice negative": lambda x: tf.negative(tf.negative(x)),
    "sum with a negative": lambda x: x + (-x) * 3,
    "product of negatives": lambda x: (-x) * (-x),
    "two factors": lambda x: (x * 100) * 100,
    "half and double": lambda x: (x // 2) * 2,
    "to a power": lambda x: x**2,
    "nothing at all": lambda x: x * 1 + 0,
}


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("name", UNARY)
def test_integers_that_wrap_are_the_same_after_the_passes(name: str, dtype: Any) -> None:
    tf.reset_default_graph()
    limits = np.iinfo(dtype)
    at = np.array([limits.min, limits.max, limits.max - 1, 0, 1, 12, 100], dtype)
    x = tf.placeholder(dtype, at.shape)
    y = UNARY[name](x)
    with tf.Session() as session:
        want, got = session.run([y, tf.optimize(y)], {x: at})
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


class Counted(Op):
    """Zeros, of which it is counted how often they are made."""

    def __init__(self, count: int) -> None:
        self.count, self.runs = count, 0

    def compute(self, xp: Any, *arrays: Any) -> Any:
        """Return the zeros."""
        self.runs += 1
        return xp.zeros(self.count, dtype=xp.float32)

    def infer(self, *specs: Spec) -> Spec:
        """Return their spec."""
        dtype: DType = float32
        return Spec((self.count,), dtype)


@pytest.mark.parametrize(("count", "runs"), [(10, 1), (2**21, 0)])
def test_what_is_too_large_to_fold_is_not_even_computed(count: int, runs: int) -> None:
    tf.reset_default_graph()
    zeros = Counted(count)
    after = tf.optimize(zeros(tf.constant(1.0)))
    assert zeros.runs == runs
    assert isinstance(after, tf.Constant) is (runs > 0)
