"""Bodies of kernels over rows: norms of layers, groups and columns, and their gradients.

May import: row_text.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from .row_text import Each, RowText


def _moments(k: RowText, x: int) -> tuple[Each, str, str]:
    """Return what gives a row's elements less their mean, the mean and the variance."""
    t = k.t
    (middle,) = k.mean(lambda v, mask: k.load(x, v, mask))

    def away(v: str, mask: str | None) -> str:
        return t.sub(k.load(x, v, mask), middle)

    def square(v: str, mask: str | None) -> str:
        a = away(v, mask)
        return t.mul(a, a)

    (spread,) = k.mean(square)
    return away, middle, spread


def _standardize(k: RowText, x: int) -> tuple[Each, str]:
    """Return what gives a row's elements with mean 0 and variance 1, and 1 / their deviation."""
    t = k.t
    away, _, spread = _moments(k, x)
    scale = t.div(t.number(1.0), t.intrinsic("sqrt", t.add(spread, k.number)))
    return lambda v, mask: t.mul(away(v, mask), scale), scale


def row_moments(k: RowText) -> None:
    """x, mean, variance: those of each row."""
    _, *moments = _moments(k, 0)
    for i, moment in enumerate(moments):
        k.store_first(1 + i, k.row, moment)


def layer_norm(k: RowText) -> None:
    """x, weight, bias, out: each row standardized, scaled and shifted; number is epsilon."""
    t = k.t
    y, _ = _standardize(k, 0)

    def result(v: str, mask: str | None) -> str:
        scaled = t.mul(y(v, mask), k.load(1, v, mask, True))
        return k.store(3, t.add(scaled, k.load(2, v, mask, True)), v, mask)

    t.each(result, k.integers[0])


def _centre(k: RowText, x: int, flow: Each) -> tuple[Each, Each]:
    """Return what gives the gradient of a row standardized, `flow`'s, and the row's elements so.

    Two sums at a time: of x and the flow, of squares and products with them.
    """
    t = k.t
    mean, middle = k.mean(partial(k.load, x), flow)

    def away(v: str, mask: str | None) -> str:
        return t.sub(k.load(x, v, mask), mean)

    def square(v: str, mask: str | None) -> str:
        a = away(v, mask)
        return t.mul(a, a)

    spread, along = k.mean(square, lambda v, mask: t.mul(flow(v, mask), away(v, mask)))
    scale = t.div(t.number(1.0), t.intrinsic("sqrt", t.add(spread, k.number)))
    along = t.mul(along, scale)

    def y(v: str, mask: str | None) -> str:
        return t.mul(away(v, mask), scale)

    def inner(v: str, mask: str | None) -> str:
        return t.mul(t.sub(t.sub(flow(v, mask), middle), t.mul(y(v, mask), along)), scale)

    return inner, y


def standardize_gradient(k: RowText) -> None:
    """g, x, dx: the gradient of each row standardized; number is epsilon."""
    inner, _ = _centre(k, 1, partial(k.load, 0))
    k.t.each(lambda v, mask: k.store(2, inner(v, mask), v, mask), k.integers[0])


def layer_norm_gradient(k: RowText) -> None:
    """g, x, weight, dx, dweight, dbias: the gradients; the last two a row for each `rows` rows."""
    t = k.t
    n, rows, _ = k.integers
    part = t.times(t.emit(f"sdiv i64 {k.row}, {rows}"), n)
    inner, y = _centre(k, 1, lambda v, mask: t.mul(k.load(0, v, mask), k.load(2, v, mask, True)))

    def share(v: str, mask: str | None) -> None:
        g = k.load(0, v, mask)
        k.store(3, inner(v, mask), v, mask)
        total = t.plus(part, v)
        into = t.add(k.load(4, total, mask, True), t.mul(g, y(v, mask)))
        k.store(4, into, total, mask, True)
        k.store(5, t.add(k.load(5, total, mask, True), g), total, mask, True)

    t.each(share, n)


@contextmanager
def _each_channel(k: RowText) -> Iterator[tuple[str, str, str, str]]:
    """Write a loop over the channels of a group, whose elements lie one behind another in its row.

    Gives where one begins and ends in the row, its number in the sample, and among all samples'.
    `rows` is the elements of a channel, `first` the channels of a sample.
    """
    t = k.t
    n, size, channels = k.integers
    count = t.emit(f"sdiv i64 {n}, {size}")
    before = t.times(k.row, count)
    with t.loop("c", count) as c:
        start, number = t.times(c, size), t.plus(before, c)
        yield start, t.plus(start, size), t.emit(f"urem i64 {number}, {channels}"), number


