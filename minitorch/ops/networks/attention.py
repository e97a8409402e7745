"""Attention and embeddings."""

import math
import numbers
from typing import Any

import numpy as np

from ...arrays.allocator import empty_as
from ...arrays.generator import default_generator
from ...arrays.library import (
    CPU,
    Array,
    Namespace,
    as_dtype,
    asarray,
    device_of,
    float32,
    int64,
)
from ...errors import ArgumentError, AxisError, DTypeError, ShapeError
from ...op import Kind, Methods, Op, Spec, Value, apply
from ..elementwise import compiled
from ..elementwise.binary import where
from ..elementwise.casting import cast_to
from ..elementwise.logic import ne
from ..products.linalg import matmul, mT
from ..random import dropout
from ..reducing.reduction import amax, sum
from ..shaping.adding import find_outside
from ..shaping.broadcasting import sum_to
from ..shaping.indexing import ARRAY, Take
from ..shaping.movement import insert_axes, reshape
from ..unknown_sizes import defer_unknown_sizes
from .attention_panels import LONG, Weighing, all_dropout_factors, attend, gradients
from .softmax import SoftmaxGradient, softmax

FEW_NUMBERS = 2**14  # of a matrix of keys, up to which one query's kernel is faster than BLAS


@defer_unknown_sizes
def scaled_dot_product_attention(
    query: Kind,
    key: Kind,
    value: Kind,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Kind:
    """Return softmax(Q Kᵀ · scale + mask) V over the last two axes.

    Args:
        query: (..., L, E).
        key: (..., S, E).
        value: (..., S, Ev).
        attn_mask: broadcasts to (..., L, S): True where attention goes, or numbers to add.
        dropout_p: probability with which a weight is dropped.
        is_causal: position i attends to positions up to i only.
        scale: 1/√E unless given.
        enable_gqa: groups of query heads share the heads of key and value.

    Raises:
        ShapeError: fewer than two axes; E differs, or S of key and value.
        ArgumentError: both a mask and `is_causal`, `dropout_p` is not a probability, or `scale`
            no number.
        DTypeError: the mask is neither of bools nor of floats.

    Source: Vaswani et al., arXiv:1706.03762, 2017, section 3.2.1.
    """
    dtype = as_dtype(query.dtype)
    if dtype.itemsize == 2:  # scores are kept in float32, as in torch's fused kernel
        q, k, v = (cast_to(x, float32) for x in (query, key, value))
        mixed = scaled_dot_product_attention(
            q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        return cast_to(mixed, dtype)
    if enable_gqa:
        return _attend_in_groups(query, key, value, attn_mask, dropout_p, is_causal, scale)
    _check(query, key, value, attn_mask, dropout_p, is_causal, scale)
    rows, keys = query.shape, key.shape
    factor = 1.0 / math.sqrt(rows[-1]) if scale is None else scale
    masks = () if attn_mask is None else (attn_mask,)
    at_once = not dropout_p or (dropout_p < 1 and max(rows[-2] or 0, keys[-2] or 0) >= LONG)
    at_once = at_once and _on_host(query, key, value, *masks)
    is_fixed = isinstance(factor, numbers.Real)  # and no node, which another run may change
    if at_once or (is_fixed and _is_one_node(query, key, value, attn_mask, dropout_p)):
        seed = int(default_generator().integers(0, 2**62, (), int64)) if dropout_p else 0
        op = Attention(factor, is_causal, dropout_p, seed)
        return apply(op, query, key, value, *masks)
    weights = _weights(query, key, attn_mask, factor, is_causal)
    result: Kind = matmul(dropout(weights, dropout_p) if dropout_p else weights, value)
    return result


def _check(
    query: Kind, key: Kind, value: Kind, mask: Any, p: float, causal: bool, scale: Any
) -> None:
    """Raise what `scaled_dot_product_attention` says of its arguments."""
    rows, keys, values = query.shape, key.shape, value.shape
    if min(map(len, (rows, keys, values))) < 2 or rows[-1] != keys[-1] or keys[-2] != values[-2]:
        raise ShapeError(
            f"scaled_dot_product_attention: got query {tuple(rows)}, key {tuple(keys)}, value "
            f"{tuple(values)}, expected (..., L, E), (..., S, E), (..., S, Ev)."
        )
    if mask is not None and causal:
        raise ArgumentError("scaled_dot_product_attention: got a mask and is_causal, expected one.")
    if mask is not None and as_dtype(mask.dtype).kind not in "bf":
        raise DTypeError(
            f"scaled_dot_product_attention: got a mask of {mask.dtype}, expected bools (True "
            "where attention goes) or floats to add. Compare first: mask == 1."
        )
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(
            f"scaled_dot_product_attention: got dropout_p = {p}, expected a probability, 0 to 1."
        )
    if not (isinstance(scale, numbers.Real | None) or hasattr(scale, "dtype")):
        raise ArgumentError(
            f"scaled_dot_product_attention: got scale = {scale!r}, expected a number or None."
        )


def _attend_in_groups(query: Kind, key: Kind, value: Kind, mask: Any, *options: Any) -> Kind:
    """Return attention where groups of query heads share a head of key and value."""
    *lead, heads, length, size = query.shape
    shared = key.shape[-3]
    if heads % shared or value.shape[-3] != shared:
        raise ShapeError(
            f"scaled_dot_product_attention: got {heads} heads of the query, {shared} of the key "
            f"and {value.shape[-3]} of the value, expected the last two equal, and a multiple."
        )
    q = reshape(query, (*lead, shared, heads // shared, length, size))
    k, v = (insert_axes(x, (len(x.shape) - 2,)) for x in (key, value))
    if mask is not None and len(mask.shape) > 2:
        *front, count, rows, columns = mask.shape
        split = (shared, heads // shared) if count == heads else (1, 1)
        mask = mask.reshape((*front, *split, rows, columns))
    mixed = scaled_dot_product_attention(q, k, v, mask, *options)
    return reshape(mixed, (*lead, heads, length, value.shape[-1]))


def _on_host(*values: Any) -> bool:
    """Tell whether these are NumPy's arrays, of one floating dtype but for a mask of bools."""
    arrays = [getattr(value, "array", value) for value in values]
    for a in arrays:
        if type(a) is not np.ndarray or not a.size:
            return False
    dtype = arrays[0].dtype
    if dtype.char not in "fd" or arrays[1].dtype is not dtype or arrays[2].dtype is not dtype:
        return False
    return len(values) == 3 or not getattr(values[3], "requires_grad", False)


def _is_one_node(query: Any, key: Any, value: Any, mask: Any, p: float) -> bool:
    """Tell whether one node of a graph attends: where that is faster than operator by operator.

    Sizes are known, and query, key and value have the same.
    """
    if not isinstance(query, Value) or getattr(query, "array", None) is not None:
        return False
    shape, dtype = tuple(query.shape), as_dtype(query.dtype)
    alike = all(tuple(x.shape) == shape and as_dtype(x.dtype) == dtype for x in (key, value))
    if mask is not None or p or not alike or dtype.char not in "fd" or None in shape:
        return False
    device = getattr(query, "device", None)
    return (device is None or device == CPU) and (shape[-2] >= LONG or compiled.attends(dtype))


def _weights(query: Any, key: Any, mask: Any, factor: float, causal: bool) -> Any:
    """Return the softmax of the scores, operator by operator."""
    scores = matmul(query * factor, mT(key))
    if causal:  # each position attends to the first at least
        seen: Any = np.tril(np.ones((query.shape[-2], key.shape[-2]), dtype=bool))
        if not isinstance(query, Value):  # an array, perhaps on a device
            seen = asarray(seen, None, device_of(query))
        return softmax(where(seen, scores, -math.inf), -1)
    if mask is None:
        return softmax(scores, -1)
    hides = str(mask.dtype).endswith("bool")
    scores = where(mask, scores, -math.inf) if hides else scores + mask
    nothing = amax(scores, -1, True) == -math.inf  # a row that sees nothing
    return where(nothing, 0.0, softmax(where(nothing, 0.0, scores), -1))


class Attention(Op):
    """softmax(scale · Q Kᵀ + mask) V on NumPy arrays, a panel of it at a time; see there.

    Inputs are query, key, value, and perhaps a mask, which gets no gradient.
    """

    on_arrays = True
    reads_output = False
    name = "scaled_dot_product_attention"

    def __init__(self, scale: float, causal: bool, p: float, seed: int) -> None:
        self.scale, self.causal, self.p, self.seed = scale, causal, p, seed

    def _how(self, masks: Any) -> Weighing:
        mask = masks[0] if masks else None
        return Weighing(self.scale, self.causal, mask, self.p, self.seed)

    def infer(self, *specs: Spec) -> Spec:
        query, key, value = specs[:3]
        if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
            return super().infer(*specs)
        return Spec((*query.shape[:-1], value.shape[-1]), query.dtype)

    def compute(self, xp: Namespace, q: Array, k: Array, v: Array, *masks: Array) -> Array:
        if xp is not np or not q.size:
            mask = masks[0] if masks else None
            attended: Array = matmul(_weights(q, k, mask, self.scale, self.causal), v)
            return attended
        if q.shape[-2] == 1 and not (masks or self.causal or self.p) and _fits_kernel(q, k, v):
            q, out = np.ascontiguousarray(q), np.empty(q.shape, q.dtype)
            arrays = (q, k, v, np.empty(k.shape[:-1], k.dtype), out)
            sizes = {"rows": k.shape[-2], "first": k.strides[-3] // k.itemsize}
            compiled.run_rows("attention_of_one", arrays, self.scale, **sizes)
            return out
        return attend(q, k, v, self._how(masks))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Return the gradients panel by panel; where they are recorded, operator by operator."""
        q, k, v, *masks = node.inputs
        rest = (None,) * len(masks)
        if type(out_grad) is np.ndarray:
            by_inputs: Any = gradients(out_grad, q, k, v, self._how(masks))
            return (*(sum_to(d, x) for d, x in zip(by_inputs, (q, k, v), strict=True)), *rest)
        if _is_one_node(q, k, v, masks[0] if masks else None, self.p):
            by_all = apply(AttentionGradients(self.scale, self.causal), out_grad, q, k, v)
            return by_all[0], by_all[1], by_all[2]
        weights = _weights(q, k, masks[0] if masks else None, self.scale, self.causal)
        d_weights = matmul(out_grad, mT(v))
        used = weights
        if self.p:
            dropout = all_dropout_factors(weights.array, self._how(()))
            used, d_weights = weights * dropout, d_weights * dropout
        d_scores = _by_scores(d_weights, weights) * self.scale
        shares = matmul(d_scores, k), matmul(mT(d_scores), q), matmul(mT(used), out_grad)
        return (*(sum_to(d, x) for d, x in zip(shares, (q, k, v), strict=True)), *rest)


class AttentionGradients(Op):
    """The gradients by query, key and value, which have one shape: (3, ..., L, E), as one array.

    Inputs are the gradient of the result, query, key and value.
    """

    reads_output = False
    name = "attention_gradients"

    def __init__(self, scale: float, causal: bool) -> None:
        self.scale, self.causal = scale, causal

    def infer(self, *specs: Spec) -> Spec:
        return Spec((3, *specs[1].shape), specs[1].dtype)

    def compute(self, xp: Namespace, g: Array, q: Array, k: Array, v: Array) -> Array:
        if xp is np and q.size:
            stack = _stack(q, k, v)
            shares = empty_as(stack, stack.shape)
            gradients(g, q, k, v, Weighing(self.scale, self.causal), tuple(shares))
            return shares
        weights, _, d_scores = self._scores(g, q, k, v)
        by_inputs = matmul(d_scores, k), matmul(mT(d_scores), q), matmul(mT(weights), g)
        stacked: Array = xp.stack(by_inputs)
        return stacked

    def _scores(self, g: Any, q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
        """Return the weights, their gradients, and those of the products of queries and keys."""
        weights, d_weights = _weights(q, k, None, self.scale, self.causal), matmul(g, mT(v))
        return weights, d_weights, _by_scores(d_weights, weights) * self.scale

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Differentiate the products and the softmax's gradient, operator by operator."""
        g, q, k, v = node.inputs
        by_dq, by_dk, by_dv = out_grad[0], out_grad[1], out_grad[2]
        weights, d_weights, d_scores = self._scores(g, q, k, v)
        by_d_scores = (matmul(by_dq, mT(k)) + matmul(q, mT(by_dk))) * self.scale
        by_d_weights = _by_scores(by_d_scores, weights)
        along = sum(d_weights * weights, -1, True), sum(by_d_scores * weights, -1, True)
        by_weights = by_d_scores * (d_weights - along[0]) - d_weights * along[1]
        by_scores = _by_scores(by_weights + matmul(g, mT(by_dv)), weights) * self.scale
        return (
            matmul(weights, by_dv) + matmul(by_d_weights, v),
            matmul(d_scores, by_dk) + matmul(by_scores, k),
            matmul(mT(d_scores), by_dq) + matmul(mT(by_scores), q),
            matmul(mT(by_d_weights), g),
        )


def _stack(*arrays: Array) -> Array:
    """Return arrays of one shape as one, to see how they lie; its numbers must not be read.

    Slices of one array, as three parts of a linear layer's result, lie inside of each other.
    """
    first, *others = arrays
    place, *places = (array.__array_interface__["data"][0] for array in arrays)
    apart = places[0] - place
    in_turn = places == [place + apart * (1 + i) for i in range(len(others))]
    if apart <= 0 or not in_turn or any(array.strides != first.strides for array in others):
        apart = 2**62  # further than anything
    shape, strides = (len(arrays), *first.shape), (apart, *first.strides)
    stack: Array = np.lib.stride_tricks.as_strided(first, shape, strides)
    return stack


def _by_scores(by_weights: Any, weights: Any) -> Any:
    """Return the gradient of a softmax along the last axis."""
    return apply(SoftmaxGradient(len(weights.shape) - 1), by_weights, weights)


def _fits_kernel(q: Array, k: Array, v: Array) -> bool:
    """Tell whether the kernel of one query a matrix reads these: keys and values lie alike.

    Each of their matrices is in rows, and all are one distance apart.
    """
    shape, strides = k.shape, k.strides
    if len(shape) != 4 or shape != v.shape or strides != v.strides or q.shape[:2] != shape[:2]:
        return False
    count, heads, keys, size = shape
    outer, apart, *inner = strides
    in_rows = inner == [size * k.itemsize, k.itemsize] and (count == 1 or outer == heads * apart)
    return in_rows and keys * size <= FEW_NUMBERS and compiled.compiles(k.dtype)


def _check_rows(input: Methods, count: Any) -> None:
    """Raise unless the numbers that are known now name rows of a table of `count`."""
    array = getattr(input, "array", None)
    if array is None or count is None or (number := find_outside(array, count)) is None:
        return
    raise AxisError(
        f"embedding: got number {number} for a table of {count} rows, expected 0 to {count - 1}. "
        "Check the vocabulary's size."
    )


def embedding(input: Kind, weight: Kind, padding_idx: int | None = None) -> Kind:
    """Return the rows of `weight` (count, size) that `input` names; `padding_idx` gets no gradient.

    Raises:
        DTypeError: the input is not of integers.
        AxisError: a number below 0, or of no row.
    """
    got = getattr(input, "dtype", type(input).__name__)
    if not hasattr(input, "dtype") or as_dtype(got).kind not in "iu":
        raise DTypeError(f"embedding: got {got} indices, expected a tensor of integers.")
    if len(weight.shape) != 2:
        raise ShapeError(f"embedding: got weight {tuple(weight.shape)}, expected (count, size).")
    _check_rows(input, weight.shape[0])
    rows = apply(Take((ARRAY,)), weight, input)
    if padding_idx is None:
        return rows
    skipped = padding_idx + weight.shape[0] if padding_idx < 0 else padding_idx
    has_gradient = insert_axes(ne(input, skipped), (len(input.shape),))
    return where(has_gradient, rows, rows.detach() if hasattr(rows, "detach") else rows)
