"""TensorFlow's `nn`: activations, losses, dropout and layers' arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import GraphError
from ..op import Op
from ..ops import activation, movement
from ..ops import elementwise as rows
from .dynamic import rnn_cell as rnn_cell
from .dynamic.rnn import dynamic_rnn as dynamic_rnn
from .dynamic.rnn import static_rnn as static_rnn
from .lined import lined
from .node import Node, build, convert
from .operators import elementwise, math, random
from .operators.crossentropy import CrossEntropy, LogSoftmax, OneHot, Softmax, SparseCrossEntropy
from .operators.elementwise import sigmoid, tanh
from .operators.images import avg_pool, conv2d, max_pool
from .operators.late import late, unknown
from .operators.scalar import as_scalar
from .state import rename


def _activation(function: Callable[..., Any], name: str, says: str) -> Callable[..., Node]:
    def call(features: Any, name: str | None = None) -> Node:
        return rename(function(convert(features)), name)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = says
    return call


elu = _activation(activation.elu, "elu", "x where positive, e^x - 1 elsewhere.")
relu = _activation(rows.relu, "relu", "max(x, 0).")
relu6 = _activation(activation.relu6, "relu6", "min(max(x, 0), 6).")
selu = _activation(activation.selu, "selu", "ELU scaled to keep mean 0 and variance 1.")
softplus = _activation(activation.softplus, "softplus", "log(1 + e^x).")
softsign = _activation(activation.softsign, "softsign", "x / (1 + |x|).")


def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Node:
    """x where positive, alpha x elsewhere."""
    return rename(activation.leaky_relu(convert(features), alpha), name)


# ── softmax and the losses ──────────────────────────────────────────────────────────────────────


def softmax(logits: Any, axis: int = -1, name: str | None = None, dim: int | None = None) -> Node:
    """e^x over its sum along an axis."""
    return _along(Softmax(), logits, axis if dim is None else dim, name)


def log_softmax(
    logits: Any, axis: int = -1, name: str | None = None, dim: int | None = None
) -> Node:
    """The logarithm of the softmax, without overflow."""
    return _along(LogSoftmax(), logits, axis if dim is None else dim, name)


@lined
def _along(op: Op, logits: Any, axis: int, name: str | None) -> Node:
    """Return `op`, which works on the last axis, along any axis."""
    x = convert(logits)
    if unknown(x):
        return late(lambda known: _along(op, known, axis, None), (x,), x.dtype)
    last = len(x.shape) - 1
    if axis in (-1, last):
        return rename(build(op, (x,)), name)
    return rename(
        movement.transpose(build(op, (movement.transpose(x, axis, last),)), axis, last), name
    )


@lined
def softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    dim: int = -1,
    name: str | None = None,
) -> Node:
    """-sum(labels * log softmax(logits)) over the last axis: one loss a row.

    Raises:
        GraphError: labels and logits were not given by name; their order differed among versions.
    """
    _by_name("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    x = convert(logits)
    y = convert(labels, x.dtype)
    if unknown(x, y):
        loss = softmax_cross_entropy_with_logits
        return late(lambda a, b: loss(labels=a, logits=b, dim=dim), (y, x), x.dtype)
    last = len(x.shape) - 1
    if dim not in (-1, last):
        x, y = movement.transpose(x, dim, last), movement.transpose(y, dim, last)
    return rename(build(CrossEntropy(), (y, x)), name)


softmax_cross_entropy_with_logits_v2 = softmax_cross_entropy_with_logits


@lined
def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Node:
    """-log softmax(logits) at the class of each row, an integer: one loss a row."""
    _by_name("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    y = convert(labels)
    if y.dtype.kind not in "iu":
        raise GraphError(
            f"sparse_softmax_cross_entropy_with_logits: got labels of {y.dtype}, expected integers "
            f"(node {y.name!r} built at {y.location})."
        )
    return rename(build(SparseCrossEntropy(), (y, convert(logits))), name)


@lined
def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Node:
    """Binary cross-entropy of sigmoid(logits), element by element, without overflow."""
    _by_name("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    x = convert(logits)
    z = convert(labels, x.dtype)
    return rename(rows.relu(x) - x * z + elementwise.log1p(elementwise.exp(-rows.abs(x))), name)


def _by_name(where: str, sentinel: Any, labels: Any, logits: Any) -> None:
    if sentinel is not None or labels is None or logits is None:
        raise GraphError(f"{where}: got positional arguments, expected labels=... and logits=....")


def l2_loss(t: Any, name: str | None = None) -> Node:
    """sum(t^2) / 2."""
    return rename(math.reduce_sum(rows.square(convert(t))) / 2, name)


# ── layers' arithmetic ──────────────────────────────────────────────────────────────────────────


@lined
def bias_add(value: Any, bias: Any, name: str | None = None) -> Node:
    """The value plus a bias along its last axis."""
    return rename(convert(value) + convert(bias), name)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Node:
    """x weights + biases."""
    return rename(math.matmul(x, weights) + convert(biases), name)


@lined
def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Node:
    """Each element kept with probability keep_prob, and then divided by it; otherwise 0."""
    if (keep_prob is None) == (rate is None):
        raise GraphError("dropout: got both or neither of keep_prob and rate, expected one.")
    node = convert(x)
    keep = keep_prob if rate is None else 1 - rate
    keep = as_scalar(keep) if isinstance(keep, Node) else keep
    if isinstance(keep, int | float) and not 0 < keep <= 1:
        raise GraphError(f"dropout: got keep_prob {keep}, expected one in (0, 1].")
    if noise_shape is None:
        drawn = random.uniform_like(node, seed)
    else:
        drawn = random.random_uniform(noise_shape, dtype=node.dtype, seed=seed)
    mask = elementwise.floor(drawn + keep)
    return rename(node / keep * mask, name)


@lined
def embedding_lookup(params: Any, ids: Any, name: str | None = None) -> Node:
    """The rows of a table that the ids name."""
    return rename(convert(params)[convert(ids)], name)


def l2_normalize(
    x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None
) -> Node:
    """x over its Euclidean length along an axis."""
    node = convert(x)
    total = math.reduce_sum(rows.square(node), axis if dim is None else dim, keepdims=True)
    return rename(node * elementwise.rsqrt(elementwise.maximum(total, epsilon)), name)


@lined
def moments(x: Any, axes: Any, keep_dims: bool = False) -> tuple[Node, Node]:
    """Mean and variance over axes."""
    node = convert(x)
    mean = math.reduce_mean(node, axes, keepdims=True)
    variance = math.reduce_mean(rows.square(node - mean), axes, keepdims=keep_dims)
    return (mean if keep_dims else math.reduce_mean(node, axes)), variance


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    offset: Any,
    scale: Any,
    variance_epsilon: float,
    name: str | None = None,
) -> Node:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset."""
    factor = elementwise.rsqrt(convert(variance) + variance_epsilon)
    factor = factor if scale is None else factor * scale
    result = (convert(x) - mean) * factor
    return rename(result if offset is None else result + offset, name)


def one_hot(
    indices: Any,
    depth: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    dtype: Any = "float32",
    name: str | None = None,
) -> Node:
    """A new last axis of size `depth`: on_value at the index, off_value elsewhere."""
    from ..arrays import as_dtype

    hot = build(OneHot(depth, as_dtype(dtype)), (convert(indices),))
    if (on_value, off_value) != (1.0, 0.0):
        hot = hot * (on_value - off_value) + off_value
    return rename(hot, name)


__all__ = [
    "avg_pool",
    "batch_normalization",
    "bias_add",
    "conv2d",
    "dropout",
    "elu",
    "embedding_lookup",
    "l2_loss",
    "l2_normalize",
    "leaky_relu",
    "log_softmax",
    "max_pool",
    "moments",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "sigmoid_cross_entropy_with_logits",
    "softmax",
    "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2",
    "softplus",
    "softsign",
    "sparse_softmax_cross_entropy_with_logits",
    "tanh",
    "xw_plus_b",
]
