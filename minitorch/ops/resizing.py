"""Images made larger by repeating elements, or with channels rearranged into pixels."""

import math
from typing import Any

import numpy as np

from ..errors import ArgumentError, ShapeError
from ..op import Kind
from .conv import each
from .indexing import getitem
from .movement import permute, reshape


def interpolate(
    input: Kind,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: bool = False,
) -> Kind:
    """Return (N, C, ...) made larger or smaller by repeating or leaving out elements.

    Raises:
        ArgumentError: a mode other than "nearest" and "nearest-exact", or neither or both of
            `size` and `scale_factor`.
    """
    if mode not in ("nearest", "nearest-exact"):
        raise ArgumentError(f"interpolate: got mode {mode!r}, expected 'nearest'.")
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate: expected one of size and scale_factor.")
    count = len(input.shape) - 2
    old = tuple(input.shape[2:])
    if size is not None:
        new = each("interpolate", size, count)
        ratios = [n / m for n, m in zip(old, new, strict=True)]
    else:
        factors = [scale_factor] * count if isinstance(scale_factor, int | float) else scale_factor
        new = tuple(math.floor(n * f) for n, f in zip(old, factors, strict=True))
        ratios = [1.0 / f for f in factors]
        if recompute_scale_factor:
            ratios = [n / m for n, m in zip(old, new, strict=True)]
    shift = 0.5 if mode == "nearest-exact" else 0.0
    for i, (n, m, r) in enumerate(zip(old, new, ratios, strict=True)):
        places = np.floor((np.arange(m) + shift) * np.float32(r)).astype(np.int64)
        lead = (slice(None),) * (2 + i)
        input = getitem(input, (*lead, np.minimum(places, n - 1)))
    return input


def pixel_shuffle(input: Kind, upscale_factor: int) -> Kind:
    """Return (..., C·r², H, W) as (..., C, H·r, W·r): channels become the pixels between."""
    r, rank = upscale_factor, len(input.shape)
    if rank < 3 or r < 1 or input.shape[-3] % (r * r):
        raise ShapeError(
            f"pixel_shuffle: got shape {tuple(input.shape)}, expected channels in {r * r}s."
        )
    *lead, c, h, w = input.shape
    wide = reshape(input, (*lead, c // (r * r), r, r, h, w))
    n = len(lead)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return reshape(permute(wide, order), (*lead, c // (r * r), h * r, w * r))
