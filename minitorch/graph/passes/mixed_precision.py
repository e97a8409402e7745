"""Automatic mixed precision: products in half precision, what needs range or exactness in single.

Matrix products and convolutions get their inputs cast to half precision and give single precision
again. An operator that is as good in half precision as its inputs are stays there when all of its
inputs come from there, so a cast up meets a cast down, and both are gone. Everything else (sums,
exponentials, logarithms, losses, variables and their updates) stays in single precision. Small
gradients vanish in half precision: multiply the loss and divide the gradients.

NumPy has no bfloat16, so half precision is float16 here.

Source: Micikevicius et al., Mixed Precision Training, ICLR 2018.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ...arrays import DType, float16, float32
from ...errors import GraphError
from ...ops.casting import Cast
from ...ops.convolution import Convolve, ConvolveBack, ConvolveKernel
from ...ops.indexing import Slice
from ...ops.linalg import Linear, MatMul
from ...ops.movement import InsertAxes, Permute, RemoveAxes, Reshape
from ...ops.rows import ROWS
from ..core.node import Constant, Node, UnknownShape
from .rewrite import rebuilt, rewrite, simple

PRODUCTS = (MatMul, Linear, Convolve, ConvolveBack, ConvolveKernel)
MOVES = (InsertAxes, Permute, RemoveAxes, Reshape, Slice)
GENTLE = frozenset(
    {"relu", "relu_grad", "neg", "abs", "maximum", "minimum", "where", "positive", "zeros_like"}
)
"""Rows that round nothing: they choose among their inputs, or change a sign."""


def mixed_precision(
    fetches: Sequence[Node], fed: Collection[Node] = (), dtype: Any = float16
) -> list[Node]:
    """Return the fetches, of the same dtypes, with products computed in half precision.

    Raises:
        GraphError: NumPy cannot compute in `dtype`.
    """
    if str(getattr(dtype, "name", dtype)) != "float16":
        raise GraphError(
            f"mixed_precision: got {getattr(dtype, 'name', dtype)}, expected float16, the one "
            "half precision that NumPy has."
        )
    low: dict[Node, Node] = {}

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        if not simple(node) or node.dtype != float32 or isinstance(node.shape, UnknownShape):
            return None
        assert node.op is not None  # a simple node is an operator's
        if isinstance(node.op, PRODUCTS):
            return _cast(rebuilt(node.op, *[_half(source, low) for source in inputs]), float32)
        if _stays(node) and all(_is_half(source) for source in inputs):
            return _cast(rebuilt(node.op, *[_half(source, low) for source in inputs]), float32)
        return None

    return rewrite(fetches, rule, fed)


def _stays(node: Node) -> bool:
    """Tell whether an operator is as good in half precision as its inputs are."""
    if isinstance(node.op, MOVES):
        return len(node.inputs) == 1
    return node.op is not None and node.op.name in GENTLE and ROWS[node.op.name] is node.op


def _is_half(node: Node) -> bool:
    """Tell whether a value was in half precision, or need not be: a mask."""
    return node.dtype.kind == "b" or _before_cast(node) is not None


def _before_cast(node: Node) -> Node | None:
    """Return the half-precision value that a node is the cast of."""
    if simple(node) and isinstance(node.op, Cast) and node.inputs[0].dtype == float16:
        source: Node = node.inputs[0]
        return source
    return None


def _half(node: Node, low: dict[Node, Node]) -> Node:
    """Return a value in half precision, cast once however many use it."""
    if node.dtype != float32:
        return node
    if node not in low:
        if isinstance(node, Constant):
            low[node] = Constant(node.value.astype(float16))
        else:
            before = _before_cast(node)
            low[node] = _cast(node, float16) if before is None else before
    return low[node]


def _cast(node: Node, dtype: DType) -> Node:
    return rebuilt(Cast(dtype), node)
