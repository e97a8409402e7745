"""The body of a kernel that adds up ranges of lines, as pooling does whose windows are not alike.

May import: row_text; text.
"""

from ..text import Text
from .row_text import RowText


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
