"""Softmax cross-entropy with class numbers, and its gradient, in a kernel each.

    loss[r]   = log sum_c exp(x[r, c]) - sum_c target[r, c] x[r, c]
    out[r, c] = g[r] (softmax(x[r])[c] - target[r, c])
    target[r, c] = (1 - smoothing) [c is labels[r]] + smoothing / classes

Logits are rows (N, classes), or planes (N, classes, T) with labels (N, T).
NumPy needs a dozen calls for either, of which a small network's training step would mostly consist.

May import: row_kernels, engine; allocator.
"""

from typing import Any

import numpy as np

from ..arrays import allocator
from . import row_kernels
from .engine import available

NONE = -(2**63)  # a label that nobody has, to be ignored
_Array = np.ndarray[Any, Any]


def class_loss(
    labels: _Array, logits: _Array, ignore: int = NONE, smoothing: float = 0.0
) -> tuple[_Array, bool] | None:
    """Return each label's loss, and whether some are ignored; None where a label is no class.

    None too where this kernel does not fit.

    Args:
        labels: integers.
        logits: float32 or float64.
        ignore: a label whose rows have the loss 0.
        smoothing: the part of a target that is spread over all classes.
    """
    if not _fits(labels, logits):
        return None
    flags = np.zeros(2, np.int64)
    losses = np.empty(labels.shape, logits.dtype)
    kind, x, how = _lay_out(logits)
    arrays = (x, _as_int64(labels), flags, losses)
    row_kernels.run(f"{kind}_loss", arrays, smoothing, first=ignore, **how)
    return None if flags[0] else (losses, bool(flags[1]))


def class_gradient(
    g: _Array, labels: _Array, logits: _Array, ignore: int = NONE, smoothing: float = 0.0
) -> _Array | None:
    """Return g (softmax(logits) - target); None where this kernel does not fit.

    A label that is no class changes nothing in its row, as a row of zeros for it would not.

    Args:
        g: one number for each label, or for all; of the logits' dtype.
        labels: integers.
        logits: float32 or float64.
        ignore: a label whose rows are 0.
        smoothing: the part of a target that is spread over all classes.
    """
    if g.shape not in ((), labels.shape) or g.dtype != logits.dtype or not _fits(labels, logits):
        return None
    kind, x, how = _lay_out(logits)
    out = allocator.empty(x.shape, x.dtype)
    if kind == "plane" or (g.ndim > 1 and not g.flags.c_contiguous):
        g = np.ascontiguousarray(np.broadcast_to(g, labels.shape))
    if kind == "class":
        how = {"rows": g.strides[-1] if g.ndim else 0}
    arrays = (x, _as_int64(labels), g, out)
    row_kernels.run(f"{kind}_gradient", arrays, smoothing, first=ignore, **how)
    if out.shape == logits.shape:
        return out
    return out.reshape(*labels.shape, logits.shape[1]).swapaxes(1, 2)


def _fits(labels: _Array, logits: _Array) -> bool:
    shape = logits.shape
    if logits.dtype.char not in "fd" or labels.dtype.kind not in "iu" or not available():
        return False
    return 2 <= len(shape) <= 3 and shape[1] > 0 and labels.shape == shape[:1] + shape[2:]


def _lay_out(logits: _Array) -> tuple[str, _Array, dict[str, int]]:
    """Return the kernel's kind, the logits as it takes them, and their sizes.

    Planes whose classes lie side by side are rows.
    """
    if logits.ndim == 2:
        return "class", np.ascontiguousarray(logits), {}
    rows = logits.swapaxes(1, 2)
    if rows.flags.c_contiguous:
        return "class", rows.reshape(-1, rows.shape[2]), {}
    _, count, columns = logits.shape
    return "plane", np.ascontiguousarray(logits), {"n": count * columns, "rows": columns}


def _as_int64(labels: _Array) -> _Array:
    return np.ascontiguousarray(labels, np.int64)
