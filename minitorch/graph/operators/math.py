"""Products and reductions under TensorFlow's names."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays.library import DTypeLike, graph_dtype, int64
from ...arrays.shapes import INTEGERS
from ...exports import own_names
from ...ops.elementwise import unary as rows
from ...ops.elementwise.casting import cast_to
from ...ops.products import linalg
from ...ops.reducing import ordering, reduction, statistics
from ...ops.shaping import movement
from ..core.gradients import Identity
from ..core.naming import once_known, rename, rename_all
from ..core.node import Constant, Node, build, convert
from .elementwise import add_n, maximum, sqrt

Axis = int | Sequence[int] | None
MATMUL = linalg.MatMul()


@once_known
def matmul(
    a: object,
    b: object,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
) -> Node:
    """The matrix product over the last two axes, either side transposed first if asked."""
    left = a if isinstance(a, Node) or isinstance(b, Node) else convert(a)
    left = linalg.mT(convert(a)) if transpose_a else left
    right = linalg.mT(convert(b)) if transpose_b else b
    product = build(MATMUL, (left, right))
    return product if name is None else rename(product, name)


def _reduction(
    function: Callable[..., Node], called: str, says: str, kinds: str = "iuf"
) -> Callable[..., Node]:
    """Return the reduction under TensorFlow's name; `kinds` are those of the dtypes it takes."""

    @once_known
    def call(
        input_tensor: object,
        axis: int | None = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: Axis = None,
        keep_dims: bool | None = None,
    ) -> Node:
        x = input_tensor if isinstance(input_tensor, Node) else convert(input_tensor)
        if x.dtype.kind not in kinds:
            raise x.error(
                f"{called}: got {x.name!r} of {x.dtype}, expected "
                f"{'booleans. Compare first' if kinds == 'b' else 'numbers. Use cast'}."
            )
        dims = axis if axis is not None else reduction_indices
        keep = bool(keepdims or keep_dims)
        over = tuple(range(len(x.shape))) if dims is None else dims
        if isinstance(over, list | tuple) and not over:
            return rename(build(Identity(), (x,)), name)  # over no axis at all
        if isinstance(over, Constant):
            over = over.value.tolist()
        if isinstance(over, list | np.ndarray):
            over = tuple(int(d) for d in over)
        result = function(x, over, keep)
        return result if name is None else rename(result, name)

    call.__name__ = call.__qualname__ = called
    call.__doc__ = says
    return call


def _mean(x: Node, dims: int | Sequence[int] | None, keep: bool) -> Any:
    """The mean; of integers without its fraction, as TensorFlow has it."""
    if x.dtype.kind == "f":
        return reduction.mean(x, dims, keep)
    return cast_to(reduction.mean(cast_to(x, "float64"), dims, keep), x.dtype)


def _all(x: Node, dims: int | Sequence[int] | None, keep: bool) -> Any:
    return reduction.amin(cast_to(x, "uint8"), dims, keep) != 0


def _any(x: Node, dims: int | Sequence[int] | None, keep: bool) -> Any:
    return reduction.amax(cast_to(x, "uint8"), dims, keep) != 0


def _sum(x: Node, dims: int | Sequence[int] | None, keep: bool) -> Any:
    total = reduction.sum(x, dims, keep)
    return total if total.dtype == x.dtype else cast_to(total, x.dtype)


def _prod(x: Node, dims: int, keep: bool) -> Any:
    over = (dims,) if isinstance(dims, INTEGERS) else dims
    rank, dtype = len(x.shape), x.dtype
    along = tuple(sorted(d % rank for d in over))
    for dim in along:
        x = statistics.prod(x, dim, True)
    return cast_to(x if keep else movement.remove_axes(x, along), dtype)


reduce_sum = _reduction(_sum, "reduce_sum", "The sum over axes, all unless told, in x's dtype.")
reduce_mean = _reduction(_mean, "reduce_mean", "The mean over axes, all unless told, in x's dtype.")
reduce_max = _reduction(reduction.amax, "reduce_max", "The largest over axes, all unless told.")
reduce_min = _reduction(reduction.amin, "reduce_min", "The smallest over axes, all unless told.")
reduce_prod = _reduction(_prod, "reduce_prod", "The product over axes, all unless told.")
reduce_all = _reduction(_all, "reduce_all", "Whether all are true over axes.", "b")
reduce_any = _reduction(_any, "reduce_any", "Whether any is true over axes.", "b")


def argmax(
    input: object, axis: int | None = None, name: str | None = None, dimension: int | None = None
) -> Node:
    """The index of the largest along an axis, the first unless told."""
    return _argument(ordering.argmax, input, dimension or 0 if axis is None else axis, name)


def argmin(
    input: object, axis: int | None = None, name: str | None = None, dimension: int | None = None
) -> Node:
    """The index of the smallest along an axis, the first unless told."""
    return _argument(ordering.argmin, input, dimension or 0 if axis is None else axis, name)


@partial(once_known, gives=int64)
def _argument(function: Callable[..., Node], x: object, axis: int, name: str | None) -> Node:
    node = convert(x)
    return rename(cast_to(function(node, axis), int64), name)


def cast(x: object, dtype: DTypeLike, name: str | None = None) -> Node:
    """`x` as another dtype; from float to integer the fraction is dropped."""
    node = convert(x)
    kind = graph_dtype(dtype)
    return node if node.dtype == kind else rename(cast_to(node, kind), name)


def global_norm(t_list: Sequence[object], name: str | None = None) -> Node:
    """The Euclidean length of all elements of all nodes; None counts as nothing."""
    squares = [reduce_sum(rows.square(convert(t))) for t in t_list if t is not None]
    return sqrt(add_n(squares), name=name)


def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Node]:
    """The nodes scaled so that their global norm is at most `clip_norm`, and the norm before."""
    length = global_norm(t_list) if use_norm is None else use_norm
    scale = clip_norm / maximum(length, clip_norm)
    scaled = [t if t is None else t * scale for t in t_list]
    rename_all([t for t in scaled if t is not None], name)
    return scaled, length


if not TYPE_CHECKING:
    __all__ = own_names(globals())
