"""Shapes as tuples of int: broadcasting, axes, sizes. Pure functions, no arrays.

A size may be `None`: a dataflow graph knows only at run time how large a placeholder is.
The rules hold for `None` as far as they can be decided.
"""

from collections.abc import Iterable, Sequence
from operator import index
from typing import TypeAlias

import numpy as np

from ..errors import AxisError, ShapeError

Size: TypeAlias = int | None
Shape: TypeAlias = tuple[Size, ...]
INTEGERS = (int, np.integer)
"""Whole numbers: NumPy's too, which are what `argmax` gives, and the product of a shape."""


def broadcast(*shapes: Shape, op: str = "broadcast") -> Shape:
    """Return the shape that all of `shapes` broadcast to: axes align at the right, 1 stretches.

    Raises:
        ShapeError: two sizes differ and neither is 1; names both shapes and the axis.
    """
    rank = max(map(len, shapes), default=0)
    out: list[Size] = [1] * rank
    for shape in shapes:
        for axis in range(-1, -len(shape) - 1, -1):
            size, so_far = shape[axis], out[axis]
            if size == so_far or size == 1:
                continue
            if so_far == 1 or so_far is None:
                out[axis] = size
            elif size is not None:
                raise ShapeError(_mismatch(op, shapes, axis))
    return tuple(out)


def _mismatch(op: str, shapes: tuple[Shape, ...], axis: int) -> str:
    sizes = [shape[axis] for shape in shapes if len(shape) >= -axis]
    differing = " is not ".join(map(str, dict.fromkeys(s for s in sizes if s not in (1, None))))
    return (
        f"{op}: shapes do not broadcast: got {' and '.join(map(str, shapes))}, expected equal "
        f"sizes or 1 on axis {axis}, where {differing}. Reshape or transpose one side."
    )


def stretched_axes(shape: Shape, to: Shape) -> tuple[int, ...]:
    """Return the axes of `to` over which a value of `shape` is repeated by broadcasting."""
    lead = len(to) - len(shape)
    return tuple(
        axis
        for axis in range(len(to))
        if axis < lead or (shape[axis - lead] == 1 and to[axis] != 1)
    )


def axis(dim: int, rank: int, op: str) -> int:
    """Return `dim` counted from the left, in `range(rank)`; a 0-d value has axes 0 and -1.

    Raises:
        AxisError: out of range; names the range.
    """
    span = max(rank, 1)
    if not -span <= dim < span:
        raise AxisError(
            f"{op}: axis out of range: got {dim}, expected {-span} to {span - 1} for a value "
            f"of {rank} axes. Count from 0, or from -1 at the right."
        )
    return index(dim) % span


def axes(dim: int | Sequence[int] | None, rank: int, op: str) -> tuple[int, ...]:
    """Return `dim` as sorted axes in `range(rank)`; None means all of them.

    Raises:
        AxisError: out of range.
        ShapeError: one axis is named twice.
    """
    if dim is None:
        return tuple(range(rank))
    dims = tuple(dim) if hasattr(dim, "__iter__") else (dim,)
    numbers = [axis(d, rank, op) for d in dims]
    if len(set(numbers)) != len(numbers):
        raise ShapeError(f"{op}: an axis is named twice: got {dims}, expected each once.")
    return tuple(sorted(numbers)) if rank else ()


def axes_or_all(dim: int | Sequence[int] | None, rank: int, op: str) -> tuple[int, ...]:
    """Return the same, but all axes where none is named: what torch's reductions mean by `[]`."""
    return axes(None if hasattr(dim, "__iter__") and not dim else dim, rank, op)


def stretches(shape: Shape, to: Shape) -> bool:
    """Tell whether a value of `shape` broadcasts to the shape `to` itself."""
    if len(shape) > len(to):
        return False
    tail = to[len(to) - len(shape) :]
    return shape == tail or all(a in (1, b) for a, b in zip(shape, tail, strict=True))


def agree(a: Shape, b: Shape) -> bool:
    """Tell whether one value could have both shapes."""
    return len(a) == len(b) and all(
        x is None or y is None or x == y for x, y in zip(a, b, strict=True)
    )


def drop_axes(shape: Shape, over: Iterable[int], keepdim: bool) -> Shape:
    """Return `shape` with the axes `over` (in range, as `axes` gives them) removed or set to 1."""
    removed = set(over)
    if keepdim:
        return tuple(1 if i in removed else size for i, size in enumerate(shape))
    return tuple(size for i, size in enumerate(shape) if i not in removed)


def is_known(shape: Shape) -> bool:
    """Tell whether every size is known."""
    return None not in shape


def numel(shape: Shape) -> int | None:
    """Return the number of elements, None when a size is unknown."""
    count = 1
    for size in shape:
        if size is None:
            return None
        count *= size
    return count


def fill_in(shape: Sequence[int], count: int | None, op: str) -> Shape:
    """Return `shape` with its one -1 replaced so that it holds `count` elements.

    Raises:
        ShapeError: two -1, a negative size, or a count that does not fit.
    """
    sizes = tuple(map(index, shape))
    holes = [i for i, size in enumerate(sizes) if size == -1]
    if len(holes) > 1 or any(size < -1 for size in sizes):
        raise ShapeError(f"{op}: not a shape: got {sizes}, expected sizes >= 0 and one -1 at most.")
    product = numel(tuple(size for size in sizes if size != -1)) or 0
    if len(sizes) == len(holes):
        product = 1
    if count is None:
        return tuple(None if size == -1 else size for size in sizes)
    if product == 0 and holes:
        raise ShapeError(
            f"{op}: -1 is ambiguous: got {sizes}, where the other sizes already make 0 elements. "
            "Name every size."
        )
    if (count % product if holes else count != product) if product else count:
        raise ShapeError(
            f"{op}: sizes do not fit: got {count} elements for shape {sizes}. "
            "Keep the number of elements, or let one size be -1."
        )
    return tuple(count // product if size == -1 else size for size in sizes)
