"""Products of matrices."""

from typing import Any

from ..errors import ShapeError
from ..op import Op, Spec, apply
from ..shapes import broadcast
from .broadcasting import sum_to
from .movement import Permute, insert_axes, remove_axes
from .rows import promoted


def mT(x: Any) -> Any:
    """Return `x` with its last two axes exchanged."""
    rank = len(x.shape)
    if rank < 2:
        raise ShapeError(f"mT: got shape {tuple(x.shape)}, expected at least 2 axes.")
    return apply(Permute((*range(rank - 2), rank - 1, rank - 2)), x)


class MatMul(Op):
    """Matrix product over the last two axes; the leading axes broadcast. Both have 2 or more."""

    on_arrays = True
    promotes = "common"
    reads_output = False
    name = "matmul"

    def compute(self, xp: Any, a: Any, b: Any) -> Any:
        """Return a @ b."""
        return a @ b

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
        return Spec((*lead, left[-2], right[-1]), promoted(specs, "common"))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """dA = dY Bᵀ and dB = Aᵀ dY, summed over broadcast leading axes."""
        a, b = node.inputs
        left, right = node.wants
        return (
            sum_to(apply(self, out_grad, mT(b)), a) if left else None,
            sum_to(apply(self, mT(a), out_grad), b) if right else None,
        )


_matmul = MatMul()


def matmul(a: Any, b: Any) -> Any:
    """Return the matrix product; a vector counts as a row on the left, a column on the right.

    Raises:
        ShapeError: inner sizes differ or leading axes do not broadcast.
    """
    left, right = len(a.shape), len(b.shape)
    if left > 1 and right > 1:
        return apply(_matmul, a, b)
    if not left or not right:
        raise ShapeError(
            f"matmul: got shapes {tuple(a.shape)} and {tuple(b.shape)}, expected at least 1 axis "
            "each. Use * with a number."
        )
    inner, other = a.shape[-1], b.shape[-2 if right > 1 else -1]
    if inner != other and None not in (inner, other):
        raise ShapeError(
            f"matmul: inner sizes differ: left {tuple(a.shape)}, right {tuple(b.shape)}. "
            "Transpose one side or check the layer sizes."
        )
    rows = insert_axes(a, (0,)) if left == 1 else a
    columns = insert_axes(b, (1,)) if right == 1 else b
    product = apply(_matmul, rows, columns)
    rank = len(product.shape)
    gone = ((rank - 2,) if left == 1 else ()) + ((rank - 1,) if right == 1 else ())
    return remove_axes(product, gone)
