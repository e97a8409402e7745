"""An image as a convolution's kernel reads it: padded, and its windows side by side.

With a stride of s the padded image is cut into s by s phases, each of every s-th row and column, so
that the places of one row of the result always lie side by side, whatever the stride. Many samples
lie last, and are then part of a row.

May import: tasks, register_block.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from .tasks import MANY, Task

_Array = np.ndarray[Any, Any]


class Image:
    """How the image of one task lies, with the tables that say where windows are.

    Attributes:
        addresses: of the slots (three numbers a vector of places) and the offsets (one a term).
    """

    def __init__(self, task: Task, lanes: int) -> None:
        count, c, h, w, o, kh, kw, s, padding = task.sizes
        rows, columns = -(-(h + 2 * padding) // s), -(-(w + 2 * padding) // s)
        self.task, self.lanes = task, lanes
        self.last = task.samples_last
        batch, outer = (count, 1) if self.last else (1, count)
        self.shape = (outer, c, s, s, rows, columns, batch)
        height, width = task.places[0], task.lines[1]
        self.as_it_is = s == 1 and padding == 0 and width % lanes == 0
        columns *= batch
        plane, item = rows * columns, task.item_bytes
        at, y, x = np.ix_(np.arange(outer), np.arange(height), np.arange(0, width, lanes))
        slots = np.stack(
            np.broadcast_arrays(
                (at * c * s * s * plane + y * columns + x) * item,
                (at * o * height * width + y * width + x) * item,
                np.minimum(lanes, width - x),
            ),
            axis=-1,
        )
        channel, i, j = np.ix_(np.arange(c), np.arange(kh), np.arange(kw))
        phase = (channel * s + i % s) * s + j % s
        offsets = (phase * plane + i // s * columns + j // s * batch) * item
        self._tables = [np.ascontiguousarray(t, np.int64) for t in (slots, offsets)]
        self.addresses = tuple(t.ctypes.data for t in self._tables)
        self._local = threading.local()

    def laid_out(self, x: _Array) -> _Array:
        """Return an image in the order in which it is read; the same memory where it is so."""
        if self.as_it_is and (np.moveaxis(x, 0, -1) if self.last else x).flags.c_contiguous:
            return x
        phases: _Array | None = getattr(self._local, "phases", None)
        if phases is None:
            size = int(np.prod(self.shape))
            memory = np.zeros(size + self.lanes, x.dtype)  # the last vector may reach over the end
            phases = self._local.phases = memory[:size].reshape(self.shape)
        s, padding = self.task.sizes[7:]
        image = np.moveaxis(phases[0], -1, 0) if self.last else phases[..., 0]
        for i in range(s):
            for j in range(s):
                to, source = zip(
                    *(_phase(n, p, s, padding) for n, p in zip(x.shape[2:], (i, j), strict=True)),
                    strict=True,
                )
                image[(slice(None), slice(None), i, j, *to)] = x[(..., *source)]
        return phases


def _phase(size: int, phase: int, stride: int, padding: int) -> tuple[slice, slice]:
    """Return where an axis of the image goes in its phase, and which of its elements do."""
    first = max(0, -(-(padding - phase) // stride))
    start = first * stride + phase - padding
    count = len(range(start, size, stride))
    return slice(first, first + count), slice(start, None, stride)


def windows_of(x: _Array, kernel: Sequence[int], stride: int, padding: int) -> _Array:
    """Return the windows of images as a view (n, c, places, kernel)."""
    n, c, h, w = x.shape
    height, width = h + 2 * padding, w + 2 * padding
    if n >= MANY:
        wide = np.moveaxis(np.zeros((c, height, width, n), x.dtype), -1, 0)
    else:
        wide = np.zeros((n, c, height, width), x.dtype)
    wide[:, :, padding : padding + h, padding : padding + w] = x
    view = np.lib.stride_tricks.sliding_window_view(wide, tuple(kernel), axis=(2, 3))
    return view[:, :, ::stride, ::stride]


def convolved(task: Task, x: _Array, weights: _Array) -> _Array:
    """Return what NumPy's BLAS computes from an image's windows; many samples lie last."""
    last, o = task.samples_last, len(weights)
    windows = windows_of(x, weights.shape[2:], *task.sizes[7:])
    windows = windows.transpose((1, 4, 5, 2, 3, 0) if last else (1, 4, 5, 0, 2, 3))
    y = weights.reshape(o, -1) @ windows.reshape(weights[0].size, -1)
    if last:
        return np.moveaxis(y.reshape(o, *task.places, len(x)), -1, 0)
    return y.reshape(o, len(x), *task.places).transpose(1, 0, 2, 3)
