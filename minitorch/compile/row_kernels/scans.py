"""Bodies of kernels that run along lines: sums, products, recurrences; sums of ranges of lines.

A row is `n` numbers, whose lines have their elements `rows` apart; where `first` is 1 they are run
along from their ends. What goes on from step to step is in double, as in torch.

May import: row_text; text.
"""

from collections.abc import Callable
from functools import partial

from ..text import Text
from .row_text import RowText

AT_ONCE = 4  # lines, whose elements are far apart: a step alone would wait for the one before
Step = Callable[[Text, list[str], str], tuple[str, str]]
"""From the inputs' elements and what the last step left: the result's element, what is left."""


class _Lines:
    """Code that runs along lines: along as many as a vector has lanes, or along some one by one."""

    def __init__(self, k: RowText, start: float, step: Step, count: int, width: int) -> None:
        self.k, self.start, self.step = k, start, step
        self.t = k.t.beside(k.t.dtype, width, f"n{width}_")
        self.wide = k.t.beside("float64", width, f"w{width}_")
        self.left = [self.wide.variable() for _ in range(count)]

    def run(self, begins: list[str], mask: str | None, count: str, stride: str) -> None:
        """Write a loop of so many steps along the lines that begin at these places."""
        for left in self.left[: len(begins)]:
            self.wide.store(self.wide.number(self.start), left)
        with self.k.t.loop("step", count) as i:
            along = self.t.times(i, stride)
            for begin, left in zip(begins, self.left, strict=False):
                self._take_step(self.t.plus(begin, along), mask, left)

    def _take_step(self, place: str, mask: str | None, left: str) -> None:
        t, wide, (*sources, out) = self.t, self.wide, self.k.bases
        inputs = [t.load(t.at(base, place, t.scalar), mask) for base in sources]
        if t.single:
            inputs = [wide.emit(f"fpext {t.vector} {a} to {wide.vector}") for a in inputs]
        result, rest = self.step(wide, inputs, wide.load(left))
        wide.store(rest, left)
        if t.single:
            result = wide.emit(f"fptrunc {wide.vector} {result} to {t.vector}")
        t.store(result, t.at(out, place, t.scalar), mask)


def _scan(k: RowText, start: float, step: Step) -> None:
    t, (n, apart, from_end) = k.t, k.integers
    vectors, single = (_Lines(k, start, step, *how) for how in ((1, t.width), (AT_ONCE, 1)))
    turns = t.emit(f"icmp eq i64 {from_end}, 1")
    first = t.emit(f"select i1 {turns}, i64 {t.minus(n, apart)}, i64 0")
    along = (
        t.emit(f"sdiv i64 {n}, {apart}"),
        t.emit(f"select i1 {turns}, i64 {t.minus(0, apart)}, i64 {apart}"),
    )
    several = t.plus("%lo", t.emit(f"and i64 {t.minus('%hi', '%lo')}, {-AT_ONCE}"))
    with t.when(t.emit(f"icmp eq i64 {apart}, 1")):
        for count, start_row, stop in ((AT_ONCE, "%lo", several), (1, several, "%hi")):
            with t.loop("r", stop, count, start_row) as r:
                rows = (t.times(t.plus(r, i), n) for i in range(count))
                single.run([t.plus(row, first) for row in rows], None, *along)
    with t.when(t.emit(f"icmp ne i64 {apart}, 1")), t.loop("r", "%hi", 1, "%lo") as r:
        begin = t.plus(t.times(r, n), first)
        t.each(lambda v, mask: vectors.run([t.plus(begin, v)], mask, *along), apart)


def _add(t: Text, inputs: list[str], before: str) -> tuple[str, str]:
    total = t.add(before, inputs[0])
    return total, total


def _multiply(t: Text, inputs: list[str], before: str) -> tuple[str, str]:
    product = t.mul(before, inputs[0])
    return product, product


def _by_own(t: Text, inputs: list[str], before: str) -> tuple[str, str]:
    value = t.add(t.mul(inputs[0], before), inputs[1])
    return value, value


def _by_last(t: Text, inputs: list[str], before: str) -> tuple[str, str]:
    value = t.add(before, inputs[1])
    return value, t.mul(inputs[0], value)


# x, out; a, b, out of recurrences: out[i] = a[i]·out[i-1] + b[i], or by a[i-1], the last one's
running_sum = partial(_scan, start=0.0, step=_add)
running_product = partial(_scan, start=1.0, step=_multiply)
recurrence = partial(_scan, start=0.0, step=_by_own)
recurrence_by_last = partial(_scan, start=0.0, step=_by_last)


def range_sums(k: RowText) -> None:
    """x, starts, stops, out: out[j] = Σ x[i] for starts[j] ≤ i < stops[j], along each line.

    A row is `n` numbers, whose lines have their elements `rows` apart; there are `first` ranges.
    """
    t, (n, apart, count) = k.t, k.integers
    single = t.beside(t.dtype, 1, "s")
    totals = t.variable(), single.variable()
    with t.loop("r", "%hi", 1, "%lo") as r, t.loop("j", count) as j:
        start, stop = (
            t.emit(f"load i64, ptr {t.at(base, j, 'i64')}, align 8") for base in k.bases[1:3]
        )
        source, into = t.times(r, n), t.times(t.plus(t.times(r, count), j), apart)

        def add_up(text: Text, total: str, v: str, mask: str | None) -> None:
            text.store(text.number(0.0), total)
            with t.loop("i", stop, 1, start) as i:
                place = text.plus(t.plus(source, t.times(i, apart)), v)
                value = text.load(text.at(k.bases[0], place, t.scalar), mask)
                text.store(text.add(text.load(total), value), total)
            at = text.at(k.bases[3], text.plus(into, v), t.scalar)
            text.store(text.load(total), at, mask)

        with t.when(t.emit(f"icmp eq i64 {apart}, 1")):
            add_up(single, totals[1], "0", None)
        with t.when(t.emit(f"icmp ne i64 {apart}, 1")):
            t.each(lambda v, mask: add_up(t, totals[0], v, mask), apart)
