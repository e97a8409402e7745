"""Arithmetic made of other operators, under TensorFlow's names: safe quotients, spreads, shifts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import Array, as_dtype, asarray, int64, to_numpy
from ...errors import GraphError
from ...op import Op, Spec
from ...ops import elementwise as rows
from ...ops import ordering, reordering
from ..alike import alike
from ..lined import lined
from ..naming import rename
from ..node import Constant, Node, build, convert
from .elementwise import clip_by_value, floor, log, log1p, maximum, sqrt, where
from .elementwise import equal as same
from .late import once_known
from .math import cast, norm, reduce_mean
from .segments import unsorted_segment_sum
from .shaping import size, stack


def _zero_where(zero: Any, x: Any, value: Any) -> Any:
    """Return 0 where `zero` is, and `value(x)` elsewhere, with no gradient through the zeros."""
    hit = same(zero, 0.0)
    return where(hit, x * 0.0, value(where(hit, x * 0.0 + 1.0, x)))


@lined
def div_no_nan(x: Any, y: Any, name: str | None = None) -> Node:
    """x / y, and 0 where y is 0."""
    top, bottom = alike("div_no_nan", x, y)
    hit = same(bottom, 0.0)
    return rename(where(hit, top * 0.0, top / where(hit, bottom + 1.0, bottom)), name)


divide_no_nan = div_no_nan


@lined
def multiply_no_nan(x: Any, y: Any, name: str | None = None) -> Node:
    """x y, and 0 where y is 0, whatever x is."""
    left, right = alike("multiply_no_nan", x, y)
    return rename(where(same(right, 0.0), right, left) * right, name)


def reciprocal_no_nan(x: Any, name: str | None = None) -> Node:
    """1 / x, and 0 where x is 0."""
    node = convert(x)
    return div_no_nan(rows.ones_like(node), node, name)


@lined
def xlogy(x: Any, y: Any, name: str | None = None) -> Node:
    """x log y, and 0 where x is 0."""
    left, right = alike("xlogy", x, y)
    return rename(left * _zero_where(left, right, log), name)


@lined
def xlog1py(x: Any, y: Any, name: str | None = None) -> Node:
    """x log(1 + y), and 0 where x is 0."""
    left, right = alike("xlog1py", x, y)
    return rename(left * _zero_where(left, right, log1p), name)


@lined
def xdivy(x: Any, y: Any, name: str | None = None) -> Node:
    """x / y, and 0 where x is 0."""
    left, right = alike("xdivy", x, y)
    return rename(left * _zero_where(left, right, lambda v: 1.0 / v), name)


def polyval(coeffs: Sequence[Any], x: Any, name: str | None = None) -> Node:
    """The polynomial at x, by Horner's rule; the first coefficient is of the highest power."""
    node = convert(x)
    found: Any = rows.zeros_like(node)
    for coefficient in coeffs:
        found = found * node + convert(coefficient, node.dtype)
    return rename(found, name)


