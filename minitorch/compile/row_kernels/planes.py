"""Bodies of kernels over planes, a line a class: softmax and losses of places, or of pixels.

All classes pass by a block of columns, what is known of which stays in the nearest cache.

May import: row_text, softmax; functions, rows.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .. import functions
from ..rows import fold
from .row_text import RowText
from .softmax import class_of, flag_class, power

BLOCK = 256  # columns


class _Blocks:
    """Code that runs over blocks of columns.

    Attributes:
        count: of classes, in every lane.
        most, total, plain: of each column, the largest element, Σ exp (x - it) and Σ (x - it).
    """

    def __init__(self, k: RowText) -> None:
        self.k, self.t, (n, self.columns, _) = k, k.t, k.integers
        self.one = k.t.beside(k.t.dtype, 1, "s")
        self.classes = k.t.emit(f"sdiv i64 {n}, {self.columns}")
        self.count = k.t.from_whole(self.classes)
        space = f"alloca [{BLOCK} x {k.t.scalar}], align 64"
        self.most, self.total, self.plain = (k.t.emit(space) for _ in range(3))

    @contextmanager
    def run(self) -> Iterator[None]:
        """Write a loop over the blocks around what the caller writes."""
        t = self.t
        with t.loop("r", "%hi", 1, "%lo") as r, t.loop("block", self.columns, BLOCK) as block:
            self.width = t.least(t.minus(self.columns, block), BLOCK)
            self.first = t.plus(t.times(r, self.k.integers[0]), block)
            self.column = t.plus(t.times(r, self.columns), block)
            yield

    def each(self, use: Callable[[str, str | None], None]) -> None:
        """Write a loop over vectors of columns."""
        self.t.each(use, self.width)

    def sweep(self, use: Callable[[str, str, str | None], None]) -> None:
        """Write a loop over all classes' vectors: where it is, of which columns, the mask."""
        with self.t.loop("c", self.classes) as c:
            line = self.t.plus(self.first, self.t.times(c, self.columns))
            self.each(lambda v, mask: use(self.t.plus(line, v), v, mask))

    def at(self, numbers: str, v: str) -> str:
        """Return the address of a column's number."""
        return self.t.at(numbers, v, self.t.scalar)

    def sum_powers(self, out: int | None = None, is_plain: bool = False) -> None:
        """Write what computes `most` and `total`; also `plain`, or puts the powers in an array."""
        t, k = self.t, self.k
        first = {self.most: -float("inf"), self.total: 0.0, self.plain: 0.0}

        def begin(v: str, mask: str | None) -> None:
            for numbers, number in first.items():
                t.store(t.number(number), self.at(numbers, v))

        def find_most(place: str, v: str, mask: str | None) -> None:
            at = self.at(self.most, v)
            t.store(fold(t, "amax", t.load(at), k.load(0, place, mask, True)), at)

        def add_up(place: str, v: str, mask: str | None) -> None:
            away = t.sub(k.load(0, place, mask, True), t.load(self.at(self.most, v)))
            each_power = power(t, away)
            terms = {self.total: each_power}
            if is_plain:
                terms[self.plain] = away
            if out is not None:
                k.store(out, each_power, place, mask, True)
            for at, term in ((self.at(numbers, v), term) for numbers, term in terms.items()):
                t.store(t.add(t.load(at), term), at)

        self.each(begin)
        self.sweep(find_most)
        self.sweep(add_up)


def plane_loss(k: RowText) -> None:
    """x, labels, flags, out: as `class_loss`, of planes of `n` numbers, `rows` to each class."""
    b, t = _Blocks(k), k.t
    one, number = b.one, t.lane(t.vector, k.number, 0)
    with b.run():
        b.sum_powers(is_plain=True)

        def finish(v: str, mask: str | None) -> None:
            logarithm = functions.log(t, t.load(b.at(b.total, v)))
            t.store(logarithm, b.at(b.total, v))
            t.store(t.div(t.load(b.at(b.plain, v)), b.count), b.at(b.plain, v))

        b.each(finish)
        with t.loop("j", b.width) as j:
            place = t.plus(b.column, j)
            label, counts, is_ignored = class_of(k, place, b.classes)
            line = t.times(t.emit(f"select i1 {counts}, i64 {label}, i64 0"), b.columns)
            most, total, plain = (one.load(b.at(a, j)) for a in (b.most, b.total, b.plain))
            x = one.load(t.at(k.bases[0], t.plus(t.plus(b.first, line), j), t.scalar))
            picked = one.sub(x, most)
            mixed = one.add(picked, one.mul(number, one.sub(plain, picked)))
            is_plain = one.compare("oeq", number, one.number(0.0))
            loss = one.sub(total, one.either(is_plain, picked, mixed))
            at = t.at(k.bases[3], place, t.scalar)
            one.store(one.either(counts, loss, one.number(0.0)), at)
            flag_class(k, counts, is_ignored)


def plane_gradient(k: RowText) -> None:
    """x, labels, g, out: as `class_gradient`, of planes as of `plane_loss`; g has each column's."""
    b, t = _Blocks(k), k.t
    one, number = b.one, t.lane(t.vector, k.number, 0)
    with b.run():
        b.sum_powers(out=3)

        def scale(v: str, mask: str | None) -> None:
            g = t.load(t.at(k.bases[2], t.plus(b.column, v), t.scalar), mask)
            t.store(t.div(g, t.load(b.at(b.total, v))), b.at(b.total, v))
            t.store(t.div(t.mul(g, k.number), b.count), b.at(b.plain, v))

        def share(place: str, v: str, mask: str | None) -> None:
            part = t.mul(k.load(3, place, mask, True), t.load(b.at(b.total, v)))
            k.store(3, t.sub(part, t.load(b.at(b.plain, v))), place, mask, True)

        b.each(scale)
        b.sweep(share)
        with t.loop("j", b.width) as j:
            label, counts, is_ignored = class_of(k, t.plus(b.column, j), b.classes)
            first = t.plus(b.first, j)
            with t.when(counts):
                g = one.load(t.at(k.bases[2], t.plus(b.column, j), t.scalar))
                at = t.at(k.bases[3], t.plus(first, t.times(label, b.columns)), t.scalar)
                less = one.mul(g, one.sub(one.number(1.0), number))
                one.store(one.sub(one.load(at), less), at)
            with t.when(is_ignored), t.loop("c", b.classes) as c:
                at = t.at(k.bases[3], t.plus(first, t.times(c, b.columns)), t.scalar)
                one.store(one.number(0.0), at)


def plane_softmax(k: RowText) -> None:
    """x, out: softmax over the classes, in planes as of `plane_loss`."""
    b, t = _Blocks(k), k.t

    def scale(place: str, v: str, mask: str | None) -> None:
        k.store(1, t.div(k.load(1, place, mask, True), t.load(b.at(b.total, v))), place, mask, True)

    with b.run():
        b.sum_powers(out=1)
        b.sweep(scale)


def plane_log_softmax(k: RowText) -> None:
    """x, out: the logarithm of it."""
    b, t = _Blocks(k), k.t

    def finish(v: str, mask: str | None) -> None:
        logarithm = functions.log(t, t.load(b.at(b.total, v)))
        t.store(t.add(t.load(b.at(b.most, v)), logarithm), b.at(b.total, v))

    def shift(place: str, v: str, mask: str | None) -> None:
        value = t.sub(k.load(0, place, mask, True), t.load(b.at(b.total, v)))
        k.store(1, value, place, mask, True)

    with b.run():
        b.sum_powers()
        b.each(finish)
        b.sweep(shift)
