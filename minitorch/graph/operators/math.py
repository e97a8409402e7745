"""Products and reductions under TensorFlow's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arrays import as_dtype, int64
from ...errors import GraphError
from ...ops import elementwise as rows
from ...ops import linalg, matrices, movement, ordering, reduction, reordering, statistics
from ...ops.casting import cast_to
from ...ops.products import Product
from ..alike import alike
from ..gradients import Identity
from ..lined import lined
from ..naming import rename, rename_all
from ..node import Constant, Node, build, convert
from .elementwise import add_n, maximum, sqrt
from .late import late, once_known, unknown

__all__ = [
    "argmax",
    "argmin",
    "batch_matmul",
    "cast",
    "clip_by_global_norm",
    "clip_by_norm",
    "count_nonzero",
    "cumprod",
    "cumsum",
    "global_norm",
    "matmul",
    "norm",
    "reduce_all",
    "reduce_any",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "to_double",
    "to_float",
    "to_int32",
    "to_int64",
]


Axis = int | Sequence[int] | None


@lined
def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Node:
    """The matrix product over the last two axes, either side transposed first if asked.

    Of real numbers the adjoint is the transpose.

    Args:
        a_is_sparse, b_is_sparse: taken for TensorFlow's sake; the product is the same.
    Raises:
        GraphError: both the transpose and the adjoint of one side are asked for.
    """
    if (transpose_a and adjoint_a) or (transpose_b and adjoint_b):
        raise GraphError("matmul: got transpose and adjoint of one side, expected one of them.")
    left, right = alike("matmul", a, b)
    transpose_a, transpose_b = transpose_a or adjoint_a, transpose_b or adjoint_b
    if unknown(left, right):
        return late(lambda x, y: matmul(x, y, transpose_a, transpose_b), (left, right), left.dtype)
    left = linalg.mT(left) if transpose_a else left
    right = linalg.mT(right) if transpose_b else right
    return rename(linalg.matmul(left, right), name)


batch_matmul = matmul


def _reduction(
    function: Callable[..., Any], called: str, says: str, kinds: str = "iuf"
) -> Callable[..., Node]:
    """Return the reduction under TensorFlow's name; `kinds` are those of the dtypes it takes."""

    @lined
    def call(
        input_tensor: Any,
        axis: Any = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: Axis = None,
        keep_dims: bool | None = None,
    ) -> Node:
        x = convert(input_tensor)
        if x.dtype.kind not in kinds:
            raise GraphError(
                f"{called}: got {x.name!r} of {x.dtype} (built at {x.location}), expected "
                f"{'booleans. Compare first' if kinds == 'b' else 'numbers. Use cast'}."
            )
        if unknown(x):
            return late(
                lambda known: call(known, axis, keepdims, None, reduction_indices, keep_dims),
                (x,),
                x.dtype,
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
        return rename(function(x, over, keep), name)

    call.__name__ = call.__qualname__ = called
    call.__doc__ = says
    return call


def _mean(x: Any, dims: Any, keep: bool) -> Any:
    """The mean; of integers without its fraction, as TensorFlow has it."""
    if x.dtype.kind == "f":
        return reduction.mean(x, dims, keep)
    return cast_to(reduction.mean(cast_to(x, "float64"), dims, keep), x.dtype)


def _all(x: Any, dims: Any, keep: bool) -> Any:
    return reduction.amin(cast_to(x, "uint8"), dims, keep) != 0


def _any(x: Any, dims: Any, keep: bool) -> Any:
    return reduction.amax(cast_to(x, "uint8"), dims, keep) != 0


def _sum(x: Any, dims: Any, keep: bool) -> Any:
    return cast_to(reduction.sum(x, dims, keep), x.dtype)


def _prod(x: Any, dims: Any, keep: bool) -> Any:
    over = (dims,) if isinstance(dims, int) else dims
    rank, dtype = len(x.shape), x.dtype
    along = tuple(sorted(d % rank for d in over))
    for dim in along:
        if x.shape[dim] is None:  # no tree of products can be built for it now
            x = movement.insert_axes(build(Product(dim), (x,)), (dim,))
        else:
            x = statistics.prod(x, dim, True)
    return cast_to(x if keep else movement.remove_axes(x, along), dtype)


reduce_sum = _reduction(_sum, "reduce_sum", "The sum over axes, all unless told, in x's dtype.")
reduce_mean = _reduction(_mean, "reduce_mean", "The mean over axes, all unless told, in x's dtype.")
reduce_max = _reduction(reduction.amax, "reduce_max", "The largest over axes, all unless told.")
reduce_min = _reduction(reduction.amin, "reduce_min", "The smallest over axes, all unless told.")
reduce_prod = _reduction(_prod, "reduce_prod", "The product over axes, all unless told.")
reduce_logsumexp = _reduction(
    reduction.logsumexp, "reduce_logsumexp", "log sum exp over axes, without overflow.", "f"
)
reduce_all = _reduction(_all, "reduce_all", "Whether all are true over axes.", "b")
reduce_any = _reduction(_any, "reduce_any", "Whether any is true over axes.", "b")


def argmax(
    input: Any,
    axis: int | None = None,
    name: str | None = None,
    dimension: int | None = None,
    output_type: Any = int64,
) -> Node:
    """The index of the largest along an axis, the first unless told."""
    return _argument(ordering.argmax, input, axis, dimension, output_type, name)


def argmin(
    input: Any,
    axis: int | None = None,
    name: str | None = None,
    dimension: int | None = None,
    output_type: Any = int64,
) -> Node:
    """The index of the smallest along an axis, the first unless told."""
    return _argument(ordering.argmin, input, axis, dimension, output_type, name)


@lined
def _argument(
    function: Callable[..., Any],
    x: Any,
    axis: int | None,
    dimension: int | None,
    output_type: Any,
    name: str | None,
) -> Node:
    along = axis if axis is not None else dimension or 0
    node = convert(x)
    if unknown(node):
        return late(
            lambda known: _argument(function, known, along, None, output_type, None),
            (node,),
            as_dtype(output_type),
        )
    return rename(cast_to(function(node, along), output_type), name)


@lined
@once_known
def cumsum(
    x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Node:
    """Running sums along an axis; `exclusive` of what is before, `reverse` from the end."""
    return rename(_running(ordering.cumsum, 0.0, x, axis, exclusive, reverse), name)


@lined
@once_known
def cumprod(
    x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Node:
    """Running products along an axis; `exclusive` of what is before, `reverse` from the end."""
    return rename(_running(ordering.cumprod, 1.0, x, axis, exclusive, reverse), name)


def _running(
    function: Callable[..., Any], start: float, x: Any, axis: int, exclusive: bool, reverse: bool
) -> Any:
    node = reordering.flip(x, axis) if reverse else x
    if exclusive:  # one place further, from the neutral element
        before = (slice(None),) * (axis % len(node.shape))
        border = [0, 0] * (len(node.shape) - 1 - len(before)) + [1, 0]
        node = matrices.pad(node[(*before, slice(None, -1))], border, value=start)
    found = cast_to(function(node, axis), node.dtype)
    return reordering.flip(found, axis) if reverse else found


def cast(x: Any, dtype: Any, name: str | None = None) -> Node:
    """`x` as another dtype; from float to integer the fraction is dropped."""
    node = convert(x)
    wanted = as_dtype(dtype)
    return node if node.dtype == wanted else rename(cast_to(node, wanted), name)


def to_float(x: Any, name: str | None = None) -> Node:
    """`x` as float32."""
    return cast(x, "float32", name)


def to_double(x: Any, name: str | None = None) -> Node:
    """`x` as float64."""
    return cast(x, "float64", name)


def to_int32(x: Any, name: str | None = None) -> Node:
    """`x` as int32."""
    return cast(x, "int32", name)


def to_int64(x: Any, name: str | None = None) -> Node:
    """`x` as int64."""
    return cast(x, "int64", name)


def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    keep_dims: bool | None = None,
) -> Node:
    """The length over axes, all unless told: Euclidean, or of order 1, 2 or infinity.

    Raises:
        GraphError: another order.
    """
    node, keep = convert(tensor), bool(keepdims or keep_dims)
    if ord in ("euclidean", "fro", 2):
        return sqrt(reduce_sum(rows.square(node), axis, keep), name=name)
    if ord == 1:
        return reduce_sum(rows.abs(node), axis, keep, name=name)
    if ord in (np.inf, "inf"):
        return reduce_max(rows.abs(node), axis, keep, name=name)
    raise GraphError(f"norm: got order {ord!r}, expected 'euclidean', 1, 2 or infinity.")


def count_nonzero(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    dtype: Any = int64,
    name: str | None = None,
) -> Node:
    """How many elements are not 0, over axes, all unless told."""
    present = cast_to(convert(input_tensor) != 0, as_dtype(dtype))
    return reduce_sum(present, axis, keepdims, name=name)


def global_norm(t_list: Sequence[Any], name: str | None = None) -> Node:
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


def clip_by_norm(t: Any, clip_norm: Any, axes: Axis = None, name: str | None = None) -> Node:
    """`t` scaled so that its Euclidean length is at most `clip_norm`."""
    node = convert(t)
    length = norm(node, axis=axes, keepdims=axes is not None)
    return rename(node * (clip_norm / maximum(length, clip_norm)), name)
