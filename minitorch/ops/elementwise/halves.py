"""Rows of float16 by way of float32, in which processors compute: NumPy does it one by one.

A result is rounded once, as PyTorch's is; so is the gradient of each input.

May import: op, arrays, compiled, rows.
"""

from typing import Any

from ...arrays.library import Array, Namespace, float16, float32
from ...op import Op
from . import compiled
from .rows import Elementwise


def _widen(x: Any) -> Any:
    return compiled.convert(x, float32) if x.dtype is float16 else x


def compute_in_float32(op: Op, xp: Namespace, *arrays: Array) -> Array:
    """Return an operator of NumPy's arrays, of which the first is float16."""
    if not isinstance(op, Elementwise):
        return op.compute(xp, *arrays)
    result = op.compute(xp, *map(_widen, arrays))
    return compiled.convert(result, float16) if result.dtype is float32 else result


def gradient_in_float32(op: Op, grad: Array, node: Any) -> Any:
    """Return the gradients of an operator's inputs; that of its result, `grad`, is float16."""
    if not isinstance(op, Elementwise):
        return op.gradient(grad, node)
    node.inputs, node.output = tuple(map(_widen, node.inputs)), _widen(node.output)
    wide, shares = _widen(grad), []
    for share in op.gradient(wide, node):  # type: ignore[union-attr]  # one for each input
        if share is wide:
            share = grad
        is_wide = share is not None and share.dtype is float32
        shares.append(compiled.convert(share, float16) if is_wide else share)
    return shares
