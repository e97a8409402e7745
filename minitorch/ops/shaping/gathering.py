"""Elements picked and put along one axis by a value of indices: gather, scatter and their kin.

`Gather` and `ScatterAdd` are each other's gradient; the rest is made of them.
"""

from typing import Any

import numpy as np

from ...arrays import allocator
from ...arrays.library import (
    Array,
    DType,
    Namespace,
    as_dtype,
    cast,
    check_fits,
    copy_array,
    dtype_of,
    int64,
    native_device_of,
)
from ...arrays.shapes import agree, axis, broadcast, is_known
from ...errors import ArgumentError, AxisError, DTypeError, ShapeError
from ...op import Flat, Gradients, KeepsSpec, Kind, Methods, Spec, apply
from ..elementwise import compiled
from ..elementwise.binary import where
from ..elementwise.casting import cast_to
from ..elementwise.logic import ne
from ..elementwise.unary import ones_like, zeros_like
from .adding import add_at, find_outside, inside
from .indexing import ARRAY, PlaceAdd, Take, getitem, narrow, place_pattern
from .movement import AlongDim, expand, reshape


def grid(xp: Namespace, index: Any, dim: int) -> tuple[Any, ...]:
    """Return the full coordinates that `index` along `dim` stands for.

    Raises:
        IndexError: an index below 0.
    """
    if xp is np and index.dtype.kind == "i" and index.size and index.min() < 0:
        raise IndexError(f"index {index.min()} is out of bounds, expected 0 or more.")
    rank = len(index.shape)
    place = {} if xp is np else {"device": index.device}
    index = cast(index, int64)  # torch takes uint8 for a mask
    lines = []
    for i, size in enumerate(index.shape):
        shape = [1] * rank
        shape[i] = size
        lines.append(index if i == dim else xp.reshape(xp.arange(size, **place), tuple(shape)))
    return tuple(lines)


