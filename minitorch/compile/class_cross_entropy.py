"""Softmax cross-entropy with class numbers, and its gradient, row by row in a kernel each.

    loss[r]   = log sum_c exp(x[r, c]) - sum_c target[r, c] x[r, c]
    out[r, c] = g[r] (softmax(x[r])[c] - target[r, c])
    target[r, c] = (1 - smoothing) [c is labels[r]] + smoothing / classes

NumPy needs a dozen calls for either, of which a small network's training step would mostly consist.

May import: row_kernels, engine; allocator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import allocator
from . import row_kernels
from .engine import available

NONE = -(2**63)  # a label that nobody has, to be ignored
_Array = np.ndarray[Any, Any]


def class_loss(
    labels_N: _Array, logits_NC: _Array, ignore: int = NONE, smoothing: float = 0.0
) -> tuple[_Array, bool] | None:
    """Return each row's loss, and whether some are ignored; None where a label is no class.

    None too where this kernel does not fit.

    Args:
        labels_N: integers.
        logits_NC: float32 or float64.
        ignore: a label whose rows have the loss 0.
        smoothing: the part of a target that is spread over all classes.
    """
    if not _fits(labels_N, logits_NC):
        return None
    flags = np.zeros(2, np.int64)
    losses = np.empty(logits_NC.shape[:1], logits_NC.dtype)
    arrays = (np.ascontiguousarray(logits_NC), _as_int64(labels_N), flags, losses)
    row_kernels.run("class_loss", arrays, smoothing, first=ignore)
    return None if flags[0] else (losses, bool(flags[1]))


def class_gradient(
    g_N: _Array, labels_N: _Array, logits_NC: _Array, ignore: int = NONE, smoothing: float = 0.0
) -> _Array | None:
    """Return g (softmax(logits) - target); None where this kernel does not fit.

    A label that is no class changes nothing in its row, as a row of zeros for it would not.

    Args:
        g_N: of the logits' dtype, or one number for all rows.
        labels_N: integers.
        logits_NC: float32 or float64.
        ignore: a label whose rows are 0.
        smoothing: the part of a target that is spread over all classes.
    """
    if g_N.shape not in ((), labels_N.shape) or g_N.dtype != logits_NC.dtype:
        return None
    if not _fits(labels_N, logits_NC):
        return None
    out = allocator.empty(logits_NC.shape, logits_NC.dtype)
    arrays = (np.ascontiguousarray(logits_NC), _as_int64(labels_N), g_N, out)
    row_kernels.run("class_gradient", arrays, smoothing, rows=sum(g_N.strides), first=ignore)
    return out


def _fits(labels: _Array, logits: _Array) -> bool:
    known = logits.dtype.char in "fd" and labels.dtype.kind in "iu" and available()
    return known and logits.ndim == 2 and logits.shape[1] > 0 and labels.shape == logits.shape[:1]


def _as_int64(labels: _Array) -> _Array:
    return np.ascontiguousarray(labels, np.int64)
