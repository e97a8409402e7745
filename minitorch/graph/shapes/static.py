"""What is known of a value's shape before the run: all sizes, some of them, or nothing at all."""

from collections.abc import Sequence
from typing import Any, NoReturn

from ...arrays.shapes import INTEGERS
from ...errors import GraphError


class Dimension(int):
    """A size that is known; TensorFlow's programs ask for its `value`."""

    @property
    def value(self) -> int:
        """The size."""
        return int(self)


class StaticShape(tuple[int | None, ...]):
    """What is known of a shape before the run; None for a size that is not. Also equals a list."""

    __slots__ = ()

    @property
    def ndims(self) -> int | None:
        """The number of axes."""
        return len(self)

    def as_list(self) -> list[int | None]:
        """Return the sizes as a list."""
        return list(tuple.__iter__(self))

    def is_fully_defined(self) -> bool:
        """Tell whether every size is known."""
        return None not in self.as_list()

    def __getitem__(self, at: Any) -> Any:
        size = tuple.__getitem__(self, at)
        if isinstance(size, tuple):
            return type(self)(size)
        return size if size is None else Dimension(size)

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


class UnknownShape(StaticShape):
    """The shape of a value of which not even the number of axes is known. Reading it is an error.

    It is enough for elementwise operators, which is what a `Variable('A')` without a value is for.
    """

    __slots__ = ()

    @property
    def ndims(self) -> None:
        """None: not known."""
        return None

    def _refuse(self, *_: object) -> NoReturn:
        raise GraphError(
            "shape: the number of axes is not known before the run. Give the placeholder a shape, "
            "with None for each size that may vary."
        )

    __len__ = __iter__ = __contains__ = __getitem__ = as_list = _refuse

    def is_fully_defined(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnknownShape)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "<unknown>"

    __str__ = __repr__


UNKNOWN = UnknownShape()


def as_static(shape: Any) -> StaticShape:
    """Return a shape as what is known before the run; None is an unknown number of axes.

    Raises:
        GraphError: it is one number, or has a size that is no whole number, or is negative.
    """
    if shape is None or isinstance(shape, UnknownShape):
        return UNKNOWN
    if isinstance(shape, INTEGERS):
        raise GraphError(f"shape: got {shape}, expected a list or tuple. Write [{shape}].")
    return StaticShape(None if n is None or n == -1 else _whole(n, shape) for n in shape)


def _whole(size: float | str, shape: object) -> int:
    if isinstance(size, str) or int(size) != size or size < 0:
        raise GraphError(
            f"shape: got {shape!r}, expected a list or tuple of whole sizes of 0 or more, or None."
        )
    return int(size)


def agree(a: Sequence[int | None], b: Sequence[int | None]) -> bool:
    """Tell whether one value could have both shapes, of which some sizes may not be known."""
    if isinstance(a, UnknownShape) or isinstance(b, UnknownShape):
        return True
    return len(a) == len(b) and all(
        x is None or y is None or x == y for x, y in zip(a, b, strict=True)
    )
