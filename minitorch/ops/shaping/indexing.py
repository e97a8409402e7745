"""Elements picked by position: slices, which are views, and arrays of indices.

`x[index]` becomes `Slice` when the index holds integers, slices, None and Ellipsis only, and `Take`
when it holds tensors of indices or masks, which are inputs of the operator. The gradient puts each
element back where it came from: `PlaceAdd` (an element taken twice gets both gradients).
"""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import allocator
from ...arrays.library import (
    Array,
    Index,
    Namespace,
    as_dtype,
    bool_,
    dtype_of,
    native_device_of,
    uint8,
)
from ...arrays.shapes import INTEGERS, Shape, axis, is_known
from ...errors import ArgumentError, AxisError, IndexDTypeError
from ...op import Gradients, Kind, Methods, Op, ReadsShapes, Spec, Value, apply, infer_by_trial
from ..elementwise import compiled
from ..elementwise.casting import cast_to
from .adding import add_at

ARRAY = "array"
"""Stands in a pattern where an array of indices goes."""


class Slice(ReadsShapes):
    """Basic indexing: a view."""

    name = "index"
    views = True
    halves = "moved"

    def __init__(self, index: tuple[Index, ...]) -> None:
        self.index = index

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return x[index]; a number of a NumPy array too is a view."""
        part: Array = x[self.index]
        if type(part) is not np.ndarray and isinstance(part, np.generic):
            return x[(*self.index, ...)]
        return part

    def infer(self, *specs: Spec) -> Spec:
        """Return the shape of the slice; a size that is not known stays so under `:`."""
        return Spec(infer_sliced_shape(specs[0].shape, self.index), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return zeros with the gradient in the slice."""
        return (place_pattern(out_grad, self.index, (), node.inputs[0]),)


def infer_sliced_shape(shape: Shape, index: tuple[Index, ...]) -> Shape:
    """Return the shape of x[index] for a basic index."""
    full = _spell_out(index, len(shape), "index")
    out: list[int | None] = []
    sizes = iter(shape)
    for item in full:
        if item is None:
            out.append(1)
            continue
        size = next(sizes)
        if isinstance(item, int) and size is not None and not -size <= item < size:
            raise AxisError(
                f"index: out of range: got {item} on an axis of size {size}, expected {-size} to "
                f"{size - 1}."
            )
        if isinstance(item, slice):
            out.append(None if size is None else len(range(*item.indices(size))))
    return tuple(out)


def _spell_out(index: tuple[object, ...], rank: int, op: str) -> tuple[object, ...]:
    used = len([i for i in index if i is not None and i is not Ellipsis])
    if used > rank:
        raise AxisError(
            f"{op}: too many indices: got {used} for a value of {rank} axes. Leave some out."
        )
    if index.count(Ellipsis) > 1:
        raise AxisError(f"{op}: got more than one Ellipsis, expected one. Write : instead.")
    fill = (slice(None),) * (rank - used)
    for at, item in enumerate(index):
        if item is Ellipsis:
            return (*index[:at], *fill, *index[at + 1 :])
    return (*index, *fill)


