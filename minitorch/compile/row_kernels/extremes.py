"""Bodies of kernels that run along lines: where the largest, or smallest, element so far is.

Numbers are compared as integers in the same order, NaN the most extreme: one instruction each.

May import: row_text; text.
"""

from functools import partial

from ..text import Text
from .row_text import RowText


def _place_of_extreme(k: RowText, largest: bool) -> None:
    """x, out: the places, of 64 bits, along lines whose elements lie `rows` apart.

    Of equal elements the last counts.
    """
    t, apart = k.t, k.integers[1]
    with t.when(t.emit(f"icmp eq i64 {apart}, 1")):
        _begin(k)
        t.each(lambda v, mask: _run_along(k, v, mask, largest), k.integers[0])
    with t.when(t.emit(f"icmp ne i64 {apart}, 1")):
        t.each(lambda v, mask: _run_beside(k, v, mask, largest), apart)


def _begin(k: RowText) -> None:
    """Write that nothing is the extreme so far, and at place 0."""
    for variable, value in zip(k.totals, (_least(k.t), 0), strict=True):
        k.t.store(k.t.whole(value), variable, element=k.t.integer)


def _run_along(k: RowText, v: str, mask: str | None, largest: bool) -> None:
    """Write the places of a vector of a line that lies in one run."""
    t, least, last = k.t, k.t.whole(_least(k.t)), [k.t.width - 1] * k.t.width
    best, place = (t.load(variable, element=t.integer) for variable in k.totals)
    keys = _keys(t, k.load(0, v, mask), largest)
    best = _greater(t, _prefix(t, keys, least), best)
    wins = t.emit(f"icmp eq {t.bits} {best}, {keys}")
    here = t.int_op("add", _spread(t, v), _lanes(t))
    chosen = t.emit(f"select {t.mask} {wins}, {t.bits} {here}, {t.bits} {t.whole(0)}")
    place = _greater(t, _prefix(t, chosen, t.whole(0)), place)
    _store(k, place, v, mask)
    for variable, value in zip(k.totals, (best, place), strict=True):
        t.store(t.shuffle(value, least, last, t.integer), variable, element=t.integer)


def _run_beside(k: RowText, v: str, mask: str | None, largest: bool) -> None:
    """Write the places of as many lines as a vector has lanes."""
    t, (n, apart, _) = k.t, k.integers
    _begin(k)
    with t.loop("i", t.emit(f"sdiv i64 {n}, {apart}")) as i:
        best, place = (t.load(variable, element=t.integer) for variable in k.totals)
        element = t.plus(t.times(i, apart), v)
        keys = _keys(t, k.load(0, element, mask), largest)
        wins = t.emit(f"icmp sge {t.bits} {keys}, {best}")
        place = t.emit(f"select {t.mask} {wins}, {t.bits} {_spread(t, i)}, {t.bits} {place}")
        _store(k, place, element, mask)
        for variable, value in zip(k.totals, (_greater(t, keys, best), place), strict=True):
            t.store(value, variable, element=t.integer)


def _least(t: Text) -> int:
    return -1 << (8 * t.item - 1)


def _keys(t: Text, x: str, largest: bool) -> str:
    """Return integers in the order of numbers, or turned round; -0 is 0, NaN above all."""
    bits = t.as_bits(t.add(x, t.number(0.0)))
    sign = t.int_op("ashr", bits, t.whole(8 * t.item - 1))
    keys = t.int_op("xor", bits, t.int_op("lshr", sign, t.whole(1)))
    keys = keys if largest else t.int_op("xor", keys, t.whole(-1))
    is_nan, most = t.compare("uno", x, x), t.whole(-_least(t) - 1)
    return t.emit(f"select {t.mask} {is_nan}, {t.bits} {most}, {t.bits} {keys}")


def _greater(t: Text, a: str, b: str) -> str:
    wins = t.emit(f"icmp sgt {t.bits} {a}, {b}")
    return t.emit(f"select {t.mask} {wins}, {t.bits} {a}, {t.bits} {b}")


def _prefix(t: Text, a: str, least: str) -> str:
    """Return the greatest of each lane and all before: with those 1, 2, 4, ... further on."""
    step = 1
    while step < t.width:
        moved = [i - step if i >= step else t.width for i in range(t.width)]
        a, step = _greater(t, a, t.shuffle(a, least, moved, t.integer)), 2 * step
    return a


def _spread(t: Text, number: str) -> str:
    """Return a number of 64 bits in every lane."""
    short = t.emit(f"trunc i64 {number} to i32") if t.single else number
    return t.spread(t.integer, short)


def _lanes(t: Text) -> str:
    return "<" + ", ".join(f"{t.integer} {i}" for i in range(t.width)) + ">"


def _store(k: RowText, places: str, at: str, mask: str | None) -> None:
    t = k.t
    wide = t.emit(f"sext {t.bits} {places} to {t.of('i64')}") if t.single else places
    t.store(wide, t.at(k.bases[1], t.plus(k.first, at), "i64"), mask, element="i64")


place_of_largest = partial(_place_of_extreme, largest=True)
place_of_smallest = partial(_place_of_extreme, largest=False)
