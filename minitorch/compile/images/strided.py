"""Gradients of images whose windows move by a stride: its phases are convolutions of one frame.

A phase is every `stride`-th element of an image, and meets every `stride`-th of the kernel: so each
is a convolution of the result with some of the kernel. All phases read the same copy of the result,
which is given a border once; where the phases are done they are woven into an image.

May import: allocator, convolutions, depthwise, layouts.
"""

import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from ...arrays import allocator
from .convolutions import LEAST, LEAST_APART, Windows, are_served
from .depthwise import Depthwise, depthwise_of
from .layouts import Layout

_Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


class _Phase(NamedTuple):
    """Every `stride`-th element of an image along an axis.

    Attributes:
        first: the first of the kernel's elements that it meets, each `stride`-th.
        met: where the results that they share in lie, counted from the phase's own place.
    """

    first: int
    met: slice


def _phase(at: int, size: int, stride: int, padding: int) -> _Phase:
    """Return the phase that begins at element `at` of an image."""
    away, first = divmod(at + padding, stride)
    end = -(-size // stride) + away - padding // stride
    return _Phase(first, slice(end - len(range(first, size, stride)), end))


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
        axes = list(zip(kernel, stride, padding, strict=True))
        self.phases = [[_phase(at, *axis) for at in range(axis[1])] for axis in axes]
        self.reach = tuple(max(phase.met.stop for phase in phases) for phases in self.phases)
        border = tuple(-(-k // s) - 1 - p // s for k, s, p in axes)
        places = tuple(-(-n // s) for n, s in zip(image[2:], stride, strict=True))
        ones, planes = (1, 1), math.prod(stride)
        self.frame = Windows(
            result, image[1], self.reach, places, ones, border, ones, groups, dtype, planes=planes
        )
        size, whole = (places[0], self.frame.line), [range(s) for s in stride]
        self.layout = Layout(image, whole, size, stride, (0, 0), self.frame.last, dtype)

    def back(self, y: _Array, w: _Array) -> _Array:
        """Return the image (N, C, height, width) for a result and kernels (O, C/G, ...)."""
        frame, (down, along) = self.frame, self.stride
        turned = w.reshape(self.groups, -1, *w.shape[1:]).transpose(0, 2, 3, 4, 1)
        turned = turned.reshape(-1, *turned.shape[2:])
        memory, out = frame.padded(y), allocator.empty((math.prod(self.layout.shape),), y.dtype)
        plane = math.prod(self.layout.shape[4:])
        start = np.zeros(len(turned), y.dtype)
        offsets = frame.offsets.reshape(-1, *self.reach).transpose(1, 2, 0)
        for n, (rows, columns) in enumerate(itertools.product(*self.phases)):
            part = turned[:, rows.first :: down, columns.first :: along][:, ::-1, ::-1]
            begins = np.ascontiguousarray(offsets[rows.met, columns.met]).reshape(-1)
            kernels = np.ascontiguousarray(part).reshape(len(turned), -1)
            frame.run(memory, kernels, start, out[n * plane :], begins)
        return self.layout.undo(out)


def images_for(y: Any, w: Any, image: Sizes, how: Any) -> Strided | Depthwise | None:
    """Return what gives images (N, C, height, width), where kernels are the faster way.

    Args:
        y, w: a result (N, O, places) and kernels (O, C/G, ...).
        how: has stride, padding, dilation and groups; can be hashed.
    """
    return _choose(image, y.shape, w.shape, how, y.dtype) if are_served(y, w) else None


@functools.lru_cache(256)
def _choose(
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
