"""Max pooling: the largest element of each window, or its number there, and what it gives back.

Windows are read as those of depthwise convolutions are. Of equal elements the first counts, of NaN,
which are larger than any number, the last, as in PyTorch.

May import: convolutions, depthwise, lines, window_loops; engine, kernels, text.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import engine
from ..kernels import run
from ..text import KERNEL
from .convolutions import are_served
from .depthwise import LEAST, MOST_STRIDE, MOST_TERMS, Depthwise
from .lines import Head, describe, empty_images, move_samples, put_in_order
from .window_loops import Shape, Sizes, back_kernel, fold_windows

_Array = np.ndarray[Any, Any]
GRAIN = 2**16  # numbers of images, of which a thread should read a multiple


class MaxWindows(Depthwise):
    """The largest elements of windows of images of one shape."""

    def largest(self, x: _Array) -> _Array:
        """Return the largest element of each window."""
        return self._fold(x, False)

    def spread(self, x: _Array, g: _Array) -> _Array:
        """Return images with what each window of `x` has in `g` added at its largest element."""
        x, batch = put_in_order(x)
        if batch != put_in_order(g)[1]:
            g = move_samples(g, batch)
        g, _ = put_in_order(g)
        numbers_in_windows = self._fold(x, True)
        out = empty_images(self.image, x.dtype, batch)
        sizes, shape = self._phases(batch)
        planes = (g, numbers_in_windows, out)
        numbers = (n for plane in planes for n in describe(plane, batch))
        self._run(back_kernel(shape, True), (*planes, self.zeros), (*numbers, *sizes))
        return out

    def _fold(self, x: _Array, is_number: bool) -> _Array:
        x, batch = put_in_order(x)
        out = empty_images((*self.image[:2], *self.places), x.dtype, batch)
        segments, shape = self._segments(batch)
        numbers = (*describe(x, batch), *describe(out, batch), *segments)
        self._run(_largest(shape, is_number), (x, out, self.zeros), numbers)
        return out

    def _run(self, kernel: engine.Function, arrays: Sequence[_Array], numbers: Sizes) -> None:
        grain = -(-GRAIN * self.image[1] // math.prod(self.image))
        run(kernel, arrays, numbers, self.image[1], grain)


@functools.cache
def _largest(shape: Shape, is_number: bool) -> engine.Function:
    """Return the kernel of each window's largest element, or of its number in the window."""
    head = Head(shape.dtype, shape.lanes, 2, (0, 1), 6)
    t = head.t

    def larger(total: tuple[str, str], vector: str, cell: Sizes) -> tuple[str, str]:
        most, number = total
        above, is_nan = t.compare("ogt", vector, most), t.compare("uno", vector, vector)
        wins = t.logic("or", above, is_nan)
        here = t.number(cell[0] * shape.size[1] + cell[1])
        return t.either(wins, vector, most), t.either(wins, here, number)

    start = t.number(-math.inf), t.number(0.0)
    with t.loop("c", "%hi", start="%lo") as c:
        fold_windows(head, shape, c, start, larger, lambda total: total[is_number])
    return engine.Function(t.module(KERNEL))


def max_windows(
    x: _Array, kernel: Sizes, stride: Sizes, places: Sizes, *others: _Array
) -> MaxWindows | None:
    """Return the kernels of windows of images (N, C, height, width); None where NumPy serves.

    Args:
        others: arrays that have the images' dtype where there are kernels.
    """
    if not all(are_served(x, other) for other in (x, *others)):
        return None
    return _choose(x.shape, kernel, stride, places, x.dtype.name)


@functools.lru_cache(256)
def _choose(
    image: Sizes, kernel: Sizes, stride: Sizes, places: Sizes, dtype: str
) -> MaxWindows | None:
    terms = math.prod(kernel)
    if terms > MOST_TERMS or max(stride) > MOST_STRIDE or min(image) < 1:
        return None
    if math.prod(image[:2]) * math.prod(places) * terms < LEAST:
        return None
    return MaxWindows(image, kernel, places, stride, (0, 0), (1, 1), dtype)
