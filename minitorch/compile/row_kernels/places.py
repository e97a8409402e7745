"""Bodies of kernels over rows whose places are read from memory.

May import: row_text.
"""

from collections.abc import Callable

from .row_text import RowText


def add_rows(k: RowText) -> None:
    """out, numbers, values: to each row of `out` are added those of the `rows` values that say it.

    A thread looks at all numbers and adds to its own rows, each in the order of the values.
    """
    t = k.t
    n, count, _ = k.integers
    with t.loop("i", count) as i:
        row = t.emit(f"load i64, ptr {t.at(k.bases[1], i, 'i64')}, align 8")
        after, before = t.emit(f"icmp sge i64 {row}, %lo"), t.emit(f"icmp slt i64 {row}, %hi")
        with t.when(t.emit(f"and i1 {after}, {before}")):
            into, source = t.times(row, n), t.times(i, n)

            def add(v: str, mask: str | None) -> None:
                place = t.plus(into, v)
                value = k.load(2, t.plus(source, v), mask, True)
                k.store(0, t.add(k.load(0, place, mask, True), value), place, mask, True)

            t.each(add, n)


def gather(k: RowText) -> None:
    """x, index, flags, out: out[i, j] = x[index[i, j], j], rows of `first` elements each.

    `n` elements of x and `rows` of the index are one matrix of these rows; an index that
    is none, which a negative one is, sets the flag. The number is 1 where all matrices have one
    index.
    """
    t = k.t

    def pick(place: str, element: str) -> None:
        value = t.emit(f"load {t.scalar}, ptr {k.at(0, place)}, align 1")
        t.do(f"store {t.scalar} {value}, ptr {t.at(k.bases[3], element, t.scalar)}, align 1")

    _each_place(k, pick)


def scatter_add(k: RowText) -> None:
    """out, index, flags, values: out[index[i, j], j] += values[i, j], as in `gather`, in order."""
    t = k.t

    def add(place: str, element: str) -> None:
        into = k.at(0, place)
        part = t.emit(f"load {t.scalar}, ptr {t.at(k.bases[3], element, t.scalar)}, align 1")
        total = t.emit(f"load {t.scalar}, ptr {into}, align 1")
        t.do(f"store {t.scalar} {t.emit(f'fadd {t.scalar} {total}, {part}')}, ptr {into}, align 1")

    _each_place(k, add)


def scatter(k: RowText) -> None:
    """out, index, flags, values: out[index[i, j], j] = values[i, j], as in `gather`, in order."""
    t = k.t

    def put(place: str, element: str) -> None:
        part = t.emit(f"load {t.scalar}, ptr {t.at(k.bases[3], element, t.scalar)}, align 1")
        t.do(f"store {t.scalar} {part}, ptr {k.at(0, place)}, align 1")

    _each_place(k, put)


def _each_place(k: RowText, use: Callable[[str, str], None]) -> None:
    """Write what is done with each element of the index: its place in x's row, its own number."""
    t = k.t
    n, count, inner = k.integers
    size = t.emit(f"sdiv i64 {n}, {inner}")
    start = t.times(k.row, count)
    is_shared = t.emit(f"fcmp oeq {t.scalar} {t.lane(t.vector, k.number, 0)}, 1.0")
    index = t.at(k.bases[1], t.emit(f"select i1 {is_shared}, i64 0, i64 {start}"), "i64")

    def visit(number: str, inner: str | int, j: str | int) -> None:
        element = t.plus(start, number)
        place = t.emit(f"load i64, ptr {t.at(index, number, 'i64')}, align 8")
        is_inside = t.emit(f"icmp ult i64 {place}, {size}")
        with t.when(is_inside):
            use(t.plus(t.times(place, inner), j), element)
        with t.when(t.emit(f"xor i1 {is_inside}, true")):
            t.do(f"store i64 1, ptr {k.bases[2]}, align 8")

    with t.when(t.emit(f"icmp eq i64 {inner}, 1")), t.loop("i", count) as i:
        visit(i, 1, 0)
    is_wide = t.emit(f"icmp ne i64 {inner}, 1")
    with t.when(is_wide), t.loop("i", count, inner) as i, t.loop("j", inner) as j:
        visit(t.plus(i, j), inner, j)
