"""Products of matrices."""

import functools
import math
from typing import Any

import numpy as np

from ...arrays.allocator import matrix_product
from ...arrays.library import Array, DType, Namespace
from ...arrays.shapes import axis, broadcast
from ...errors import DTypeError, ShapeError
from ...op import Gradients, Kind, Methods, Op, Spec, apply
from ..reducing.reduction import sum
from ..shaping.broadcasting import sum_to
from ..shaping.movement import (
    Permute,
    insert_axes,
    permute,
    remove_axes,
    reshape,
    reshape_like,
    sizes,
    t,
)


def mT(x: Kind) -> Kind:
    """Return `x` with its last two axes exchanged."""
    rank = len(x.shape)
    if rank < 2:
        raise ShapeError(f"mT: got shape {tuple(x.shape)}, expected at least 2 axes.")
    return apply(Permute((*range(rank - 2), rank - 1, rank - 2)), x)


class MatMul(Op):
    """Matrix product over the last two axes; the leading axes broadcast. Both have 2 or more."""

    on_arrays = True
    promotes = "same"
    reads_output = False
    reads_across = 2
    name = "matmul"

    def compute(self, xp: Namespace, a: Array, b: Array) -> Array:
        return matrix_product(a, b) if xp is np else xp.matmul(a, b)

    def infer(self, *specs: Spec) -> Spec:
        """Return (..., n, p) for (..., n, m) and (..., m, p).

        Raises:
            ShapeError: the inner sizes differ, or the leading axes do not broadcast.
        """
        left, right = specs[0].shape, specs[1].shape
        if len(left) < 2 or len(right) < 2:
            raise ShapeError(f"matmul: got shapes {left} and {right}, expected at least 2 axes.")
        inner, other = left[-1], right[-2]
        if inner != other and None not in (inner, other):
            raise ShapeError(
                f"matmul: inner sizes differ: left {left}, right {right}: {inner} is not {other}. "
                "Transpose one side or check the layer sizes."
            )
        lead = broadcast(left[:-2], right[:-2], op="matmul")
        return Spec((*lead, left[-2], right[-1]), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """dA = dY Bᵀ and dB = Aᵀ dY, summed over broadcast leading axes."""
        a, b = node.inputs
        left, right = node.wants
        return (
            sum_to(apply(self, out_grad, mT(b)), a) if left else None,
            sum_to(apply(self, mT(a), out_grad), b) if right else None,
        )


_matmul = MatMul()


def matmul(input: Kind, other: Any) -> Kind:
    """Return the matrix product; a vector counts as a row on the left, a column on the right.

    Raises:
        ShapeError: inner sizes differ or leading axes do not broadcast.
    """
    left, right = len(input.shape), len(other.shape)
    if left > 1 and right > 1:
        return apply(_matmul, input, other)
    if not left or not right:
        raise ShapeError(
            f"matmul: got shapes {tuple(input.shape)} and {tuple(other.shape)}, expected at least "
            "1 axis each. Use * with a number."
        )
    rows = insert_axes(input, (0,)) if left == 1 else input
    columns = insert_axes(other, (1,)) if right == 1 else other
    product = apply(_matmul, rows, columns)
    rank = len(product.shape)
    inserted = ((rank - 2,) if left == 1 else ()) + ((rank - 1,) if right == 1 else ())
    return remove_axes(product, inserted)


def _check_axes(name: str, *wanted: tuple[Any, int]) -> None:
    for value, rank in wanted:
        if len(value.shape) != rank:
            shapes = " and ".join(str(tuple(v.shape)) for v, _ in wanted)
            ranks = " and ".join(str(n) for _, n in wanted)
            raise ShapeError(f"{name}: got shapes {shapes}, expected {ranks} axes. Use matmul.")


def mm(input: Kind, mat2: Kind) -> Kind:
    """Return the product of two matrices."""
    _check_axes("mm", (input, 2), (mat2, 2))
    return apply(_matmul, input, mat2)


def bmm(input: Kind, mat2: Kind) -> Kind:
    """Return the products of two batches of matrices, (n, i, j) and (n, j, k)."""
    _check_axes("bmm", (input, 3), (mat2, 3))
    if input.shape[0] != mat2.shape[0] and None not in (input.shape[0], mat2.shape[0]):
        raise ShapeError(f"bmm: batches differ: got {tuple(input.shape)} and {tuple(mat2.shape)}.")
    return apply(_matmul, input, mat2)


def mv(input: Kind, vec: Kind) -> Kind:
    """Return the product of a matrix and a vector."""
    _check_axes("mv", (input, 2), (vec, 1))
    return matmul(input, vec)


def dot(input: Kind, tensor: Kind) -> Kind:
    """Return the sum of the products of two vectors."""
    _check_axes("dot", (input, 1), (tensor, 1))
    return matmul(input, tensor)


def outer(input: Kind, vec2: Kind) -> Kind:
    """Return the products of each element of one vector with each of another."""
    _check_axes("outer", (input, 1), (vec2, 1))
    return insert_axes(input, (1,)) * insert_axes(vec2, (0,))


def _blend(x: Kind, product: Kind, beta: object, alpha: object) -> Kind:
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    total = (x if beta == 1 else x * beta) + product
    if tuple(total.shape) != tuple(product.shape):
        raise ShapeError(
            f"addmm: got {tuple(x.shape)} to add to a product of {tuple(product.shape)}, expected "
            "a shape that broadcasts to it."
        )
    return total


def addmm(input: Kind, mat1: Kind, mat2: Kind, *, beta: object = 1, alpha: object = 1) -> Kind:
    """Return beta · input + alpha · (mat1 @ mat2) for matrices."""
    return _blend(input, mm(mat1, mat2), beta, alpha)


def baddbmm(
    input: Kind, batch1: Kind, batch2: Kind, *, beta: object = 1, alpha: object = 1
) -> Kind:
    """Return beta · input + alpha · (batch1 @ batch2), of each matrix."""
    return _blend(input, bmm(batch1, batch2), beta, alpha)


def tensordot(a: Kind, b: Kind, dims: object = 2) -> Kind:
    """Return the sums of products over axes of both: the last `dims` and the first, or two lists.

    Raises:
        ShapeError: the axes differ in number or size.
    """
    dims = dims.tolist() if hasattr(dims, "tolist") else dims
    if isinstance(dims, int):
        count = len(a.shape)
        if not 0 <= dims <= min(count, len(b.shape)):
            raise ShapeError(f"tensordot: got {dims} axes of {count} and {len(b.shape)}.")
        dims = (range(count - dims, count), range(dims))
    pairs: Any = dims
    left, right = (
        [axis(d, len(v.shape), "tensordot") for d in sizes((axes,))]
        for v, axes in zip((a, b), pairs, strict=True)
    )
    for d, e in zip(left, right, strict=False):  # 1 beside another size stretches
        if 1 in (a.shape[d], b.shape[e]):
            a, b = sum(a, d, True), sum(b, e, True)
    if [a.shape[d] for d in left] != [b.shape[d] for d in right]:
        raise ShapeError(
            f"tensordot: got {tuple(a.shape)} on axes {left} and {tuple(b.shape)} on {right}, "
            "expected equal sizes."
        )
    rows = [d for d in range(len(a.shape)) if d not in left]
    columns = [d for d in range(len(b.shape)) if d not in right]
    inner = math.prod(a.shape[d] for d in left)
    heights, widths = [a.shape[d] for d in rows], [b.shape[d] for d in columns]
    product = matmul(
        reshape(permute(a, rows + left), math.prod(heights), inner),
        reshape(permute(b, right + columns), inner, math.prod(widths)),
    )
    return reshape(product, (*heights, *widths))


class Linear(Op):
    """x Wᵀ + b over the last axis: one matrix product whatever the leading axes."""

    on_arrays = True
    promotes = "same"
    reads_output = False
    name = "linear"

    def compute(self, xp: Namespace, x: Array, weight: Array, *bias: Array) -> Array:
        """Return (..., out) for x (..., in), weight (out, in), bias (out,)."""
        shape = x.shape
        flat = len(shape) == 2
        rows = x if flat else x.reshape((math.prod(shape[:-1]), shape[-1]))
        y = matrix_product(rows, weight.T) if xp is np else xp.matmul(rows, weight.T)
        if bias:
            y += bias[0]
        return y if flat else y.reshape(shape[:-1] + weight.shape[:1])

    def infer(self, *specs: Spec) -> Spec:
        """Return (..., out).

        Raises:
            ShapeError: the last size of x is not the weight's, or the bias does not fit.
        """
        x, weight = specs[0].shape, specs[1].shape
        if len(weight) != 2 or not x or (x[-1] != weight[1] and None not in (x[-1], weight[1])):
            raise ShapeError(
                f"linear: got input {x} and weight {weight}, expected (..., in) and (out, in). "
                "Check the layer sizes."
            )
        if len(specs) > 2 and specs[2].shape != (weight[0],):
            raise ShapeError(f"linear: got bias {specs[2].shape}, expected ({weight[0]},).")
        return Spec((*x[:-1], weight[0]), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """dx = g W; dW = gᵀ x and db = Σ g over all rows."""
        x, weight = node.inputs[:2]
        wants = node.wants
        flat = len(x.shape) == 2
        g = out_grad if flat else _as_rows(out_grad)
        shares: list[Methods | None] = [None, None, None]
        if wants[0]:
            dx = apply(_matmul, g, weight)
            shares[0] = dx if flat else reshape_like(dx, x)
        if wants[1]:
            shares[1] = apply(_matmul, mT(g), x if flat else _as_rows(x))
        if len(wants) > 2 and wants[2]:
            shares[2] = _sum_of_rows(g)
        return shares[: len(wants)]


_linear = Linear()


def _as_rows(x: Methods) -> Methods:
    """Return `x` as a matrix; without elements -1 says nothing, and the sizes are known."""
    *lead, last = x.shape
    return reshape(x, -1 if last or None in lead else math.prod(lead), last)


def _sum_of_rows(g: Any) -> Any:
    """Return Σ g over the rows of a matrix; of NumPy's as a product, in a third of the time."""
    if type(g) is np.ndarray and g.dtype.char in "fd" and g.flags.c_contiguous:
        return _ones(len(g), g.dtype) @ g
    return sum(g, 0)


@functools.lru_cache(16)
def _ones(count: int, dtype: DType) -> Array:
    return np.ones(count, dtype)


def linear(input: Kind, weight: Any, bias: object = None) -> Kind:
    """Return input Wᵀ + bias: (..., in) times (out, in) gives (..., out)."""
    if not hasattr(input, "shape"):
        raise DTypeError(
            f"linear: got input of type {type(input).__name__}, expected a tensor. Wrap it with "
            "minitorch.tensor."
        )
    if len(weight.shape) == 2 and len(input.shape) > 1:
        if bias is None:
            return apply(_linear, input, weight)
        return apply(_linear, input, weight, bias)
    product = matmul(input, t(weight))
    return product if bias is None else product + bias
