"""Gradients of images whose windows move by a stride: its phases are convolutions of one frame.

An element at `phase` beyond a multiple of the stride meets the kernel's elements phase, phase +
stride, ...: so each phase of the image is a convolution of the result with some of the kernel. The
windows of all phases begin at the same places of the result, which is given a border once; where
the phases are done they are woven into an image.

May import: allocator, convolutions, depthwise, layouts; engine.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from ...arrays import allocator
from .. import engine
from .convolutions import KINDS, LEAST, LEAST_APART, Windows
from .depthwise import Depthwise, depthwise_of
from .layouts import Layout

_Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


class Strided:
    """The gradients of images of one shape.

    Args:
        image: (N, C, height, width).
        result: (N, O, places).
        kernel: sizes of a window.
        stride, padding: a number an axis.
        groups: channels are convolved in so many groups.
        dtype: float32 or float64.
    """

    def __init__(
        self, image: Sizes, result: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes,
        groups: int, dtype: str,
    ) -> None:  # fmt: skip
        self.stride, self.groups = stride, groups
        self.reach = tuple(-(-k // s) for k, s in zip(kernel, stride, strict=True))
        begin = [p // s for p, s in zip(padding, stride, strict=True)]
        sizes = zip(image[2:], padding, stride, begin, strict=True)
        places = tuple((n - 1 + p) // s + 1 - b for n, p, s, b in sizes)
        border = tuple(r - 1 - b for r, b in zip(self.reach, begin, strict=True))
        ones, planes = (1, 1), math.prod(stride)
        self.frame = Windows(
            result, image[1], self.reach, places, ones, border, ones, groups, dtype, planes=planes
        )
        size = (places[0], self.frame.line)
        rest = tuple(p % s for p, s in zip(padding, stride, strict=True))
        phases = [range(s) for s in stride]
        self.layout = Layout(image, phases, size, stride, rest, self.frame.last, dtype)

    def back(self, y: _Array, w: _Array) -> _Array:
        """Return the image (N, C, height, width) for a result and kernels (O, C/G, ...)."""
        frame, (down, along) = self.frame, self.stride
        turned = w.reshape(self.groups, -1, *w.shape[1:]).swapaxes(1, 2)
        turned = turned.reshape(-1, turned.shape[2], *w.shape[2:])
        memory, out = frame.padded(y), allocator.empty((math.prod(self.layout.shape),), y.dtype)
        plane = math.prod(self.layout.shape[4:])
        start = np.zeros(len(turned), y.dtype)
        offsets = frame.offsets.reshape(-1, *self.reach)
        for n, (i, j) in enumerate(itertools.product(range(down), range(along))):
            part = turned[:, :, i::down, j::along][:, :, ::-1, ::-1]
            high, wide = part.shape[2:]
            begins = offsets[:, self.reach[0] - high :, self.reach[1] - wide :].reshape(-1)
            kernels = np.ascontiguousarray(part).reshape(len(turned), -1)
            frame.run(memory, kernels, start, out[n * plane :], np.ascontiguousarray(begins))
        return self.layout.undo(out)


def images_for(y: Any, w: Any, image: Sizes, how: Any) -> Strided | Depthwise | None:
    """Return what gives images (N, C, height, width), where kernels are the faster way.

    Args:
        y, w: a result (N, O, places) and kernels (O, C/G, ...).
        how: has stride, padding, dilation and groups; can be hashed.
    """
    if y.ndim != 4 or type(y) is not np.ndarray or y.dtype is not w.dtype:
        return None
    if y.dtype.char not in KINDS or not engine.available():
        return None
    return _chosen(image, y.shape, w.shape, how, y.dtype)


@functools.lru_cache(256)
def _chosen(
    image: Sizes, result: Sizes, kernels: Sizes, how: Any, dtype: Any
) -> Strided | Depthwise | None:
    if how.groups == image[1] == result[1]:
        planes = depthwise_of(image, kernels[2:], result[2:], how, dtype.name)
        if planes is not None:
            return planes
    least = LEAST if how.groups == 1 else LEAST_APART
    worth = result[0] * math.prod(result[2:]) * math.prod(kernels) >= least and min(image) > 0
    if how.dilation != (1, 1) or how.stride == (1, 1) or not worth:
        return None
    return Strided(image, result, kernels[2:], how.stride, how.padding, how.groups, dtype.name)
