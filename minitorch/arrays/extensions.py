"""What the array API standard leaves out: views of windows."""

from typing import Any

import numpy as np

from .library import Array, namespace


def windows(
    x: Array,
    dims: tuple[int, ...],
    sizes: tuple[int, ...],
    steps: tuple[int, ...],
    spread: tuple[int, ...],
) -> Array:
    """Return a view of the windows of `x` along the axes `dims`: their places stay on those axes.

    Args:
        x: any shape.
        dims: axes along which windows slide.
        sizes: elements of a window along each; these become new last axes.
        steps: distance between windows along each.
        spread: distance between elements of a window along each (dilation).
    """
    host = isinstance(x, np.ndarray)
    unit = x.itemsize if host else 1
    native: Any = x
    strides = [s // unit for s in x.strides] if host else list(native.stride())
    shape, jumps = list(x.shape), list(strides)
    for d, size, step, gap in zip(dims, sizes, steps, spread, strict=True):
        shape[d] = (x.shape[d] - gap * (size - 1) - 1) // step + 1
        jumps[d] = strides[d] * step
        shape.append(size)
        jumps.append(strides[d] * gap)
    if host:
        view = np.lib.stride_tricks.as_strided
        return view(x, shape, [j * unit for j in jumps], writeable=False)
    return namespace(x).as_strided(x, shape, jumps, native.storage_offset())
