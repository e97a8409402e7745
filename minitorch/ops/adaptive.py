"""Pooling into a given number of windows of nearly equal size."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ShapeError
from ..op import Kind
from .elementwise import zeros_like
from .indexing import getitem, narrow
from .joining import cat, stack
from .movement import flatten, reshape
from .ordering import ValuesAndIndices
from .ordering import max as largest
from .reduction import mean

if TYPE_CHECKING:
    pass


def _adaptive(
    name: str, x: Kind, sizes: Sequence[int | None], reduce: Callable[[Kind, int], Kind]
) -> Kind:
    """Return `x` with each last axis cut into as many windows as asked for, each reduced."""
    count = len(sizes)
    if len(x.shape) not in (count + 1, count + 2):
        raise ShapeError(f"{name}: got shape {tuple(x.shape)}, expected {count + 2} axes.")
    for i, wanted in enumerate(sizes):
        d = len(x.shape) - count + i
        n = x.shape[d]
        if wanted is None or wanted == n:
            continue
        cuts = [(j * n // wanted, -(-(j + 1) * n // wanted)) for j in range(wanted)]
        x = cat([reduce(narrow(x, d, a, b - a), d) for a, b in cuts], d)
    return x


def _wanted(output_size: int | Sequence[int | None], count: int) -> tuple[int | None, ...]:
    return (
        (output_size,) * count
        if output_size is None or isinstance(output_size, int)
        else tuple(output_size)
    )


def adaptive_avg_pool1d(input: Kind, output_size: int | Sequence[int | None]) -> Kind:
    """Return means of (N, C, length) over `output_size` windows of nearly equal size."""
    return _adaptive("adaptive_avg_pool1d", input, _wanted(output_size, 1), _kept_mean)


def adaptive_avg_pool2d(input: Kind, output_size: int | Sequence[int | None]) -> Kind:
    """Return means of (N, C, height, width) over as many windows as `output_size` says."""
    return _adaptive("adaptive_avg_pool2d", input, _wanted(output_size, 2), _kept_mean)


def _adaptive_max(
    count: int, x: Any, output_size: int | Sequence[int | None], indices: bool
) -> Any:
    """Return the largest of each window; with `indices` also where in the flattened axes it was."""
    name = f"adaptive_max_pool{count}d"
    sizes = _wanted(output_size, count)
    if not indices:
        return _adaptive(name, x, sizes, _kept_max)
    spatial = tuple(x.shape[-count:])
    wanted = tuple(n if m is None else m for n, m in zip(spatial, sizes, strict=True))
    numbers = np.arange(math.prod(spatial)).reshape(spatial)
    values, places = [], []
    for at in itertools.product(*map(range, wanted)):
        ends = [
            (i * n // m, -(-(i + 1) * n // m)) for i, n, m in zip(at, spatial, wanted, strict=True)
        ]
        window = tuple(slice(a, b) for a, b in ends)
        best = largest(flatten(getitem(x, (..., *window)), -count), -1)
        values.append(best.values)
        inside = numbers[window].reshape(-1)
        places.append(inside[best.indices.detach().numpy()])
    shape = (*x.shape[: len(x.shape) - count], *wanted)
    where = zeros_like(best.indices).new_tensor(np.stack(places, -1).reshape(shape))
    return ValuesAndIndices(reshape(stack(values, -1), shape), where)


def adaptive_max_pool1d(
    input: Kind, output_size: int | Sequence[int | None], return_indices: bool = False
) -> Kind | ValuesAndIndices[Kind]:
    """Return the largest of (N, C, length) in `output_size` windows of nearly equal size."""
    found: Kind | ValuesAndIndices[Kind] = _adaptive_max(1, input, output_size, return_indices)
    return found


def adaptive_max_pool2d(
    input: Kind, output_size: int | Sequence[int | None], return_indices: bool = False
) -> Kind | ValuesAndIndices[Kind]:
    """Return the largest of (N, C, height, width) in as many windows as `output_size` says."""
    found: Kind | ValuesAndIndices[Kind] = _adaptive_max(2, input, output_size, return_indices)
    return found


def _kept_mean(x: Kind, d: int) -> Kind:
    return mean(x, d, True)


def _kept_max(x: Kind, d: int) -> Kind:
    return largest(x, d, True).values
