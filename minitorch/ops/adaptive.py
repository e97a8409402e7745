"""Pooling into a given number of windows of nearly equal size."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import ShapeError
from ..op import Kind
from .indexing import narrow
from .joining import cat
from .reduction import mean

if TYPE_CHECKING:
    pass


def _adaptive(count: int, x: Kind, output_size: int | Sequence[int | None] | None) -> Kind:
    """Return `x` with each last axis cut into as many windows as asked for, and their means."""
    sizes = output_size if isinstance(output_size, Sequence) else (output_size,) * count
    if len(x.shape) not in (count + 1, count + 2) or len(sizes) != count:
        raise ShapeError(
            f"adaptive_avg_pool{count}d: got shape {tuple(x.shape)} and {output_size}, expected "
            f"{count + 2} axes and {count} sizes."
        )
    for i, wanted in enumerate(sizes):
        d = len(x.shape) - count + i
        n = x.shape[d]
        if wanted is None or wanted == n:
            continue
        cuts = [(j * n // wanted, -(-(j + 1) * n // wanted)) for j in range(wanted)]
        x = cat([mean(narrow(x, d, a, b - a), d, True) for a, b in cuts], d)
    return x


def adaptive_avg_pool1d(input: Kind, output_size: int | Sequence[int | None]) -> Kind:
    """Return means of (N, C, length) over `output_size` windows of nearly equal size."""
    return _adaptive(1, input, output_size)


def adaptive_avg_pool2d(input: Kind, output_size: int | Sequence[int | None] | None) -> Kind:
    """Return means of (N, C, height, width) over as many windows as `output_size` says."""
    return _adaptive(2, input, output_size)