@lined
@once_known
def reduce_variance(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Node:
    """The mean squared distance from the mean over axes, all unless told."""
    away = input_tensor - reduce_mean(input_tensor, axis, keepdims=True)
    return reduce_mean(rows.square(away), axis, keepdims, name=name)


def reduce_std(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Node:
    """The root of `reduce_variance`."""
    return sqrt(reduce_variance(input_tensor, axis, keepdims), name=name)


def reduce_euclidean_norm(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Node:
    """The Euclidean length over axes, all unless told."""
    return norm(input_tensor, "euclidean", axis, keepdims, name)


@lined
def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Node:
    """`t` scaled so that its Euclidean length over its number of elements is at most that."""
    node = convert(t)
    mean = norm(node) / cast(size(node), node.dtype)
    return rename(node * (clip_norm / maximum(mean, clip_norm)), name)


@lined
@once_known
def cumulative_logsumexp(
    x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Node:
    """Running log sum exp along an axis; `reverse` from the end.

    Raises:
        GraphError: `exclusive`, which would begin with minus infinity.
    """
    if exclusive:
        raise GraphError("cumulative_logsumexp: got exclusive=True, expected False. Slice it.")
    node = reordering.flip(x, axis) if reverse else x
    found = ordering.logcumsumexp(node, axis % len(x.shape))
    return rename(reordering.flip(found, axis) if reverse else found, name)


@lined
@once_known
def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Node:
    """The elements moved by `shift` places along axes; those that leave come in at the other end.

    Raises:
        GraphError: the shift is computed in the run.
    """
    places = shift.value.tolist() if isinstance(shift, Constant) else shift
    if isinstance(places, Node):
        raise GraphError(
            f"roll: got shift {places.name!r}, expected numbers (built at {places.location}). Use "
            "concat of two slices."
        )
    along = axis.value.tolist() if isinstance(axis, Constant) else axis
    return rename(reordering.roll(input, places, along), name)


# ── places and counts ───────────────────────────────────────────────────────────────────────────


class Searched(Op):
    """For each value the place in its row of a sorted input where it belongs."""

    reads_inputs = reads_output = False

    def __init__(self, side: str, dtype: Any) -> None:
        self.side, self.dtype = side, as_dtype(dtype)

    def compute(self, xp: Any, *arrays: Array) -> Array:
        """Return the places."""
        rows_, values = (np.asarray(to_numpy(a)) for a in arrays)
        flat = rows_.reshape(-1, rows_.shape[-1]), values.reshape(-1, values.shape[-1])
        side: Any = self.side
        pairs = zip(*flat, strict=True)
        found = np.stack([np.searchsorted(row, v, side) for row, v in pairs])
        shaped = found.reshape(values.shape).astype(self.dtype)
        return shaped if xp is np else asarray(shaped, None, arrays[0].device)

    def infer(self, *specs: Spec) -> Spec:
        """Return the shape of the values."""
        return Spec(specs[1].shape, self.dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Return nothing: places are no function to follow."""
        return None, None


@lined
def searchsorted(
    sorted_sequence: Any,
    values: Any,
    side: str = "left",
    out_type: Any = "int32",
    name: str | None = None,
) -> Node:
    """For each value the first place ("left"), or the last, that keeps its row sorted.

    Raises:
        GraphError: another side; or the rows of the two differ in number.
    """
    rows_, wanted = alike("searchsorted", sorted_sequence, values)
    if side not in ("left", "right"):
        raise GraphError(f"searchsorted: got side {side!r}, expected 'left' or 'right'.")
    if tuple(rows_.shape)[:-1] != tuple(wanted.shape)[:-1]:
        raise GraphError(
            f"searchsorted: got {rows_.shape} and values {wanted.shape}, expected equal shapes but "
            "for the last axis."
        )
    return rename(build(Searched(side, out_type), (rows_, wanted)), name)


@lined
def unravel_index(indices: Any, dims: Any, name: str | None = None) -> Node:
    """The places on each axis of an array of sizes `dims`, a row an axis, of flat places."""
    rest, found = convert(indices), []
    for n in reversed([int(d) for d in dims]):
        found.append(rest % n)
        rest = rest // n
    return rename(stack(found[::-1]), name)


@lined
def histogram_fixed_width_bins(
    values: Any, value_range: Any, nbins: int = 100, dtype: Any = "int32", name: str | None = None
) -> Node:
    """The bin of each value, of `nbins` equal ones over the range; what is outside is at an end."""
    node = convert(values)
    low, high = (convert(value_range[i], node.dtype) for i in (0, 1))
    place = floor((node - low) / (high - low) * float(nbins))
    return cast(clip_by_value(place, 0.0, float(nbins - 1)), dtype, name)


@lined
def histogram_fixed_width(
    values: Any, value_range: Any, nbins: int = 100, dtype: Any = "int32", name: str | None = None
) -> Node:
    """How many values are in each of `nbins` equal bins over the range."""
    bins = histogram_fixed_width_bins(values, value_range, nbins)
    ones = cast(rows.ones_like(convert(values)), int64)
    return cast(unsorted_segment_sum(ones, bins, nbins), dtype, name)
