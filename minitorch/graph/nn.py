"""TensorFlow's `nn`: activations, losses, dropout and layers' arithmetic."""

from collections.abc import Callable

from ..arrays.library import DTypeLike, as_dtype
from ..errors import GraphError
from ..ops.elementwise import activation
from ..ops.elementwise import unary as rows
from ..ops.elementwise.rows import operator_of
from ..ops.shaping import joining, movement
from ..ops.shaping.gathering import OneHot
from .core.naming import locates_errors, rename, rename_all
from .core.node import Node, build, convert, convert_all
from .models import rnn_cell
from .models.rnn import dynamic_rnn, static_rnn
from .operators import elementwise, math, random
from .operators.cross_entropy import (
    log_softmax,
    sigmoid_cross_entropy_with_logits,
    softmax,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from .operators.elementwise import log_sigmoid, rsqrt, sigmoid, tanh
from .operators.images import avg_pool, conv2d, max_pool
from .operators.math import reduce_mean
from .shapes.deferred import as_scalar, late, unknown

__all__ = [
    "avg_pool",
    "batch_normalization",
    "bias_add",
    "conv2d",
    "dropout",
    "dynamic_rnn",
    "elu",
    "embedding_lookup",
    "l2_loss",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "max_pool",
    "moments",
    "one_hot",
    "relu",
    "rnn_cell",
    "sigmoid",
    "sigmoid_cross_entropy_with_logits",
    "softmax",
    "softmax_cross_entropy_with_logits",
    "softplus",
    "sparse_softmax_cross_entropy_with_logits",
    "static_rnn",
    "tanh",
    "xw_plus_b",
]


RELU = operator_of(rows.relu)


def _activation(function: Callable[..., Node], name: str, says: str) -> Callable[..., Node]:
    def call(features: object, name: str | None = None) -> Node:
        return rename(function(convert(features)), name)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = says
    return call


elu = _activation(activation.elu, "elu", "x where positive, e^x - 1 elsewhere.")
softplus = _activation(activation.softplus, "softplus", "log(1 + e^x).")


def relu(features: object, name: str | None = None) -> Node:
    """max(x, 0)."""
    result = build(RELU, (features if isinstance(features, Node) else convert(features),))
    return result if name is None else rename(result, name)


def leaky_relu(features: object, alpha: float = 0.2, name: str | None = None) -> Node:
    """x where positive, alpha x elsewhere."""
    return rename(activation.leaky_relu(convert(features), alpha), name)


# ── layers' arithmetic ──────────────────────────────────────────────────────────────────────────


def l2_loss(t: object, name: str | None = None) -> Node:
    """sum(t^2) / 2."""
    return rename(math.reduce_sum(rows.square(convert(t))) / 2, name)


@locates_errors
def bias_add(value: object, bias: object, name: str | None = None) -> Node:
    """The value plus a bias along its last axis, the channels."""
    x, b = convert_all(value, bias)
    if b.shape.ndims not in (None, 1):
        raise b.error(f"bias_add: got a bias of shape {b.shape}, expected one axis.")
    return rename(x + b, name)


@locates_errors
def xw_plus_b(x: object, weights: object, biases: object, name: str | None = None) -> Node:
    """x weights + biases."""
    return rename(math.matmul(x, weights) + convert(biases), name)


@locates_errors
def dropout(x: object, keep_prob: object, seed: int | None = None, name: str | None = None) -> Node:
    """Each element kept with probability keep_prob, and then divided by it; otherwise 0."""
    node = convert(x)
    keep = as_scalar(keep_prob) if isinstance(keep_prob, Node) else keep_prob
    if isinstance(keep, int | float) and not 0 < keep <= 1:
        raise GraphError(f"dropout: got keep_prob {keep}, expected one in (0, 1].")
    mask = elementwise.floor(random.uniform_like(node, seed) + keep)
    return rename(node / keep * mask, name)


@locates_errors
def embedding_lookup(params: object, ids: object, name: str | None = None) -> Node:
    """The rows of a table that the ids name.

    Args:
        params: the table; or a list of parts of it, one after another.
    """
    parts = params if isinstance(params, list | tuple) else [params]
    table = convert(parts[0]) if len(parts) == 1 else joining.cat(convert_all(*parts), 0)
    return rename(table[convert(ids)], name)


@locates_errors
def one_hot(
    indices: object,
    depth: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    axis: int = -1,
    dtype: DTypeLike = "float32",
    name: str | None = None,
) -> Node:
    """A new axis of size `depth`, the last unless told: on_value at the index, else off_value."""
    node = convert(indices)
    size = int(depth)
    if node.dtype.kind not in "iu":
        raise node.error(f"one_hot: got indices of {node.dtype}, expected integers. Cast them.")
    if unknown(node):
        deferred = late(
            lambda known: one_hot(known, size, on_value, off_value, axis, dtype),
            (node,),
            as_dtype(dtype),
        )
        return rename(deferred, name)
    hot: Node = build(OneHot(size, as_dtype(dtype)), (node,))
    if axis not in (-1, len(node.shape)):
        hot = movement.movedim(hot, -1, axis)
    if (on_value, off_value) != (1.0, 0.0):
        hot = hot * (on_value - off_value) + off_value
    return rename(hot, name)


@locates_errors
def moments(
    x: object, axes: int, name: str | None = None, keep_dims: bool = False
) -> tuple[Node, Node]:
    """Mean and variance over axes."""
    node = convert(x)
    mean = reduce_mean(node, axes, keepdims=True)
    results = (
        mean if keep_dims else reduce_mean(node, axes),
        reduce_mean(rows.square(node - mean), axes, keepdims=keep_dims),
    )
    rename_all(results, name)
    return results


def batch_normalization(
    x: object,
    mean: object,
    variance: object,
    offset: object,
    scale: object,
    variance_epsilon: float,
    name: str | None = None,
) -> Node:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset."""
    factor = rsqrt(convert(variance) + variance_epsilon)
    factor = factor if scale is None else factor * scale
    result = (convert(x) - mean) * factor
    return rename(result if offset is None else result + offset, name)