class Take(Op):
    """Advanced indexing: x[pattern], with arrays of indices, the further inputs, in the pattern."""

    name = "index"
    on_arrays = reads_indices = True
    reads_output = False

    def __init__(self, pattern: tuple[object, ...]) -> None:
        self.pattern = pattern

    def compute(self, xp: Namespace, x: Array, *indices: Array) -> Array:
        """Return what is picked: a new array, or a view where each index is one number."""
        view, index = locate(x, self.pattern, indices)
        return _pick(view, index) if index else view

    def infer(self, *specs: Spec) -> Spec:
        """Return the shape of what is picked; how many elements a mask picks is not known."""
        trial = infer_by_trial(self, specs)
        if all(spec.dtype.kind != "b" for spec in specs[1:]):
            return trial
        if 0 in specs[0].shape:  # no position to try
            return Spec((None,) * len(trial.shape), trial.dtype)
        return Spec(tuple(n or None for n in trial.shape), trial.dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Add the gradient of each pick to the element picked."""
        x, *indices = node.inputs
        return (place_pattern(out_grad, self.pattern, indices, x), *(None for _ in indices))


def _pick(x: Array, index: tuple[Any, ...]) -> Array:
    """Return x[index]; of NumPy, by integers along one axis, in half the time and less."""
    if type(x) is np.ndarray:
        arrays = [(d, item) for d, item in enumerate(index) if type(item) is np.ndarray]
        if len(arrays) == 1:
            ((d, places),) = arrays
            pays = x.flags.c_contiguous or places.size >= x.shape[d]  # else `take` copies it first
            if pays and places.dtype.kind == "i" and x.shape[d]:  # of nothing, indexing complains
                columns = compiled.pick(x, places) if d == x.ndim - 1 > 0 else None
                return x.take(places, d) if columns is None else columns
    picked: Array = x[index]
    return picked


class PlaceAdd(Op):
    """Zeros of `shape` (or that of the last input) with the first input added at the indices."""

    on_arrays = reads_indices = True
    reads_output = False

    def __init__(self, pattern: tuple[Any, ...], shape: tuple[int, ...] | None) -> None:
        self.pattern, self.shape = pattern, shape

    def compute(self, xp: Namespace, values: Array, *rest: Array) -> Array:
        shape, indices = (
            (tuple(rest[-1].shape), rest[:-1]) if self.shape is None else (self.shape, rest)
        )
        if xp is np:
            out = allocator.zeros(shape, values.dtype)
        else:
            out = xp.zeros(shape, dtype=values.dtype, **native_device_of(values))
        if not indices:
            out[self.pattern] = values
            return out
        view, index = locate(out, self.pattern, indices)
        if index:
            add_at(view, index, values)
        else:
            view[...] = values
        return out

    def infer(self, *specs: Spec) -> Spec:
        return Spec(specs[-1].shape if self.shape is None else self.shape, specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        rest = node.inputs[1:]
        indices = rest[:-1] if self.shape is None else rest
        return (take_pattern(out_grad, self.pattern, indices), *(None for _ in rest))


def take_pattern(x: Kind, pattern: tuple[Any, ...], indices: Sequence[Any]) -> Kind:
    """Return x[pattern]: a view where there are no arrays of indices."""
    return apply(Take(pattern), x, *indices) if indices else apply(Slice(pattern), x)


def place_pattern(x: Kind, pattern: tuple[Any, ...], indices: Sequence[Any], like: Methods) -> Kind:
    """Return zeros of the shape of `like` with `x` added at the pattern."""
    if is_known(tuple(like.shape)):
        return apply(PlaceAdd(pattern, tuple(like.shape)), x, *indices)
    return apply(PlaceAdd(pattern, None), x, *indices, like)


def locate(x: Array, pattern: tuple[Any, ...], arrays: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return a view of `x` and the index into it that together are x[pattern], as torch reads it.

    Integers select and None inserts before arrays index, so that neither moves the axes that the
    arrays give, as it would in NumPy's reading: there an integer counts as an array.

    Args:
        x: the array to be indexed.
        pattern: as `split_index` gives it.
        arrays: integers or masks for its ARRAY places, in order.

    Returns: the index is () where integers, slices and None are all there is.
    """
    supply = iter(arrays)
    plain = len(pattern) <= x.ndim and all(item in (ARRAY, _WHOLE) for item in pattern)
    if plain and all(a.shape for a in arrays):
        return x, tuple([next(supply) if item == ARRAY else item for item in pattern])
    full = [next(supply) if item is ARRAY or item == ARRAY else item for item in pattern]
    rest = len(x.shape) - sum(_axes_used(item) for item in full)
    if rest < 0:
        raise AxisError(
            f"index: too many indices: got {len(x.shape) - rest} for a value of {len(x.shape)} "
            "axes. Leave some out."
        )
    before: list[Any] = []
    index: list[Any] = []
    for item in full:
        whole = [slice(None)] * (rest if item is Ellipsis else _axes_used(item))
        if isinstance(item, int) or (not _is_mask(item) and getattr(item, "shape", None) == ()):
            before.append(int(item))
        elif hasattr(item, "shape"):
            before += whole
            index.append(item)
        else:
            before += whole if item is Ellipsis else [item]
            index += whole or ([slice(None)] if item is None else [])
    view = x[(*before, ...)]
    return view, tuple(index) if any(hasattr(item, "shape") for item in index) else ()


def put(x: Array, pattern: tuple[Any, ...], arrays: tuple[object, ...], values: Any) -> None:
    """Overwrite x[pattern], read as in `locate`, with `values`, broadcast."""
    if not arrays:
        x[pattern if Ellipsis in pattern else (*pattern, ...)] = values
        return
    if values.shape and values.shape[0] == 1:  # they broadcast; NumPy may refuse them
        lead = next((d for d, n in enumerate(values.shape) if n != 1), len(values.shape))
        values = values.reshape(tuple(values.shape)[lead:])
    view, index = locate(x, pattern, arrays)
    view[index or ...] = values


def _axes_used(item: Any) -> int:
    """Return how many axes of a value an item of its index takes."""
    if item is None or item is Ellipsis:
        return 0
    return len(item.shape) if _is_mask(item) else 1


def _is_mask(item: Any) -> bool:
    return hasattr(item, "dtype") and dtype_of(item).kind == "b"


def split_index(index: object) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return an index as (pattern, arrays); no arrays means that it is basic.

    Raises:
        IndexDTypeError: an item is no integer, slice, None, Ellipsis, mask or array of integers.
        AxisError: a short list of anything but numbers.
    """
    if type(index) is list and len(index) < _AXES and any(isinstance(i, _NESTED) for i in index):
        raise AxisError(
            "index: got a list of lists, tensors or slices, which torch takes for a tuple and "
            "NumPy for an array. Write x[tuple(index)], one item an axis, or x[tensor(index)]."
        )
    items = index if isinstance(index, tuple) else (index,)
    for item in items:
        kind = type(item)
        if kind is slice:
            if item == _WHOLE:
                continue
            if not (item.step is None and type(item.start) in _PLAIN and type(item.stop) in _PLAIN):
                break
        elif kind is not int and item is not None and item is not Ellipsis:
            break
    else:  # most often: nothing to convert
        return items, ()
    pattern: list[Any] = []
    arrays: list[Any] = []
    for item in items:
        if item is None or item is Ellipsis:
            pattern.append(item)
        elif isinstance(item, slice):
            pattern.append(_slice(item))
        elif isinstance(item, INTEGERS) and not isinstance(item, bool):
            pattern.append(int(item))
        else:
            pattern.append(ARRAY)
            arrays.append(_index_array(item))
    return tuple(pattern), tuple(arrays)


def _slice(item: slice) -> slice:
    if item.step is None and type(item.start) in _PLAIN and type(item.stop) in _PLAIN:
        return item
    if item.step is not None and operator.index(item.step) <= 0:
        raise ArgumentError(
            f"index: got step {item.step}, expected 1 or more. Use flip to go back."
        )
    bounds = (item.start, item.stop, item.step)
    return slice(*(None if n is None else operator.index(n) for n in bounds))


_PLAIN = frozenset([int, type(None)])
_WHOLE = slice(None)
_NESTED = (list, tuple, slice, type(None), type(Ellipsis), Value, np.ndarray)
_AXES = 32
"""As in torch: a list this long is an array to it, whatever is in it."""


def _index_array(item: object) -> object:
    if not isinstance(item, Value) and not hasattr(item, "dtype"):
        item = np.asarray(item)
        if item.size == 0:
            item = item.astype(np.int64)
    if as_dtype(item.dtype).kind == "f":
        raise IndexDTypeError(
            f"index: got {item.dtype} indices, expected integers or booleans. Convert with .long()."
        )
    if as_dtype(item.dtype) is uint8:  # a mask to torch
        masked: Any = item
        return cast_to(masked, bool_) if isinstance(item, Value) else masked != 0
    return item


def getitem(x: Kind, index: object) -> Kind:
    """Return x[index], basic or advanced, as NumPy and torch index."""
    pattern, arrays = split_index(index)
    return apply(Take(pattern), x, *arrays) if arrays else apply(Slice(pattern), x)


def narrow(x: Kind, dim: int, start: int, length: int) -> Kind:
    """Return `length` elements along `dim`, from `start`; a view."""
    d = axis(dim, len(x.shape), "narrow")
    if not x.shape:
        raise AxisError("narrow: got a 0-d value, expected at least 1 axis.")
    size = x.shape[d]
    start = start + size if start < 0 else start
    if not 0 <= start <= start + length <= size:
        raise AxisError(
            f"narrow: got start {start} and length {length} on axis {d} of size {size}, expected "
            "them inside. Shorten one."
        )
    return apply(Slice((*(slice(None),) * d, slice(start, start + length))), x)


def select(x: Kind, dim: int, index: int) -> Kind:
    """Return the slice `index` along `dim`, without that axis; a view."""
    d = axis(dim, len(x.shape), "select")
    return apply(Slice((*(slice(None),) * d, operator.index(index))), x)


def nonzero(input: Kind, *, as_tuple: bool = False) -> Kind | tuple[Kind, ...]:
    """Return the indices of the elements that are not 0: rows of a matrix, or a tuple by axis."""
    if not as_tuple:
        return apply(NonZero(), input)
    row = input if input.shape else input.reshape(1)
    indices = apply(NonZero(), row)
    return tuple(getitem(indices, (slice(None), d)) for d in range(len(row.shape)))


class NonZero(Op):
    """The indices of the elements that are not 0, a row each; no gradient."""

    reads_inputs = reads_output = False

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return int64 (count, axes)."""
        return (
            xp.stack(xp.nonzero(x), axis=1)
            if len(x.shape)
            else xp.zeros((int(x != 0), 0), dtype=xp.int64)
        )

    def infer(self, *specs: Spec) -> Spec:
        """Return (unknown, axes)."""
        return Spec((None, len(specs[0].shape)), np.dtype(np.int64))
