"""Images of another size: neighbours repeated, weighted or averaged, and channels made pixels."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...arrays.library import Array, DType, Namespace, dtype_of, host_dtype, native_device_of
from ...arrays.shapes import Shape
from ...errors import ArgumentError, ShapeError
from ...op import Gradients, Kind, Methods, ReadsShapes, Spec, apply
from ..elementwise.casting import require_floats
from ..products.conv import each
from ..shaping.indexing import getitem
from ..shaping.movement import AlongDim, permute, reshape
from ..unknown_sizes import defer_unknown_sizes
from .pooling import adaptive_means

MODES = {
    "nearest": None,
    "nearest-exact": None,
    "area": None,
    "linear": 3,
    "bilinear": 4,
    "bicubic": 4,
    "trilinear": 5,
}
"""The axes that images have in a mode; None: three to five."""


@dataclass(frozen=True)
class Grid:
    """Where the `new` elements of a line lie between its `old` ones, `ratio` of them apart."""

    old: int
    new: int
    ratio: float
    align_corners: bool
    cubic: bool

    def taps(self, dtype: DType) -> tuple[Array, Array]:
        """Return the places and the weights of the 2 or 4 old elements that make each new one.

        Source of the cubic: Keys, IEEE Trans. ASSP 29(6), 1981, with a = -0.75.
        """
        scale = dtype.type(self.ratio)
        at = np.arange(self.new, dtype=dtype)
        at = at * scale if self.align_corners else (at + dtype.type(0.5)) * scale - dtype.type(0.5)
        at = at if self.cubic else np.maximum(at, 0)
        low = np.floor(at)
        away = np.clip(at - low, 0, 1)
        if self.cubic:
            steps = np.arange(-1, 3)[:, None]
            weights = _cubic(np.abs(away - steps))
        else:
            steps = np.arange(2)[:, None]
            weights = np.stack([1 - away, away])
        return np.clip(low.astype(np.int64) + steps, 0, self.old - 1), weights.astype(dtype)


def _cubic(distance: Array) -> Array:
    """Return the weight of an element at a distance below 2."""
    a, t = -0.75, distance
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    weights: Array = np.where(t <= 1, near, ((t - 5) * t + 8) * t * a - 4 * a)
    return weights


@functools.lru_cache(64)
def _taps(grid: Grid, dtype: DType) -> tuple[Array, Array]:
    return grid.taps(dtype)


@functools.lru_cache(64)
def _matrix(grid: Grid, dtype: DType) -> Array:
    """Return the weight of each old element, a column, in each new one, a row."""
    matrix: Array = np.zeros((grid.new, grid.old), dtype)
    for places, weights in zip(*_taps(grid, dtype), strict=True):
        matrix[np.arange(grid.new), places] += weights
    return matrix


class Resample(ReadsShapes, AlongDim):
    """Weighted sums of neighbours along the axis `dim`, one for each place of a grid.

    The other way round each old element gets its shares of the new ones, which is the gradient.
    """

    name = "interpolate"

    def __init__(self, dim: int, grid: Grid, turned: bool = False) -> None:
        super().__init__(dim)
        self.grid, self.turned = grid, turned

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the sums; of the other way as a product of matrices."""
        place, dtype = native_device_of(x), host_dtype(dtype_of(x))
        if self.turned:
            matrix = xp.asarray(_matrix(self.grid, dtype), **place)
            return xp.moveaxis(xp.moveaxis(x, self.dim, -1) @ matrix, -1, self.dim)
        rest = (1,) * (len(x.shape) - self.dim - 1)
        total: Array = xp.zeros((), dtype=x.dtype, **place)
        for places, weights in zip(*_taps(self.grid, dtype), strict=True):
            taken = xp.take(x, xp.asarray(places, **place), axis=self.dim)
            total = total + taken * xp.asarray(weights.reshape(-1, *rest), **place)
        return total

    def infer(self, *specs: Spec) -> Spec:
        size = self.grid.old if self.turned else self.grid.new
        return Spec(_replace_size(specs[0].shape, self.dim, size), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        return (apply(Resample(self.dim, self.grid, not self.turned), out_grad),)


class Stretch(ReadsShapes, AlongDim):
    """Each element of an axis `times` times; the other way round the sums of as many neighbours."""

    def __init__(self, dim: int, times: int, turned: bool = False) -> None:
        super().__init__(dim)
        self.times, self.turned = times, turned

    def compute(self, xp: Namespace, x: Array) -> Array:
        if not self.turned:
            return xp.repeat(x, self.times, axis=self.dim)
        before = (slice(None),) * self.dim
        total: Array = x[(*before, slice(0, None, self.times))] * 1
        for first in range(1, self.times):
            total += x[(*before, slice(first, None, self.times))]
        return total

    def infer(self, *specs: Spec) -> Spec:
        shape, dtype = specs[0]
        size = shape[self.dim]
        new = size and (size // self.times if self.turned else size * self.times)
        return Spec(_replace_size(shape, self.dim, new), dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        return (apply(Stretch(self.dim, self.times, not self.turned), out_grad),)


def _replace_size(shape: Shape, dim: int, size: int | None) -> Shape:
    return (*shape[:dim], size, *shape[dim + 1 :])


@defer_unknown_sizes
def interpolate(
    input: Kind,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Kind:
    """Return (N, C, ...) with its last axes made larger or smaller.

    Args:
        input: one to three axes after (N, C).
        size: the new sizes, one number or one an axis; or else
        scale_factor: the new sizes over the old, rounded down.
        mode: "nearest" or "nearest-exact": elements repeated or left out; "linear" (3 axes in all),
            "bilinear" (4), "trilinear" (5) or "bicubic" (4): weighted neighbours; "area": means.
        align_corners: of weighted neighbours: the corner elements stay, instead of the corners.
        recompute_scale_factor: places are those of the sizes, not of the factor given.
        antialias: not here.

    Raises:
        ArgumentError: an unknown mode, `antialias`, `align_corners` without weights, or neither or
            both of `size` and `scale_factor`.
        ShapeError: axes that the mode has not, or nothing to take from or to make.
        DTypeError: not a floating dtype, but for the nearest.
    """
    _check_resizing(input, mode, align_corners, antialias)
    old = tuple(input.shape[2:])
    new, ratios = _targets(old, size, scale_factor, bool(recompute_scale_factor))
    if min((*old, *new)) < 1:
        raise ShapeError(f"interpolate: got sizes {old} to become {new}, expected 1 or more.")
    if mode == "area":
        return adaptive_means(len(old), input, new)
    for d, (n, m, ratio) in enumerate(zip(old, new, ratios, strict=True), start=2):
        if mode.startswith("nearest") and m % n == 0 and ratio == n / m:
            input = apply(Stretch(d, m // n), input) if m > n else input
        elif mode.startswith("nearest"):
            shift = 0.5 if mode == "nearest-exact" else 0.0
            places = np.floor((np.arange(m) + shift) * np.float32(ratio)).astype(np.int64)
            input = getitem(input, (*(slice(None),) * d, np.minimum(places, n - 1)))
        else:
            ratio = (n - 1) / max(m - 1, 1) if align_corners else ratio
            grid = Grid(n, m, ratio, bool(align_corners), mode == "bicubic")
            input = apply(Resample(d, grid), input)
    return input


def _check_resizing(input: Methods, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if mode not in MODES:
        raise ArgumentError(f"interpolate: got mode {mode!r}, expected one of {list(MODES)}.")
    if antialias:
        raise ArgumentError(
            "interpolate: got antialias=True, which is not here. Use mode='area' to make smaller."
        )
    rank, rank_of_mode = len(input.shape), MODES[mode]
    if rank_of_mode is None and align_corners is not None:
        raise ArgumentError(
            f"interpolate: got align_corners for mode {mode!r}, which has no weights. Leave it out."
        )
    if rank != rank_of_mode and (rank_of_mode or not 3 <= rank <= 5):
        raise ShapeError(
            f"interpolate: got shape {tuple(input.shape)} for mode {mode!r}, expected "
            f"{rank_of_mode or '3 to 5'} axes: (N, C, ...)."
        )
    if not mode.startswith("nearest"):
        require_floats("interpolate", input)


def _targets(
    old: tuple[int, ...],
    size: int | Sequence[int] | None,
    scale_factor: float | Sequence[float] | None,
    recompute: bool,
) -> tuple[tuple[int, ...], list[float]]:
    """Return the new sizes, and how many old elements a new one is apart from the next."""
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate: expected one of size and scale_factor.")
    if scale_factor is None:
        new = each("interpolate", size, len(old))
        return new, [n / max(m, 1) for n, m in zip(old, new, strict=True)]
    factors = scale_factor if isinstance(scale_factor, Sequence) else [scale_factor] * len(old)
    if len(factors) != len(old) or min(factors) <= 0:
        raise ArgumentError(
            f"interpolate: got scale_factor {scale_factor}, expected one above 0, or {len(old)}."
        )
    new = tuple(math.floor(n * factor) for n, factor in zip(old, factors, strict=True))
    if recompute:
        return new, [n / max(m, 1) for n, m in zip(old, new, strict=True)]
    return new, [1.0 / factor for factor in factors]


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
