"""Elements put in another order or repeated: flip, roll, repeat, tile.

May import: errors, op, shapes, indexing, joining, movement.
"""

import builtins
from collections.abc import Sequence

from ..arrays import Array, Namespace, copied
from ..errors import ShapeError
from ..op import Gradients, KeepsSpec, Kind, Methods, apply
from ..shapes import axes, axis
from .casting import clone
from .indexing import narrow
from .joining import cat
from .movement import Movement, expand, listed, reshape, sizes


class Flip(KeepsSpec, Movement):
    """The elements in reverse order along axes."""

    def __init__(self, dims: tuple[int, ...]) -> None:
        self.dims = dims

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the reversed array, which NumPy would give as a view."""
        return copied(xp.flip(x, axis=self.dims))

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return the gradient reversed."""
        return (apply(self, out_grad),)


def flip(x: Kind, *dims: int | Sequence[int] | None, **named: object) -> Kind:
    """Return `x` with the elements along `dims` in reverse order."""
    return apply(Flip(axes(listed("flip", "dims", dims, named), len(x.shape), "flip")), x)


def roll(x: Kind, shifts: object, dims: int | Sequence[int] | None = ()) -> Kind:
    """Return `x` moved by `shifts` along `dims`, or, without those, as one vector.

    What leaves at one end enters at the other.
    """
    moves = sizes((shifts,))
    places = sizes((dims,)) if dims != () else ()
    if not places:
        return reshape(roll(reshape(x, -1), moves, 0), tuple(x.shape))
    if len(moves) != len(places):
        raise ShapeError(
            f"roll: got {len(moves)} shifts for {len(places)} axes, expected one each."
        )
    for move, place in zip(moves, places, strict=True):
        d = axis(place, len(x.shape), "roll")
        cut = x.shape[d] - move % builtins.max(x.shape[d], 1)
        x = cat((narrow(x, d, cut, x.shape[d] - cut), narrow(x, d, 0, cut)), d)
    return x


def repeat(x: Kind, *times: object, **named: object) -> Kind:
    """Return copies of `x` side by side, `times` along each axis; new axes come first."""
    counts = listed("repeat", "repeats", times, named)
    lead = len(counts) - len(x.shape)
    if lead < 0 or builtins.any(n < 0 for n in counts):
        raise ShapeError(
            f"repeat: got {counts} for shape {tuple(x.shape)}, expected a count of 0 or more for "
            "each axis at least."
        )
    shape = (1,) * lead + tuple(x.shape)
    pairs = [n for pair in zip((1,) * len(shape), shape, strict=True) for n in pair]
    wide = [n for pair in zip(counts, shape, strict=True) for n in pair]
    full = tuple(a * b for a, b in zip(counts, shape, strict=True))
    return reshape(clone(expand(reshape(x, pairs), wide)), full)


def tile(x: Kind, *times: object, **named: object) -> Kind:
    """Return copies of `x` side by side; counts that are missing are 1."""
    counts = listed("tile", "dims", times, named)
    return repeat(x, (1,) * (len(x.shape) - len(counts)) + counts)