class Gather(AlongDim):
    """x[..., index, ...] along one axis: the result has the shape of the index."""

    reads_indices = True
    reads_output = False
    name = "gather"

    def compute(self, xp: Namespace, x: Array, index: Array) -> Array:
        """Return the picked elements."""
        by_kernel: Array | None = compiled.gather(x, index, self.dim) if xp is np else None
        if by_kernel is not None:
            return by_kernel
        picked: Array = x[grid(xp, index, self.dim)]
        return picked

    def infer(self, *specs: Spec) -> Spec:
        return Spec(specs[1].shape, specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return zeros with the gradient added where it was picked."""
        x, index = node.inputs
        return apply(GatherGrad(self.dim), x, index, out_grad), None


class GatherGrad(KeepsSpec, AlongDim):
    """Zeros like `x` with `g` added at the places of `index` along one axis."""

    reads_indices = True
    reads_inputs = reads_output = False

    def compute(self, xp: Namespace, x: Array, index: Array, g: Array) -> Array:
        zeros = allocator.zeros(x.shape, x.dtype) if xp is np else xp.zeros_like(x)
        return add_along(xp, zeros, index, self.dim, g)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """By g the picked elements of the gradient; by x nothing."""
        return None, None, apply(Gather(self.dim), out_grad, node.inputs[1])


def add_along(xp: Namespace, into: Array, index: Array, dim: int, values: Array) -> Array:
    """Return `into`, an array of one's own, with values added along an axis."""
    if xp is np and compiled.scattered("scatter_add", into, index, dim, values):
        return into
    return add_at(into, grid(xp, index, dim), values)


class ScatterAdd(KeepsSpec, AlongDim):
    """`x` with `source` added at the places of `index` along one axis; equal places add up."""

    reads_indices = True
    reads_output = False
    name = "scatter_add"

    def compute(self, xp: Namespace, x: Array, index: Array, source: Array) -> Array:
        cut = source[tuple(slice(0, size) for size in index.shape)]
        return add_along(xp, copy_array(x), index, self.dim, cut)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """The value gets the gradient as it is, the source what is at its places."""
        _, index, source = node.inputs
        return out_grad, None, _share(out_grad, self.dim, index, source) if node.wants[2] else None


class Scatter(KeepsSpec, AlongDim):
    """`x` with `source`, or `number` without one, put at the places of `index` along one axis."""

    reads_indices = True
    reads_output = False
    name = "scatter"

    def __init__(self, dim: int, number: float = 0.0) -> None:
        super().__init__(dim)
        self.number = number

    def compute(self, xp: Namespace, x: Array, index: Array, *source: Array) -> Array:
        """Return a copy of `x` with those elements replaced."""
        out = copy_array(x)
        if source:
            cut = source[0][tuple(slice(0, n) for n in index.shape)]
        else:
            number = np.asarray(self.number).astype(dtype_of(x)).item()
            cut = xp.full(index.shape, number, dtype=x.dtype, **native_device_of(x))
        if xp is np and compiled.scattered("scatter", out, index, self.dim, cut):
            return out
        out[grid(xp, index, self.dim)] = cut
        return out

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """What was overwritten gets no gradient; the source gets it instead."""
        _, index, *sources = node.inputs
        by_x = apply(Scatter(self.dim), out_grad, index)
        return by_x, None, *(_share(out_grad, self.dim, index, source) for source in sources)


def _share(out_grad: Kind, dim: int, index: Methods, source: Methods) -> Kind:
    """Return the gradient of `source`, of which the part of the size of `index` was put there."""
    share = apply(Gather(dim), out_grad, index)
    if tuple(index.shape) == tuple(source.shape):
        return share
    return place_pattern(share, tuple(slice(0, size) for size in index.shape), (), source)


def check_index(name: str, x: Methods, dim: int, index: Kind, source: Methods | None = None) -> int:
    """Return the axis, after comparing shapes.

    Raises:
        DTypeError: the index is not of integers.
        ShapeError: the index has other axes than `x`, or is larger elsewhere.
    """
    if as_dtype(index.dtype).kind not in "iu":
        raise DTypeError(f"{name}: got {index.dtype} indices, expected integers. Use .long().")
    if source is not None and as_dtype(source.dtype) != as_dtype(x.dtype):
        raise DTypeError(f"{name}: got {source.dtype} for {x.dtype}, expected one dtype.")
    rank = len(x.shape)
    d = axis(dim, rank, name)
    shapes = [tuple(x.shape)] + ([tuple(source.shape)] if source is not None else [])
    have = tuple(index.shape)
    for k, shape in enumerate(shapes):
        if have == shape or not is_known(shape) or not is_known(have):
            continue
        fits = len(have) == len(shape) and all(
            n <= m for i, (n, m) in enumerate(zip(have, shape, strict=True)) if i != d or k
        )
        if not fits and 0 not in have:
            raise ShapeError(
                f"{name}: the index has shape {have}, expected as many axes as {shape} and no "
                f"larger sizes, axis {d} aside."
            )
    return d


def give_axis(*values: Kind) -> list[Kind]:
    """Return the values, those without axes with one."""
    return [v if v is None or v.shape else reshape(v, 1) for v in values]


def gather(x: Kind, dim: int, index: Kind, *, sparse_grad: bool = False) -> Kind:
    """Return the elements of `x` at `index` along `dim`: for dim 0, x[index[i][j]][j] at i, j."""
    if 0 in index.shape and len(index.shape) != len(x.shape):
        return reshape(narrow(reshape(x, -1), 0, 0, 0), tuple(index.shape))
    if not x.shape or not index.shape:
        row, places = give_axis(x, index)
        return reshape(gather(row, dim, places), tuple(index.shape))
    return apply(Gather(check_index("gather", x, dim, index)), x, index)


def take_along_dim(x: Kind, indices: Kind, dim: int | None = None) -> Kind:
    """Return the elements of `x` at `indices` along `dim`; the other axes broadcast."""
    if dim is None:
        return gather(reshape(x, -1), 0, reshape(indices, -1))
    if as_dtype(indices.dtype).kind not in "iu" or len(x.shape) != len(indices.shape):
        raise ShapeError(
            f"take_along_dim: got indices {indices.dtype} {tuple(indices.shape)} for shape "
            f"{tuple(x.shape)}, expected integers and equally many axes."
        )
    d = axis(dim, len(x.shape), "take_along_dim")
    cut = [tuple(1 if i == d else n for i, n in enumerate(v.shape)) for v in (x, indices)]
    common = broadcast(*cut, op="take_along_dim")
    wide = [(*common[:d], v.shape[d], *common[d + 1 :]) for v in (x, indices)]
    return gather(expand(x, wide[0]), d, expand(indices, wide[1]))


def scatter(
    input: Kind,
    dim: int,
    index: Kind,
    src: Kind | float | None = None,
    *,
    value: Kind | float | None = None,
    reduce: object = None,
) -> Kind:
    """Return `input` with `src` at the places of `index` along `dim`; `src` may be one number.

    Raises:
        ArgumentError: `reduce` is not None or "add".
        DTypeError: `src` is no tensor, node or number.
    """
    values = value if src is None else src
    values = values.item() if isinstance(values, np.generic) else values
    if values is None or not (isinstance(values, int | float) or hasattr(values, "dtype")):
        raise DTypeError(f"scatter: got {values!r}, expected a tensor, a node or a number.")
    if isinstance(values, int | float) and reduce is None and input.shape and index.shape:
        check_fits("scatter", values, as_dtype(input.dtype))
        return apply(Scatter(check_index("scatter", input, dim, index), values), input, index)
    if isinstance(values, int | float):
        there = zeros_like(gather(input, dim, zeros_like(index))) if input.shape else input * 0
        values = there + values
    if not input.shape or not index.shape:
        row, places, source = give_axis(input, index, values)
        return reshape(scatter(row, dim, places, source, reduce=reduce), tuple(input.shape))
    d = check_index("scatter", input, dim, index, values)
    if reduce == "add":
        return apply(ScatterAdd(d), input, index, values)
    if reduce is not None:
        raise ArgumentError(f"scatter: got reduce {reduce!r}, expected None or 'add'.")
    return apply(Scatter(d), input, index, values)


def scatter_add(input: Kind, dim: int, index: Kind, src: Kind) -> Kind:
    """Return `input` with `src` added at the places of `index` along `dim`; equal places add up."""
    if not input.shape or not index.shape:
        row, places, source = give_axis(input, index, src)
        return reshape(scatter_add(row, dim, places, source), tuple(input.shape))
    return apply(ScatterAdd(check_index("scatter_add", input, dim, index, src)), input, index, src)


def _row_pattern(d: int) -> tuple[object, ...]:
    return (*(slice(None),) * d, ARRAY)


def _vector(name: str, index: Kind) -> Kind:
    if len(index.shape) > 1 or as_dtype(index.dtype).kind not in "iu":
        raise ShapeError(
            f"{name}: got {index.dtype} {tuple(index.shape)}, expected a vector of integers."
        )
    return index if index.shape else reshape(index, 1)


def index_select(x: Kind, dim: int, index: Kind) -> Kind:
    """Return the slices of `x` along `dim` that `index`, a vector, names."""
    index = _vector("index_select", index)
    if not x.shape:
        return reshape(index_select(reshape(x, 1), 0, index), ())
    return apply(Take(_row_pattern(axis(dim, len(x.shape), "index_select"))), x, index)


def index_add(input: Kind, dim: int, index: Kind, source: Methods, *, alpha: object = 1) -> Kind:
    """Return `input` with alpha·source added to the slices along `dim` that `index` names."""
    index = _vector("index_add", index)
    if not input.shape:
        return reshape(index_add(reshape(input, 1), 0, index, reshape(source, 1), alpha=alpha), ())
    d = axis(dim, len(input.shape), "index_add")
    source = source if source.shape else reshape(source, 1)
    expected = (*input.shape[:d], index.shape[0], *input.shape[d + 1 :])
    if not agree(tuple(source.shape), expected):
        raise ShapeError(f"index_add: got source {tuple(source.shape)}, expected {expected}.")
    added = apply(PlaceAdd(_row_pattern(d), tuple(input.shape)), source, index)
    return input + (added if alpha == 1 else added * alpha)


def index_fill(x: Kind, dim: int, index: Kind, value: object) -> Kind:
    """Return `x` with one number in the slices along `dim` that `index` names."""
    index = _vector("index_fill", index)
    if not x.shape:
        return reshape(index_fill(reshape(x, 1), 0, index, value), ())
    d = axis(dim, len(x.shape), "index_fill")
    times = apply(PlaceAdd((ARRAY,), (x.shape[d],)), ones_like(index), index)
    return masked_fill(x, reshape(ne(times, 0), (-1, *(1,) * (len(x.shape) - d - 1))), value)


def take(x: Kind, index: Kind) -> Kind:
    """Return the elements of `x`, read as one vector, that `index` names, under its shape."""
    if as_dtype(index.dtype).kind not in "iu":
        raise DTypeError(f"take: got {index.dtype} indices, expected integers. Use .long().")
    picked = apply(Take((ARRAY,)), reshape(x, -1), reshape(index, -1))
    return reshape(picked, tuple(index.shape))


def masked_fill(input: Kind, mask: Kind, value: object) -> Kind:
    """Return `input` with `value` where the mask holds.

    Raises:
        DTypeError: the mask is not boolean.
    """
    if as_dtype(mask.dtype).kind != "b":
        raise DTypeError(f"masked_fill: got a {mask.dtype} mask, expected bool. Compare first.")
    if hasattr(value, "shape") and value.shape:
        raise ShapeError(f"masked_fill: got a value of shape {tuple(value.shape)}, expected 0-d.")
    return where(mask, _element(value, input), input)


def _element(value: Any, x: Methods) -> object:
    """Return one number, or a 0-d value, as an element of `x`."""
    dtype = as_dtype(x.dtype)
    check_fits("masked_fill", value, dtype)
    if hasattr(value, "dtype"):
        return cast_to(value, dtype)
    return value if dtype.kind == "f" else np.asarray(value).astype(dtype)


def masked_select(input: Kind, mask: Methods) -> Kind:
    """Return the elements of `input` where the mask holds, as a vector; the two broadcast."""
    shape = broadcast(tuple(input.shape), tuple(mask.shape), op="masked_select")
    return getitem(expand(input, shape), expand(mask, shape))


class OneHot(Flat):
    """1 at the place of each index along a new last axis, else 0; out of range, 0 alone."""

    name = "one_hot"

    def __init__(self, num_classes: int, dtype: DType = int64) -> None:
        self.num_classes, self.dtype = num_classes, dtype

    def compute(self, xp: Namespace, index: Array) -> Array:
        """Return the zeros and ones, of shape (*index.shape, num_classes)."""
        if xp is np:
            out = allocator.zeros((*index.shape, self.num_classes), self.dtype)
            classes = np.ascontiguousarray(index.reshape(-1), np.int64)
            places = np.arange(index.size) * self.num_classes + classes
            if not inside(classes, self.num_classes):
                places = places[classes.view(np.uint64) < self.num_classes]  # below 0 is huge
            out.reshape(-1)[places] = 1
            return out
        classes = xp.arange(self.num_classes, device=index.device)
        return cast(index[..., None] == classes, self.dtype)

    def infer(self, *specs: Spec) -> Spec:
        return Spec((*specs[0].shape, self.num_classes), self.dtype)


def one_hot(input: Any, num_classes: int = -1) -> Any:
    """Return 1 at each class along a new last axis, else 0; -1: as many classes as are used.

    Raises:
        AxisError: a class below 0, or not below `num_classes`.
        DTypeError: classes that are no integers.
    """
    if input.dtype.kind == "f":
        raise DTypeError(f"one_hot: got {input.dtype} classes, expected integers. Use .long().")
    if num_classes < 0:
        num_classes = int(input.max().item()) + 1
    array = getattr(input, "array", None)
    if array is not None and (number := find_outside(array, num_classes)) is not None:
        raise AxisError(f"one_hot: got class {number}, expected 0 to {num_classes - 1}.")
    return apply(OneHot(num_classes), input)
