"""Attention and embeddings."""

import math
from typing import Any

import numpy as np

from ...arrays.library import as_dtype, float32
from ...errors import ArgumentError, AxisError, DTypeError, ShapeError
from ...op import Kind, Methods, apply
from ..elementwise.binary import where
from ..elementwise.casting import cast_to
from ..elementwise.logic import ne
from ..products.linalg import matmul, mT
from ..random import dropout
from ..shaping.indexing import ARRAY, Take
from ..shaping.movement import insert_axes, reshape
from .normalization import softmax


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
        ShapeError: E differs, or S of key and value.
        ArgumentError: both a mask and `is_causal`.

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
        times = query.shape[-3] // key.shape[-3]
        key, value = _shared_heads(key, times), _shared_heads(value, times)
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            f"scaled_dot_product_attention: got query {tuple(query.shape)}, key "
            f"{tuple(key.shape)}, value {tuple(value.shape)}, expected (..., L, E), (..., S, E), "
            "(..., S, Ev)."
        )
    if attn_mask is not None and is_causal:
        raise ArgumentError("scaled_dot_product_attention: got a mask and is_causal, expected one.")
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = matmul(query * factor, mT(key))
    weights: Kind
    if is_causal:  # each position attends to the first at least
        causal: Any = np.tril(np.ones((query.shape[-2], key.shape[-2]), dtype=bool))
        weights = softmax(where(causal, scores, -math.inf), -1)
    elif attn_mask is not None:
        if str(attn_mask.dtype).endswith("bool"):
            scores = where(attn_mask, scores, -math.inf)
            host = isinstance(attn_mask, np.ndarray)
            some = np.any(attn_mask, -1, keepdims=True) if host else attn_mask.any(-1, True)
            weights = where(some, softmax(scores, -1), 0.0)
        else:
            weights = softmax(scores + attn_mask, -1)
    else:
        weights = softmax(scores, -1)
    return matmul(dropout(weights, dropout_p) if dropout_p else weights, value)


def _shared_heads(x: Kind, times: int) -> Kind:
    *lead, heads, length, size = x.shape
    wide = insert_axes(x, (len(lead) + 1,)).expand(*lead, heads, times, length, size)
    return reshape(wide, (*lead, heads * times, length, size))


def _check_rows(input: Methods, count: Any) -> None:
    """Raise unless the numbers that are known now name rows of a table of `count`."""
    array = getattr(input, "array", None)
    if array is None or count is None or not math.prod(array.shape):
        return
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= count:
        raise AxisError(
            f"embedding: got number {low if low < 0 else high} for a table of {count} rows, "
            f"expected 0 to {count - 1}. Check the vocabulary's size."
        )


def embedding(input: Kind, weight: Kind, padding_idx: int | None = None) -> Kind:
    """Return the rows of `weight` (count, size) that `input` names; `padding_idx` gets no gradient.

    Raises:
        DTypeError: the input is not of integers.
        AxisError: a number below 0, or of no row.
    """
    if as_dtype(input.dtype).kind not in "iu":
        raise DTypeError(f"embedding: got {input.dtype} indices, expected integers. Use .long().")
    if len(weight.shape) != 2:
        raise ShapeError(f"embedding: got weight {tuple(weight.shape)}, expected (count, size).")
    _check_rows(input, weight.shape[0])
    rows = apply(Take((ARRAY,)), weight, input)
    if padding_idx is None:
        return rows
    skipped = padding_idx + weight.shape[0] if padding_idx < 0 else padding_idx
    kept = insert_axes(ne(input, skipped), (len(input.shape),))
    return where(kept, rows, rows.detach() if hasattr(rows, "detach") else rows)