def group_norm(k: RowText) -> None:
    """x, weight, bias, out: each row standardized, each channel of it scaled and shifted."""
    t = k.t
    y, _ = _standardize(k, 0)
    with _each_channel(k) as (start, stop, channel, _):
        scale, shift = k.spread_from(1, channel), k.spread_from(2, channel)
        t.each(lambda v, m: k.store(3, t.add(t.mul(y(v, m), scale), shift), v, m), stop, start)


def group_norm_gradient(k: RowText) -> None:
    """g, x, weight, dx, along, total: the gradient; Σ g y and Σ g of each channel of a sample."""
    t = k.t
    y, scale = _standardize(k, 1)
    for variable in k.totals:
        t.store(t.number(0.0), variable)
    with _each_channel(k) as (start, stop, channel, number):
        weight = k.spread_from(2, channel)
        folds = ("sum", lambda v, m: t.mul(k.load(0, v, m), y(v, m))), ("sum", partial(k.load, 0))
        for i, total in enumerate(k.fold(stop, *folds, start=start)):
            k.store_first(4 + i, number, total)
            t.store(t.add(t.load(k.totals[i]), t.mul(weight, total)), k.totals[i])
    count = t.from_whole(k.integers[0])
    along, middle = (t.div(t.load(variable), count) for variable in k.totals)
    with _each_channel(k) as (start, stop, channel, _):
        weight = k.spread_from(2, channel)

        def share(v: str, mask: str | None) -> str:
            flow = t.sub(t.mul(k.load(0, v, mask), weight), middle)
            inner = t.sub(flow, t.mul(y(v, mask), along))
            return k.store(3, t.mul(inner, scale), v, mask)

        t.each(share, stop, start)


def column_moments(k: RowText) -> None:
    """x, mean, variance: those of each column of a matrix of `rows` rows; both are 0 before."""
    t = k.t
    rows = t.from_whole(k.integers[1])

    def square(v: str, mask: str | None) -> str:
        away = t.sub(k.load(0, v, mask), k.load(1, v, mask, True))
        return t.mul(away, away)

    _add_columns(k, {1: partial(k.load, 0)})
    _divide_columns(k, 1, rows)
    _add_columns(k, {2: square})
    _divide_columns(k, 2, rows)


def column_sums(k: RowText) -> None:
    """g, x, mean, inverse, along, total: Σ g y and Σ g of each column; both are 0 before."""
    t = k.t

    def along(v: str, mask: str | None) -> str:
        y = t.mul(t.sub(k.load(1, v, mask), k.load(2, v, mask, True)), k.load(3, v, mask, True))
        return t.mul(k.load(0, v, mask), y)

    _add_columns(k, {4: along, 5: partial(k.load, 0)})


def channel_sums(k: RowText) -> None:
    """g, x, mean, inverse, along, total: Σ g y and Σ g of each row, whose channel is row % rows."""
    t = k.t
    channel = t.emit(f"urem i64 {k.row}, {k.integers[1]}")
    mean, inverse = k.spread_from(2, channel), k.spread_from(3, channel)

    def along(v: str, mask: str | None) -> str:
        return t.mul(k.load(0, v, mask), t.mul(t.sub(k.load(1, v, mask), mean), inverse))

    sums = k.fold(k.integers[0], ("sum", along), ("sum", partial(k.load, 0)))
    for i, total in enumerate(sums):
        k.store_first(4 + i, k.row, total)


def _add_columns(k: RowText, values: dict[int, Each]) -> None:
    """Add values of all rows to arrays that have a number a column, for the thread's columns."""
    t = k.t

    def add(v: str, mask: str | None) -> None:
        for into, value in values.items():
            total = t.add(k.load(into, v, mask, True), value(v, mask))
            k.store(into, total, v, mask, True)

    with t.loop("i", k.integers[1]) as i:
        k.first = t.times(i, k.integers[0])
        t.each(add, "%hi", "%lo")


def _divide_columns(k: RowText, array: int, by: str) -> None:
    def divide(v: str, mask: str | None) -> str:
        return k.store(array, k.t.div(k.load(array, v, mask, True), by), v, mask, True)

    k.t.each(divide, "%hi", "%lo")
