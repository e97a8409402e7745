"""What is known of a value's shape before the run: all sizes, some of them, or nothing at all."""

from __future__ import annotations

from typing import NoReturn

from ..errors import GraphError


class StaticShape(tuple[int | None, ...]):
    """What is known of a shape before the run; None for a size that is not. Also equals a list."""

    __slots__ = ()

    @property
    def ndims(self) -> int | None:
        """The number of axes."""
        return len(self)

    def as_list(self) -> list[int | None]:
        """Return the sizes as a list."""
        return list(self)

    def is_fully_defined(self) -> bool:
        """Tell whether every size is known."""
        return None not in self

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, list) else other)

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
        """Return False."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnknownShape)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "<unknown>"

    __str__ = __repr__


UNKNOWN = UnknownShape()
