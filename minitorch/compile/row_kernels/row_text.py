"""RowText: the code of a kernel over rows of contiguous arrays, as its bodies write it.

A body reads and writes a row's vectors in loops (`Text.each`), and folds them (`fold`, `mean`).

May import: text, rows, kernels.
"""

from collections.abc import Callable

from .. import kernels
from ..rows import IDENTITY, across, fold
from ..text import Text

Each = Callable[[str, str | None], str]


class RowText:
    """The code of a kernel over rows.

    Attributes:
        integers: the table's; `integers[0]` is a row's length.
        number: the table's, in every lane.
        totals: two variables for a body's own use.
    """

    def __init__(self, dtype: str, arrays: int) -> None:
        self.t = t = Text(dtype)
        self.integers = t.fields("i64", 3)
        objects = t.fields("ptr", arrays, 3)
        self.bases = [t.emit(f"load ptr, ptr {t.at(o, kernels.HEAD)}") for o in objects]
        (number,) = t.fields("double", 1, 3 + arrays)
        if t.single:
            number = t.emit(f"fptrunc double {number} to float")
        self.number = t.spread(t.scalar, number)
        self.sums = [t.variable() for _ in range(2)]
        self.totals = [t.variable() for _ in range(2)]
        self.first = self.row = "0"

    def at(self, array: int, place: str, shared: bool = False) -> str:
        """Return the address of an element of the row; of the only row where it is shared."""
        return self.t.at(self.bases[array], place if shared else self.t.plus(self.first, place),
                         self.t.scalar)  # fmt: skip

    def load(self, array: int, place: str, mask: str | None, shared: bool = False) -> str:
        """Return a vector of the row."""
        return self.t.load(self.at(array, place, shared), mask)

    def store(
        self, array: int, value: str, place: str, mask: str | None, shared: bool = False
    ) -> str:
        """Write a vector of the row; return it."""
        self.t.store(value, self.at(array, place, shared), mask)
        return value

    def fold(
        self, stop: str, *folds: tuple[str, Each], start: str = "0", first: str = ""
    ) -> list[str]:
        """Return what values of the row, and of `first`, add up to, each in every lane."""
        t = self.t
        for (how, _), total in zip(folds, self.sums, strict=False):
            t.store(first or t.number(IDENTITY[how]), total)

        def body(v: str, mask: str | None) -> None:
            for (how, value_at), total in zip(folds, self.sums, strict=False):
                value = value_at(v, mask)
                if mask is not None:
                    value = t.either(mask, value, t.number(IDENTITY[how]))
                t.store(fold(t, how, t.load(total), value), total)

        t.each(body, stop, start)
        return [
            t.spread(t.scalar, across(t, how, t.load(total)))
            for (how, _), total in zip(folds, self.sums, strict=False)
        ]

    def spread_from(self, array: int, place: str | int) -> str:
        """Return a number of an array in every lane."""
        return self.t.spread_from(self.t.at(self.bases[array], place, self.t.scalar))

    def store_first(self, array: int, place: str, value: str) -> None:
        """Write the first lane of a vector into a place of an array."""
        t = self.t
        first = t.emit(f"extractelement {t.vector} {value}, i32 0")
        t.do(f"store {t.scalar} {first}, ptr {t.at(self.bases[array], place, t.scalar)}, align 1")

    def mean(self, *values: Each) -> list[str]:
        """Return the means of some values over the row."""
        n = self.integers[0]
        count = self.t.from_whole(n)
        return [self.t.div(s, count) for s in self.fold(n, *(("sum", value) for value in values))]
